"""Checks timesteps of environments, with errors that name the array."""

from typing import Any

import dm_env
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import foreign
from disco_rl.environments import layouts

_LONGEST_TEXT = 100  # Characters of a value in a message.
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
_STEP_TYPES = tuple(int(step_type) for step_type in dm_env.StepType)


class NonFiniteError(foreign.ForeignCodeError):
  """Raised when an environment returns NaN or infinity.

  Attributes:
    environment: its name.
    array: `reward` or `observation`, with the path of a leaf.
    stream: index of the stream in the batch.
    value: the first non-finite number; None if it is not known.
    place: when it happened, e.g. `'iteration 3, step 7 of the rollout'`.
  """

  def __init__(
    self,
    environment: str,
    array: str,
    stream: int,
    value: float | None = None,
    place: str = '',
  ):
    """Makes the message; see the attributes."""
    number = 'NaN or infinity' if value is None else str(value)
    when = f' ({place})' if place else ''
    super().__init__(
      f'{environment} returned {number} in the {array} of stream '
      f'{stream}{when}. It was not saved: an earlier checkpoint is unchanged'
    )
    self.environment = environment
    self.array = array
    self.stream = stream
    self.value = value
    self.place = place

  def at(self, place: str) -> 'NonFiniteError':
    """Returns the same error with `place` put before its place."""
    places = ', '.join(filter(None, (place, self.place)))
    return NonFiniteError(
      self.environment, self.array, self.stream, self.value, places
    )


def check(
  timestep: Any, layout: layouts.Layout, method: str
) -> types.EnvironmentTimestep:
  """Checks the shapes and dtypes of a timestep, on the host or while tracing.

  Args:
    timestep: the timestep of a batch.
    layout: the layout it must have.
    method: `reset` or `step`, for messages.

  Returns:
    The timestep, with the observation in the dtypes of the layout, the reward
    in float32 and the step type in int32. Arrays that have them are the same.

  Raises:
    InvalidEnvironmentError: if it has another layout, or an integer that the
      dtype cannot hold.
  """
  name = f'{layout.environment}: {method} returned'
  try:
    observation = timestep.observation
    step_type, reward = timestep.step_type, timestep.reward
  except AttributeError:
    raise foreign.InvalidEnvironmentError(
      f'{name} {_cut(timestep)} as its timestep; a '
      'disco_rl.types.EnvironmentTimestep is needed'
    ) from None
  leaves, structure = jax.tree.flatten(observation)
  is_same = len(leaves) == len(layout.shapes) and all(
    np.shape(leaf) == shape and layouts.narrow(_dtype(leaf)) == dtype
    for leaf, shape, dtype in zip(
      leaves, layout.shapes, layout.dtypes, strict=True
    )
  )
  if not is_same:
    raise foreign.InvalidEnvironmentError(
      _explain_difference(observation, layout, name)
    )
  batch = (layout.batch_size,)
  if np.shape(step_type) != batch or _dtype(step_type).kind not in 'iu':
    raise foreign.InvalidEnvironmentError(
      f'{name} a step_type {_show(step_type)}; integers of the shape {batch} '
      'are needed'
    )
  if np.shape(reward) != batch or not is_real(_dtype(reward)):
    raise foreign.InvalidEnvironmentError(
      f'{name} a reward {_show(reward)}; numbers of the shape {batch} are '
      'needed'
    )
  # Cast here, so that the values that are checked are those that are learned
  # from: a number of 64 bits may be infinite in 32.
  arrays = [*leaves, step_type, reward]
  wanted = (*layout.dtypes, _INT32, _FLOAT32)
  if all(_dtype(x) == dtype for x, dtype in zip(arrays, wanted, strict=True)):
    return timestep
  cast = [
    _cast(array, dtype, i, observation, name)
    for i, (array, dtype) in enumerate(zip(arrays, wanted, strict=True))
  ]
  return types.EnvironmentTimestep(
    observation=jax.tree.unflatten(structure, cast[:-2]),
    step_type=cast[-2],
    reward=cast[-1],
    action_mask=getattr(timestep, 'action_mask', None),
  )


def check_values(
  timestep: types.EnvironmentTimestep, layout: layouts.Layout, method: str
) -> None:
  """Checks the values of a timestep on the host.

  Args:
    timestep: the timestep of a batch, from `check`.
    layout: its layout.
    method: `reset` or `step`, for messages.

  Raises:
    InvalidEnvironmentError: if a step type is unknown.
    NonFiniteError: if a reward or an observation is non-finite.
  """
  step_type = np.asarray(timestep.step_type)
  if not is_step_type(step_type).all():
    raise foreign.InvalidEnvironmentError(
      f'{layout.environment}: {method} returned a step_type of '
      f'{step_type.tolist()[:8]}; only {_STEP_TYPES} (FIRST, MID, LAST) exist'
    )
  check_finite(timestep, layout.environment)


def check_finite(
  timestep: types.EnvironmentTimestep, environment: str, place: str = ''
) -> None:
  """Raises a `NonFiniteError` if a timestep on the host is non-finite.

  Args:
    timestep: leaves [B, ...].
    environment: name of the environment, for the message.
    place: when it was returned, for the message.
  """
  arrays = [*jax.tree.leaves(timestep.observation), timestep.reward]
  for i, array in enumerate(arrays):
    if not is_float(array):
      continue
    finite = np.isfinite(array)
    if not finite.all():
      first = tuple(np.argwhere(~finite)[0])
      raise NonFiniteError(
        environment,
        names(timestep)[i],
        int(first[0]),
        float(np.asarray(array)[first]),
        place,
      )


def names(timestep: Any) -> list[str]:
  """Returns the names of the observation's arrays and of the reward."""
  return [*_observation_names(timestep.observation), 'reward']


def is_step_type(values: types.Array) -> Any:
  """Returns which integers are step types of dm_env."""
  return (values >= _STEP_TYPES[0]) & (values <= _STEP_TYPES[-1])


def unknown_step_type(
  environment: str, stream: int, place: str
) -> foreign.InvalidEnvironmentError:
  """Makes the error for an unknown step type from an environment in JAX.

  Args:
    environment: its name.
    stream: index of the stream in the batch.
    place: when it was returned.

  Returns:
    The error.
  """
  return foreign.InvalidEnvironmentError(
    f'{environment} returned an unknown step_type in stream {stream} '
    f'({place}); only {_STEP_TYPES} (FIRST, MID, LAST) exist. It was not '
    'saved: an earlier checkpoint is unchanged'
  )


def is_float(array: Any) -> bool:
  """Returns whether an array has a floating-point dtype."""
  return bool(jnp.issubdtype(_dtype(array), np.floating))


def is_real(dtype: Any) -> bool:
  """Returns whether a dtype has booleans, integers or real numbers."""
  is_number = jnp.issubdtype(dtype, np.integer) or dtype == np.bool_
  return bool(is_number or jnp.issubdtype(dtype, np.floating))


def check_same(new: Any, old: Any, name: str, old_name: str) -> None:
  """Checks that two trees have the same structure, shapes and dtypes.

  Args:
    new: tree of arrays, perhaps traced.
    old: another one.
    name: name of `new` in messages.
    old_name: name of `old` in messages.

  Raises:
    InvalidEnvironmentError: if they differ.
  """
  news = jax.tree_util.tree_leaves_with_path(new)
  olds = jax.tree_util.tree_leaves_with_path(old)
  structures: list[Any] = [jax.tree.structure(tree) for tree in (new, old)]
  if structures[0] != structures[1]:
    shown, before = (
      [jax.tree_util.keystr(path) or 'one array' for path, _ in leaves]
      for leaves in (news, olds)
    )
    raise foreign.InvalidEnvironmentError(
      f'{name} consists of {_cut(shown)}, but {old_name} of {_cut(before)}'
    )
  for (path, x), (_, y) in zip(news, olds, strict=True):
    is_same = layouts.narrow(_dtype(x)) == layouts.narrow(_dtype(y))
    if np.shape(x) != np.shape(y) or not is_same:
      raise foreign.InvalidEnvironmentError(
        f'{name}{jax.tree_util.keystr(path)} is {_show(x)}, but in {old_name} '
        f'it is {_show(y)}'
      )


def _explain_difference(
  observation: Any, layout: layouts.Layout, name: str
) -> str:
  """Makes the message for an observation that differs from its spec."""
  leaves = jax.tree_util.tree_leaves_with_path(observation)
  if len(leaves) != len(layout.shapes):
    return (
      f'{name} an observation of {len(leaves)} arrays, but its spec has '
      f'{len(layout.shapes)}'
    )
  path, leaf, shape, dtype = next(
    (path, leaf, shape, dtype)
    for (path, leaf), shape, dtype in zip(
      leaves, layout.shapes, layout.dtypes, strict=True
    )
    if np.shape(leaf) != shape or layouts.narrow(_dtype(leaf)) != dtype
  )
  return (
    f'{name} the observation{jax.tree_util.keystr(path)} {_show(leaf)}, but '
    f'its spec has {dtype} and the shape {shape}'
  )


def _dtype(array: Any) -> Any:
  dtype = getattr(array, 'dtype', None)
  return np.asarray(array).dtype if dtype is None else dtype


def _cast(
  array: Any, dtype: np.dtype, index: int, observation: Any, name: str
) -> types.Array:
  """Casts an array, and refuses integers that change, except while tracing.

  Args:
    array: [B, ...].
    dtype: the dtype to cast it to.
    index: its index in the observation's arrays, the step type and the reward.
    observation: the observation, for messages.
    name: beginning of messages.

  Returns:
    The array; the same if it has the dtype.
  """
  own = _dtype(array)
  if own == dtype:
    return array
  may_change = dtype.kind in 'iu' and not np.can_cast(own, dtype)
  if may_change and not isinstance(array, jax.core.Tracer):
    values, range_ = np.asarray(array), np.iinfo(dtype)
    if values.min() < range_.min or values.max() > range_.max:
      is_outside = (values < range_.min) | (values > range_.max)
      first = tuple(np.argwhere(is_outside)[0])
      array_name = [*_observation_names(observation), 'step_type'][index]
      raise foreign.InvalidEnvironmentError(
        f'{name} {values[first]} in the {array_name} of stream {first[0]}; '
        f'integers are stored as {dtype}, between {range_.min} and '
        f'{range_.max}'
      )
  with np.errstate(over='ignore', invalid='ignore'):  # See `check_finite`.
    if isinstance(array, jax.Array):
      return array.astype(dtype)
    return np.asarray(array, dtype)


def _observation_names(observation: Any) -> list[str]:
  paths = jax.tree_util.tree_leaves_with_path(observation)
  return [f'observation{jax.tree_util.keystr(path)}' for path, _ in paths]


def _show(array: Any) -> str:
  return f'of {_dtype(array)} and the shape {np.shape(array)}'


def _cut(value: Any) -> str:
  return fields.shorten(value, _LONGEST_TEXT)
