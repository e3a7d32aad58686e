"""Replay: what is stored, replaced and sampled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.learning import replay
from tests.support import small


def _rollout(values, num_steps=3):
  """Makes one trajectory per value, with that value in all its fields."""
  x = jnp.broadcast_to(
    jnp.asarray(values, jnp.float32), (num_steps, len(values))
  )
  return types.ActorRollout(
    observations={'o': x[..., None]},
    actions=x.astype(jnp.int32),
    rewards=x,
    discounts=x > 0,
    agent_outs=dict(logits=x[..., None]),
    states={},
    logits=x[..., None],
  )


def test_replay_is_first_in_first_out():
  buffer = replay.init(_rollout([0, 0]), capacity=6)
  add = jax.jit(replay.add)
  for i in range(5):
    buffer = add(buffer, _rollout([2 * i, 2 * i + 1]))
    newest = range(max(0, 2 * i - 4), 2 * i + 2)
    stored = buffer.data.rewards[: int(replay.size(buffer)), 0]
    assert sorted(stored.tolist()) == list(newest)
  assert add._cache_size() == 1
  assert buffer.data.observations['o'].shape == (6, 3, 1)
  assert buffer.data.actions.dtype == jnp.int32


def test_replay_samples_whole_trajectories_uniformly():
  buffer = replay.init(_rollout([0, 0]), capacity=8)
  for i in range(2):  # Half full: the other half must not be sampled.
    buffer = replay.add(buffer, _rollout([1 + 2 * i, 2 + 2 * i]))
  batch = jax.jit(replay.sample, static_argnums=2)(
    buffer, jax.random.PRNGKey(0), 4000
  )
  assert batch.rewards.shape == (3, 4000)
  for leaf in (batch.rewards, batch.actions, batch.logits[..., 0]):
    np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[0], leaf.shape))
  np.testing.assert_array_equal(batch.rewards, batch.actions)
  counts = np.bincount(np.asarray(batch.actions[0]), minlength=5)
  assert counts[0] == 0
  np.testing.assert_allclose(counts[1:], 1000, atol=4 * np.sqrt(750))


@pytest.mark.parametrize('capacity', [0, 1, 7])
def test_replay_of_an_odd_size_is_refused(capacity):
  with pytest.raises(ValueError, match=f'multiple of the 2 .* got {capacity}'):
    replay.init(_rollout([0, 0]), capacity)


def test_what_is_stored_is_what_a_learner_reads():
  """All is restored but the network's later states; logits are stored once."""
  rollout = _rollout([1, 2]).replace(
    states={'h': jnp.arange(12).reshape(3, 2, 2)}
  )
  stored = replay.to_stored(rollout)
  assert stored.logits is None
  back = replay.from_stored(stored)
  np.testing.assert_array_equal(back.states['h'], rollout.states['h'][:1])
  assert (
    back.first_state(0)['h'].tolist() == rollout.first_state(0)['h'].tolist()
  )
  jax.tree.map(
    np.testing.assert_array_equal,
    back.replace(states=None),
    rollout.replace(states=None),
  )
  # Storing a stored rollout changes nothing.
  again = replay.to_stored(back)
  jax.tree.map(np.testing.assert_array_equal, again, stored)


def test_a_buffer_holds_the_logits_once():
  rollout = _rollout([1, 2])
  stored = replay.to_stored(rollout)
  buffer = replay.init(jax.eval_shape(replay.to_stored, rollout), capacity=6)
  assert buffer.data.logits is None
  buffer = replay.add(buffer, stored)
  assert buffer.data.agent_outs['logits'].shape == (6, 3, 1)
  leaves = jax.tree.leaves(buffer.data)
  assert len(leaves) == len(jax.tree.leaves(rollout)) - 1
  # Also the buffer of agents that act and learn.
  population, _ = small.make_population()
  data = population.init().buffer.data
  assert data.logits is None and set(data.agent_outs) == {'logits'}
  shapes = [x.shape for x in jax.tree.leaves(data)]
  assert shapes.count((1, 16, 6, small.NUM_ACTIONS)) == 1


def test_next_batch_has_fresh_trajectories_first_or_none():
  batching = batching_lib.Batching(
    batch_size=5,
    rollout_length=3,
    num_envs=2,
    fresh_in_batch=True,
    replay_capacity=4,
    min_replay_size=2,
  )
  old, fresh = (replay.to_stored(_rollout(x)) for x in ([1, 2], [3, 4]))
  buffer = replay.init(old, capacity=4)
  buffer = replay.add(replay.add(buffer, old), fresh)
  next_batch = jax.jit(replay.next_batch, static_argnums=3)
  keys = jax.random.split(jax.random.PRNGKey(0), 40)

  batches = [next_batch(buffer, fresh, key, batching) for key in keys]
  values = np.stack([batch.rewards[0] for batch in batches])
  assert values.shape == (40, 5)
  assert (values[:, :2] == [3, 4]).all()
  assert set(values[:, 2:].ravel()) == {1, 2, 3, 4}
  np.testing.assert_array_equal(
    batches[0].logits, batches[0].agent_outs['logits']
  )

  sampled = dataclasses.replace(batching, fresh_in_batch=False)
  values = np.stack(
    [next_batch(buffer, fresh, key, sampled).rewards[0] for key in keys]
  )
  assert values.shape == (40, 5)
  assert all(set(values[:, i]) == {1, 2, 3, 4} for i in range(5))

  # Without a buffer, the batch is the new rollout.
  on_policy = next_batch(None, fresh, keys[0], batching)
  jax.tree.map(np.testing.assert_array_equal, on_policy, _rollout([3, 4]))
