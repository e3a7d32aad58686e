"""Agents never choose illegal actions, and experience keeps the masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.config import batching as batching_lib
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import guarded_env
from disco_rl.learning import actors
from disco_rl.learning import replay
from tests.support import masked
from tests.support import masked_learning


def _unroll(an_agent, env, num_steps):
  """Acts, with θ that prefers the locked door."""
  actor = actors.make(an_agent, env)
  rng = jax.random.PRNGKey(0)
  params = jax.tree.map(
    lambda x: 3 * x + 1, an_agent.initial_learner_state(rng).params
  )
  state = actor.init(rng, rng)
  return actor.unroll(params, state, jax.random.split(rng, num_steps))


def test_masked_actions_have_probability_zero_and_are_never_sampled():
  an_agent = masked_learning.make_agent('actor_critic')
  _, rollout = _unroll(an_agent, masked.environment(64), 50)
  mask = np.asarray(rollout.action_mask)
  assert mask.shape == (50, 64, 4) and (mask.sum(-1) == 3).all()
  p = np.asarray(jax.nn.softmax(rollout.logits))
  assert (p[~mask] == 0).all()
  assert np.take_along_axis(mask, rollout.actions[..., None], -1).all()
  assert rollout.rewards.min() == 0.0
  np.testing.assert_array_equal(rollout.logits, rollout.agent_outs['logits'])
  # Without the mask they would be chosen.
  kind = masked.UnmaskedDoors
  _, free = _unroll(an_agent, masked.environment(64, kind), 50)
  assert free.action_mask is None
  assert free.rewards.min() == masked.CATASTROPHE


def test_the_mask_belongs_to_the_observation_also_where_an_episode_ends():
  an_agent = masked_learning.make_agent('actor_critic')
  _, rollout = _unroll(an_agent, masked.environment(3), 10)
  locked = np.asarray(rollout.observations[..., masked.NUM_DOORS :])
  np.testing.assert_array_equal(rollout.action_mask, locked == 0)
  is_last = np.asarray(rollout.is_last)
  assert is_last[3].all() and is_last.sum() == 9
  step = jax.tree.map(lambda x: x[3], rollout)
  timestep = step.to_env_timestep()
  np.testing.assert_array_equal(timestep.action_mask, rollout.action_mask[3])


def test_a_mask_of_legal_actions_only_changes_no_bit():
  an_agent = masked_learning.make_agent('disco')
  with_mask, without = (
    _unroll(an_agent, masked.environment(5, kind), 12)[1]
    for kind in (masked.AllLegalDoors, masked.UnmaskedDoors)
  )
  assert with_mask.action_mask.all() and without.action_mask is None
  for name in ('observations', 'actions', 'rewards', 'discounts', 'logits'):
    np.testing.assert_array_equal(with_mask[name], without[name], name)


def test_on_the_host_the_rollout_has_the_same_masks():
  streams = [batched_env.single_stream_env.SingleStreamEnv(masked.DmDoors())]
  env = guarded_env.GuardedEnvironment(batched_env.StreamBatch(streams), 'x')
  an_agent = masked_learning.agent.Agent.for_environment(
    env, masked_learning.small.settings('actor_critic')
  )
  _, rollout = _unroll(an_agent, env, 9)
  clock = np.arange(9) % masked.NUM_DOORS
  wanted = np.arange(masked.NUM_DOORS) != clock[:, None]
  np.testing.assert_array_equal(rollout.action_mask[:, 0], wanted)
  assert rollout.rewards.min() == 0.0
  p = np.asarray(jax.nn.softmax(rollout.logits[:, 0]))
  assert (p[~wanted] == 0).all()


@pytest.mark.parametrize('fresh_in_batch', [False, True])
def test_replay_keeps_the_mask_of_every_step(fresh_in_batch):
  an_agent = masked_learning.make_agent('actor_critic')
  sizes = batching_lib.Batching(
    batch_size=8,
    rollout_length=7,
    num_envs=4,
    replay_capacity=16,
    fresh_in_batch=fresh_in_batch,
  )
  actor = actors.make(an_agent, masked.environment(4))
  rng = jax.random.PRNGKey(0)
  params = an_agent.initial_learner_state(rng).params
  state = actor.init(rng, rng)
  buffer = replay.init_for(actor.rollout_spec(params, state, 7), sizes)
  for key in jax.random.split(rng, 5):
    state, rollout = actor.unroll(params, state, jax.random.split(key, 7))
    fresh = replay.to_stored(rollout)
    buffer = replay.add(buffer, fresh)
  batch = replay.next_batch(buffer, fresh, rng, sizes)
  assert batch.action_mask.shape == (7, 8, 4)
  locked = batch.observations[..., masked.NUM_DOORS :]
  np.testing.assert_array_equal(batch.action_mask, locked == 0)
  assert len(np.unique(jnp.argmin(batch.action_mask, -1), axis=1).T) > 1
