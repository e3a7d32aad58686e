"""Encodes elements of Gymnasium's spaces as arrays."""

from collections.abc import Callable, Mapping
import functools
from typing import Any

import gymnasium
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.environments import foreign

Encode = Callable[[Any], Any]


def encoder(
  space: gymnasium.Space, where: str
) -> tuple[types.SpecsTree, Encode]:
  """Returns the specs of a space's elements, and their encoder to arrays.

  Args:
    space: a Box, Discrete, MultiDiscrete or MultiBinary space, or a Dict or
      Tuple of such.
    where: its name in messages.

  Returns:
    Specs, a tree of arrays' shapes and dtypes, and a function from an element
    to such a tree, which raises an error for what is not in the space.
  """
  spaces = gymnasium.spaces
  if isinstance(space, spaces.Dict):
    inner = {k: encoder(s, f'{where}/{k}') for k, s in space.items()}

    def encode_all(x: Any) -> Any:
      if not isinstance(x, Mapping) or not inner.keys() <= x.keys():
        given = list(x) if isinstance(x, Mapping) else type(x).__name__
        raise foreign.InvalidEnvironmentError(
          f'{where} has an observation with {given}, but its space has '
          f'{list(inner)}'
        )
      return {k: encode(x[k]) for k, (_, encode) in inner.items()}

    return {k: spec for k, (spec, _) in inner.items()}, encode_all
  if isinstance(space, spaces.Tuple):
    parts = [encoder(s, f'{where}/{i}') for i, s in enumerate(space)]
    return (
      tuple(spec for spec, _ in parts),
      lambda x: tuple(
        encode(y) for (_, encode), y in zip(parts, x, strict=True)
      ),
    )
  if isinstance(space, spaces.Discrete):
    return _one_hots([int(space.n)], int(space.start), where)
  if isinstance(space, spaces.MultiDiscrete):
    sizes = np.ravel(space.nvec).astype(int)
    return _one_hots(sizes, np.ravel(space.start), where)
  if isinstance(space, spaces.Box | spaces.MultiBinary):
    zero = np.zeros((), space.dtype)
    dtype = utils.cast_to_single_precision(zero, host_data=True).dtype
    return (
      types.ArraySpec(tuple(space.shape), dtype),
      functools.partial(_to_array, space, dtype, where),
    )
  raise foreign.InvalidEnvironmentError(
    f'{where} has observations {space}; supported are Box, Discrete, '
    'MultiDiscrete, MultiBinary, and Dict and Tuple of them'
  )


def _to_array(
  space: gymnasium.Space, dtype: np.dtype, where: str, x: Any
) -> np.ndarray:
  """Copies an element of a Box, since some environments reuse the array."""
  array = np.asarray(x)
  can_cast = array.dtype.kind in 'biu' or (
    array.dtype.kind == 'f' and dtype.kind == 'f'
  )
  if array.shape != space.shape or not can_cast:
    raise foreign.InvalidEnvironmentError(
      f'{where} has an observation of {array.dtype} and the shape '
      f'{array.shape}, but its space is {space.dtype} of the shape '
      f'{space.shape}'
    )
  with np.errstate(over='ignore'):  # Infinity is reported by `guarded_env`.
    return np.array(array, dtype)


def _one_hots(sizes: Any, start: Any, where: str) -> tuple[Any, Encode]:
  """Returns the spec and encoder of integers as concatenated one-hots."""
  first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
  total = int(np.sum(sizes))

  def encode(x: Any) -> np.ndarray:
    index = np.ravel(x) - start
    is_known = (
      index.shape == first.shape
      and index.dtype.kind in 'iu'
      and (index >= 0).all()
      and (index < sizes).all()
    )
    if not is_known:
      raise foreign.InvalidEnvironmentError(
        f'{where} has the observation {str(x)[:100]}, which is not in its '
        f'space: integers from {start}, with {sizes} values each'
      )
    encoded = np.zeros(total, np.float32)
    encoded[first + index] = 1.0
    return encoded

  return types.ArraySpec((total,), np.dtype(np.float32)), encode
