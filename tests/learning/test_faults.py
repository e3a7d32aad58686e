"""Faults of environments in JAX: the array, stream and step are named."""

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.environments import foreign
from disco_rl.learning import faults

T, B = 4, 3


def _experience(field=None, at=()):
  """Makes a rollout, its step types and the timestep after it; one is bad."""
  arrays = dict(
    a=np.zeros((T + 1, B, 2), np.float32),
    b=np.zeros((T + 1, B), np.uint8),
    c=np.zeros((T + 1, B, 2, 2), np.float16),
    reward=np.zeros((T + 1, B), np.float32),
    step_type=np.ones((T + 1, B), np.int32),
  )
  # The last step of all is the timestep after the rollout.
  arrays = {k: np.concatenate([x, x[:1]]) for k, x in arrays.items()}
  if field is not None:
    arrays[field][at] = dict(c=np.inf, step_type=7).get(field, np.nan)
  rewards, step_types = arrays.pop('reward'), arrays.pop('step_type')
  rollout = types.ActorRollout(
    observations=jax.tree.map(lambda x: x[:-1], arrays),
    rewards=rewards[:-1],
    actions=None,
    discounts=None,
    agent_outs=None,
    states=None,
    logits=None,
  )
  timestep = types.EnvironmentTimestep(
    observation=jax.tree.map(lambda x: x[-1], arrays),
    step_type=step_types[-1],
    reward=rewards[-1],
  )
  return rollout, step_types[:-1], timestep


def test_finite_experience_has_no_fault():
  assert faults.first(*_experience()) == -1


@pytest.mark.parametrize(
  ('field', 'at', 'array'),
  [
    ('a', (2, 1, 1), "observation['a']"),
    ('c', (0, 0, 1, 0), "observation['c']"),
    ('c', (T + 1, 2, 0, 0), "observation['c']"),
    ('reward', (T + 1, 1), 'reward'),
    ('reward', (3, 2), 'reward'),
  ],
)
def test_the_array_the_stream_and_the_step_are_named(field, at, array):
  rollout, step_types, timestep = _experience(field, at)
  index = jax.jit(faults.first)(rollout, step_types, timestep)
  error = faults.error(index, timestep, B, 'maze', 'iteration 7')
  assert (error.array, error.stream) == (array, at[1])
  assert str(error).startswith(
    f'maze returned NaN or infinity in the {array} of stream {at[1]} '
    f'(iteration 7, step {at[0]} of the rollout)'
  )


@pytest.mark.parametrize('at', [(0, 2), (3, 1), (T + 1, 0)])
@pytest.mark.parametrize('value', [-1, 3, 7, 2**31 - 1])
def test_unknown_step_types_are_found(at, value):
  rollout, step_types, timestep = _experience('step_type', at)
  for array in (step_types, timestep.step_type):
    array[array == 7] = value
  index = jax.jit(faults.first)(rollout, step_types, timestep)
  error = faults.error(index, timestep, B, 'maze', 'iteration 7')
  assert isinstance(error, foreign.InvalidEnvironmentError)
  assert str(error).startswith(
    f'maze returned an unknown step_type in stream {at[1]} (iteration 7, step '
    f'{at[0]} of the rollout)'
  )


def test_known_step_types_are_no_faults():
  rollout, step_types, timestep = _experience()
  step_types[0], step_types[1] = dm_env.StepType.FIRST, dm_env.StepType.LAST
  assert faults.first(rollout, step_types, timestep) == -1


def test_the_earliest_step_is_reported():
  rollout, step_types, timestep = _experience('a', (3, 0, 0))
  rewards = rollout.rewards.copy()
  rewards[2, 1] = np.nan
  index = faults.first(rollout.replace(rewards=rewards), step_types, timestep)
  error = faults.error(index, timestep, B, 'x', 'y')
  assert error.array == 'reward' and 'step 2 ' in error.place


def test_streams_are_counted_over_shards():
  """The fault of one shard is reported by all."""
  shards = [_experience(), _experience('a', (1, 2, 0))]
  stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *shards)
  indices = jax.vmap(
    lambda *shard: faults.first(*shard, 'shards'),
    axis_name='shards',
  )(*stacked)
  assert indices[0] == indices[1] >= 0
  error = faults.error(indices[0], shards[0][-1], 2 * B, 'x', 'y')
  assert error.stream == B + 2 and 'step 1 ' in error.place
