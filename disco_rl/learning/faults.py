"""Finds NaN, infinity and other faults of environments in JAX.

`first` is a part of compiled programs, where no error can be raised; its result
is decoded by `error` when the program has run.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import compat
from disco_rl import types
from disco_rl.environments import foreign
from disco_rl.environments import legal_actions
from disco_rl.environments import timesteps

# Name of the result of `first` in metrics and logs.
METRIC = 'first_fault'

_NONE = np.iinfo(np.int32).max


def first(
  rollout: types.ActorRollout,
  step_types: types.Array,
  timestep: types.EnvironmentTimestep,
  axis_name: Any | None = None,
) -> jax.Array:
  """Finds the first number from an environment that cannot be learned from.

  Args:
    rollout: leaves [T+1, B, ...].
    step_types: [T+1, B], those of the rollout.
    timestep: the timestep after it, with which the next rollout begins.
    axis_name: axis over which the batch is sharded, or None.

  Returns:
    [], int32: its index for `error`, or -1 if all are finite, all step types
    known, and some action is legal in every timestep.
  """
  before = [*jax.tree.leaves(rollout.observations), rollout.rewards]
  after = [*jax.tree.leaves(timestep.observation), timestep.reward]
  all_types = jnp.concatenate([step_types, timestep.step_type[None]])
  is_bad = jnp.stack(
    [
      *(
        jnp.concatenate([_has_nonfinite(x, 2), _has_nonfinite(y, 1)[None]])
        for x, y in zip(before, after, strict=True)
        if timesteps.is_float(x)
      ),
      jnp.logical_not(timesteps.is_step_type(all_types)),
      *_without_legal_action(rollout, timestep),
    ],
    axis=1,
  )  # [T+2, number of arrays, B]
  num_streams = is_bad.shape[-1]
  row, stream = jnp.divmod(jnp.argmax(is_bad).astype(jnp.int32), num_streams)
  if axis_name is not None:
    stream += jax.lax.axis_index(axis_name) * num_streams
    num_streams *= compat.axis_size(axis_name)
  index = jnp.where(jnp.any(is_bad), row * num_streams + stream, _NONE)
  if axis_name is not None:
    index = jax.lax.pmin(index, axis_name)
  return jnp.where(index == _NONE, -1, index).astype(jnp.int32)


def error(
  index: int,
  timestep: types.EnvironmentTimestep,
  num_streams: int,
  environment: str,
  place: str,
) -> foreign.ForeignCodeError:
  """Makes the error for a number that was found.

  Args:
    index: from `first`, not -1.
    timestep: any timestep of the environment; only its structure and dtypes are
      used.
    num_streams: B, over all shards.
    environment: name of the environment.
    place: the place before the step, e.g. `'iteration 3'`.

  Returns:
    A `NonFiniteError`, or an `InvalidEnvironmentError` for a step type or an
    action mask.
  """
  arrays = [*jax.tree.leaves(timestep.observation), timestep.reward]
  names = [
    name
    for name, array in zip(timesteps.names(timestep), arrays, strict=True)
    if timesteps.is_float(array)
  ]
  row, stream = divmod(int(index), num_streams)
  has_mask = timestep.action_mask is not None
  step, array = divmod(row, len(names) + 1 + has_mask)
  place = f'{place}, {step_of_rollout(step)}'
  if array == len(names):
    return timesteps.unknown_step_type(environment, stream, place)
  if array > len(names):
    return legal_actions.none_is_legal(environment, stream, place)
  return timesteps.NonFiniteError(
    environment, names[array], stream, place=place
  )


def step_of_rollout(step: int) -> str:
  """Names a step; 0 is the timestep with which a rollout begins."""
  return f'step {step} of the rollout'


def _without_legal_action(
  rollout: types.ActorRollout, timestep: types.EnvironmentTimestep
) -> list[jax.Array]:
  """Returns where no action is legal, [T+2, B]; nothing without a mask."""
  if timestep.action_mask is None:
    return []
  masks = jnp.concatenate([rollout.action_mask, timestep.action_mask[None]])
  return [jnp.logical_not(jnp.any(masks, axis=-1))]


def _has_nonfinite(x: jax.Array, num_kept: int) -> jax.Array:
  """Returns whether any number is not finite, along all but the first axes."""
  axes = tuple(range(num_kept, x.ndim))
  return jnp.any(jnp.logical_not(jnp.isfinite(x)), axis=axes)
