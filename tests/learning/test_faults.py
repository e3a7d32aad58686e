"""Non-finite numbers from environments in JAX: array, stream and step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.learning import faults

T, B = 4, 3


def _experience(field=None, at=()):
  """Makes a rollout and the timestep after it, with one NaN."""
  arrays = dict(
    a=np.zeros((T + 1, B, 2), np.float32),
    b=np.zeros((T + 1, B), np.uint8),
    c=np.zeros((T + 1, B, 2, 2), np.float16),
    reward=np.zeros((T + 1, B), np.float32),
  )
  # The last step of all is the timestep after the rollout.
  arrays = {k: np.concatenate([x, x[:1]]) for k, x in arrays.items()}
  if field is not None:
    arrays[field][at] = np.inf if field == 'c' else np.nan
  rewards = arrays.pop('reward')
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
    step_type=None,
    reward=rewards[-1],
  )
  return rollout, timestep


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
  rollout, timestep = _experience(field, at)
  index = jax.jit(faults.first)(rollout, timestep)
  error = faults.error(index, timestep, B, 'maze', 'iteration 7')
  assert (error.array, error.stream) == (array, at[1])
  assert str(error).startswith(
    f'maze returned NaN or infinity in the {array} of stream {at[1]} '
    f'(iteration 7, step {at[0]} of the rollout)'
  )


def test_the_earliest_step_is_reported():
  rollout, timestep = _experience('a', (3, 0, 0))
  rewards = rollout.rewards.copy()
  rewards[2, 1] = np.nan
  index = faults.first(rollout.replace(rewards=rewards), timestep)
  error = faults.error(index, timestep, B, 'x', 'y')
  assert error.array == 'reward' and 'step 2 ' in error.place


def test_streams_are_counted_over_shards():
  """The fault of one shard is reported by all."""
  shards = [_experience(), _experience('a', (1, 2, 0))]
  stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *shards)
  indices = jax.vmap(
    lambda rollout, timestep: faults.first(rollout, timestep, 'shards'),
    axis_name='shards',
  )(*stacked)
  assert indices[0] == indices[1] >= 0
  error = faults.error(indices[0], shards[0][1], 2 * B, 'x', 'y')
  assert error.stream == B + 2 and 'step 1 ' in error.place
