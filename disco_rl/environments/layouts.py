"""Checks specs of environments, and makes the layout of their timesteps."""

from collections.abc import Mapping
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import foreign

# Dtypes of 64 bits, to those that JAX converts them to.
_NARROWER: dict[np.dtype, np.dtype] = {
  np.dtype(wide): np.dtype(narrow)
  for wide, narrow in (
    (np.float64, np.float32),
    (np.int64, np.int32),
    (np.uint64, np.uint32),
  )
}
_LARGEST_OBSERVATION = 2**30  # Bytes per stream.
_MOST_ACTIONS = 2**20
_LONGEST_TEXT = 100  # Characters of a value in a message.


@dataclasses.dataclass(frozen=True)
class Layout:
  """The shapes and dtypes of an environment's timesteps.

  Attributes:
    environment: its name, for messages.
    batch_size: B.
    shapes: shape of every leaf of the observation, with B.
    dtypes: their dtypes, of at most 32 bits.
  """

  environment: str
  batch_size: int
  shapes: tuple[tuple[int, ...], ...]
  dtypes: tuple[np.dtype, ...]


def make_layout(
  environment: str, batch_size: int, spec: types.SpecsTree
) -> Layout:
  """Makes the layout of timesteps from the specs of an observation.

  Args:
    environment: name of the environment, for messages.
    batch_size: B.
    spec: specs of one stream's observation.

  Returns:
    The layout.

  Raises:
    InvalidEnvironmentError: if there are no specs, or one has no shape or
      dtype, is not numeric, is empty, or is larger than 1 GiB; or if keys
      cannot be sorted.
  """
  _check_keys(environment, spec)
  shapes, dtypes = [], []
  for path, leaf in jax.tree_util.tree_leaves_with_path(spec):
    name = f'{environment}: observation spec{jax.tree_util.keystr(path)}'
    try:
      shape = tuple(int(size) for size in leaf.shape)
      dtype = narrow(np.dtype(leaf.dtype))
    except (AttributeError, TypeError, ValueError, OverflowError):
      raise foreign.InvalidEnvironmentError(
        f'{name} must have a shape and a dtype, got {_cut(leaf)}'
      ) from None
    is_number = jnp.issubdtype(dtype, np.number) or dtype == np.bool_
    if not is_number or jnp.issubdtype(dtype, np.complexfloating):
      raise foreign.InvalidEnvironmentError(
        f'{name} has the dtype {dtype}; supported are booleans, integers and '
        'floating-point numbers'
      )
    size = math.prod(shape) * dtype.itemsize
    if any(n < 1 for n in shape) or size > _LARGEST_OBSERVATION:
      raise foreign.InvalidEnvironmentError(
        f'{name} has the shape {_cut(shape)}; an array of at least 1 number '
        'and at most 1 GiB is needed'
      )
    shapes.append((batch_size, *shape))
    dtypes.append(dtype)
  if not shapes:
    raise foreign.InvalidEnvironmentError(
      f'{environment}: the observation spec is empty, got {_cut(spec)}'
    )
  return Layout(environment, batch_size, tuple(shapes), tuple(dtypes))


def check_action_spec(environment: str, spec: Any) -> None:
  """Checks that actions are discrete, at least two and not too many.

  Args:
    environment: name of the environment, for messages.
    spec: spec of one stream's action.

  Raises:
    InvalidEnvironmentError: if not.
  """
  try:
    num_actions = utils.get_num_actions_from_spec(spec)
  except ValueError as error:
    raise foreign.InvalidEnvironmentError(f'{environment}: {error}') from None
  if num_actions > _MOST_ACTIONS:
    raise foreign.InvalidEnvironmentError(
      f'{environment} has {num_actions} actions to choose from; at most '
      f'{_MOST_ACTIONS} are supported'
    )
  if num_actions < 2:
    raise foreign.InvalidEnvironmentError(
      f'{environment} has {num_actions} action to choose from; at least 2 are '
      'needed'
    )


def of_snapshot(snapshot: Any) -> list[Any]:
  """Returns names, shapes and types of what is in a snapshot."""
  return [
    (path, type(x) if np.isscalar(x) else (np.shape(x), np.asarray(x).dtype))
    for path, x in jax.tree_util.tree_leaves_with_path(snapshot)
  ]


def narrow(dtype: Any) -> Any:
  """Returns the dtype that JAX converts a dtype to."""
  return _NARROWER.get(dtype, dtype)


def _check_keys(environment: str, spec: Any) -> None:
  """Raises an error if a group of specs has keys that cannot be sorted."""
  if isinstance(spec, Mapping):
    try:
      sorted(spec)
    except TypeError:
      keys = [key for key in spec if not isinstance(key, str)]
      raise foreign.InvalidEnvironmentError(
        f'{environment}: the observation spec has the keys {_cut(keys)}, which '
        'are no strings'
      ) from None
  if isinstance(spec, Mapping | list | tuple):
    for part in spec.values() if isinstance(spec, Mapping) else spec:
      _check_keys(environment, part)


def _cut(value: Any) -> str:
  return fields.shorten(value, _LONGEST_TEXT)
