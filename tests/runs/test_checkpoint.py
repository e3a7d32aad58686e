"""Checkpoints restore a state bit-exact, or say why they cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.runs import checkpoint
from disco_rl.runs import files
from tests.support import small

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
  checkpoint.save(tmp_path / 'state.npz', TREE)
  _assert_same(checkpoint.load(tmp_path / 'state.npz', TREE), TREE)
  # Keys give the same numbers.
  loaded = checkpoint.load(tmp_path / 'state.npz', TREE)
  np.testing.assert_array_equal(
    jax.random.uniform(loaded['key'][0]), jax.random.uniform(TREE['key'][0])
  )


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (dict(steps=jnp.zeros(2, jnp.int32)), 'steps has the'),
    (dict(steps=jnp.array(7.0)), 'steps has the'),
    (dict(more=jnp.zeros(1)), r"missing \['more'\]"),
    (dict(mask=None), r"not expected \['mask'\]"),
  ],
)
def test_another_tree_is_refused(tmp_path, change, message):
  checkpoint.save(tmp_path / 'x.npz', TREE)
  with pytest.raises(checkpoint.CheckpointError, match=message):
    checkpoint.load(tmp_path / 'x.npz', {**TREE, **change})


def test_host_values_keep_their_types(tmp_path):
  """Environments may have 64 bits and Python numbers, unlike JAX."""
  tree = dict(
    place=np.array([2**40, -1]),
    clock=np.float64(1 / 3),
    step=3,
    name='maze',
    is_open=True,
    weights=jnp.ones(2),
  )
  checkpoint.save(tmp_path / 'x.npz', tree)
  other = dict(tree, step=0, name='', is_open=False, place=np.zeros(2, int))
  loaded = checkpoint.load(tmp_path / 'x.npz', other)
  for name, value in tree.items():
    np.testing.assert_array_equal(loaded[name], value)
    assert np.asarray(loaded[name]).dtype == np.asarray(value).dtype
  assert isinstance(loaded['weights'], jax.Array)
  assert type(loaded['step']) is int and type(loaded['name']) is str
  with pytest.raises(checkpoint.CheckpointError, match='a float is needed'):
    checkpoint.load(tmp_path / 'x.npz', dict(tree, step=3.0))
  for unfit in (2**100, object()):
    with pytest.raises(checkpoint.CheckpointError, match='rng/state cannot'):
      checkpoint.check(dict(rng=dict(state=unfit)))


def test_unreadable_files_are_refused(tmp_path):
  path = tmp_path / 'x.npz'
  with pytest.raises(checkpoint.CheckpointError, match='cannot read'):
    checkpoint.load(path, TREE)
  checkpoint.save(path, TREE)
  path.write_bytes(path.read_bytes()[:-30])
  with pytest.raises(checkpoint.CheckpointError, match='cannot read'):
    checkpoint.load(path, TREE)


@pytest.mark.parametrize('found', [None, 1, 3])
def test_a_checkpoint_of_another_format_is_refused(tmp_path, found):
  path = tmp_path / 'x.npz'
  checkpoint.save(path, TREE)
  arrays = files.read_npz(path)
  assert arrays.pop('__format__') == checkpoint.FORMAT
  if found is not None:
    arrays['__format__'] = np.int32(found)
  np.savez(path, **arrays)
  with pytest.raises(checkpoint.CheckpointError) as error:
    checkpoint.load(path, TREE)
  assert str(error.value) == (
    f'the checkpoint {path} was made by another version of disco_rl: it has '
    f'the format {found or 1}, and this version reads 2'
  )


@pytest.mark.parametrize(
  ('rule', 'env_name', 'num_devices'),
  [
    pytest.param('disco', 'catch', 1, marks=pytest.mark.slow),
    ('actor_critic', 'catch', 2),
    ('actor_critic', 'catch_numpy', 2),
  ],
)
def test_a_population_resumes_bit_exact(tmp_path, rule, env_name, num_devices):
  """Replay, keys, environment, optimiser and meta-state included."""
  make = lambda: small.make_population(
    rule, env_name, seeds=(0, 4), num_devices=num_devices
  )
  population, eta = make()
  state, _ = population.run(eta, population.init(), 5)
  checkpoint.save(tmp_path / 'x.npz', population.to_checkpoint(state))
  state, metrics = population.run(eta, state, 5)

  other, _ = make()
  resumed = other.from_checkpoint(
    checkpoint.load(tmp_path / 'x.npz', like=other.to_checkpoint(other.init()))
  )
  resumed, resumed_metrics = other.run(eta, resumed, 5)
  jax.tree.map(np.testing.assert_array_equal, resumed_metrics, metrics)
  _assert_same(other.to_checkpoint(resumed), population.to_checkpoint(state))


def test_parts_are_left_out(tmp_path):
  path = tmp_path / 'state.npz'
  saved = {'a': np.zeros(2), 'env': {'x': [np.ones(1), np.ones(1)]}}
  checkpoint.save(path, saved)
  like = {'a': np.zeros(2), 'env': {'x': [np.ones(3)], 'y': 'text'}}
  left_out = ['env/x/0', 'env/y']
  loaded = checkpoint.load(path, like, left_out=left_out)
  np.testing.assert_array_equal(loaded['a'], saved['a'])
  assert loaded['env'] == {'x': [None], 'y': None}
  with pytest.raises(checkpoint.CheckpointError, match='not expected'):
    checkpoint.load(path, like, left_out=['env/y'])
  with pytest.raises(checkpoint.CheckpointError, match='missing'):
    checkpoint.load(path, {**like, 'b': 1}, left_out=left_out)


def test_names_below_a_part():
  some, others = ['a/b/0', 'a/b/1'], ['a/c', 'd']
  for name, wanted in (
    *(('a/b/0', True), ('a/b/2', True), ('a/b/0/x', True)),
    *(('a/c', False), ('a/x', False), ('x', False), ('d', False)),
  ):
    assert checkpoint.is_below(name, some, others) == wanted, name
  assert not checkpoint.is_below('a/b/0', [], others)
