"""Checkpoints restore a state to the bit, or say why they cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import checkpoint
from tests import small

TREE = {
  'weights': {'w': jnp.linspace(0, 1, 6).reshape(2, 3), 'b': jnp.zeros(3)},
  'steps': jnp.array(7, jnp.int32),
  'half': jnp.array([1.5, -2.0], jnp.bfloat16),
  'mask': jnp.array([True, False]),
  'raw_key': jax.random.PRNGKey(3),
  'key': jax.random.split(jax.random.key(3), 2),
  'nothing': None,
}


def _assert_same(actual, wanted):
  assert jax.tree.structure(actual) == jax.tree.structure(wanted)
  for a, b in zip(
    jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True
  ):
    assert a.dtype == b.dtype
    raw = checkpoint._raw
    np.testing.assert_array_equal(np.asarray(raw(a)), np.asarray(raw(b)))


def test_round_trip(tmp_path):
  checkpoint.save(tmp_path / 'run' / 'state.npz', TREE)
  _assert_same(checkpoint.load(tmp_path / 'run' / 'state.npz', TREE), TREE)
  # Keys go on as if nothing had happened.
  loaded = checkpoint.load(tmp_path / 'run' / 'state.npz', TREE)
  np.testing.assert_array_equal(
    jax.random.uniform(loaded['key'][0]), jax.random.uniform(TREE['key'][0])
  )


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (dict(steps=jnp.zeros(2, jnp.int32)), 'steps is'),
    (dict(steps=jnp.array(7.0)), 'steps is'),
    (dict(more=jnp.zeros(1)), r"missing \['more'\]"),
    (dict(mask=None), r"not expected \['mask'\]"),
  ],
)
def test_another_tree_is_refused(tmp_path, change, message):
  checkpoint.save(tmp_path / 'x.npz', TREE)
  with pytest.raises(checkpoint.CheckpointError, match=message):
    checkpoint.load(tmp_path / 'x.npz', {**TREE, **change})


def test_unreadable_files_are_refused(tmp_path):
  path = tmp_path / 'x.npz'
  with pytest.raises(checkpoint.CheckpointError, match='cannot read'):
    checkpoint.load(path, TREE)
  checkpoint.save(path, TREE)
  path.write_bytes(path.read_bytes()[:-30])
  with pytest.raises(checkpoint.CheckpointError, match='cannot read'):
    checkpoint.load(path, TREE)


def test_an_experiment_goes_on_bit_by_bit(tmp_path):
  """Replay, keys, environment, optimiser and meta-state included."""
  experiment, _, _, eta = small.make_experiment('disco')
  rng = jax.random.PRNGKey(0)
  state, _ = experiment.run(eta, experiment.init(rng), 5)
  checkpoint.save(tmp_path / 'x.npz', state)
  state, metrics = experiment.run(eta, state, 5)

  fresh = jax.eval_shape(experiment.init, rng)
  resumed = checkpoint.load(tmp_path / 'x.npz', like=fresh)
  resumed, resumed_metrics = experiment.run(eta, resumed, 5)
  _assert_same(resumed, state)
  jax.tree.map(np.testing.assert_array_equal, resumed_metrics, metrics)
