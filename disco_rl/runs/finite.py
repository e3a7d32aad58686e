"""Checks that a state is finite, before it is saved and after it is loaded."""

from collections.abc import Iterator, Set
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.runs import checkpoint


class NonFiniteStateError(ArithmeticError):
  """Raised instead of saving a state that is not finite.

  Attributes:
    array: path of the first array with NaN or infinity.
    is_user_facing: see `files.StorageError`.
  """

  is_user_facing = True

  def __init__(self, array: str):
    """Makes the message; see the attributes."""
    super().__init__(
      f'{array} of the state is not finite, so the state was not saved; the '
      'previous checkpoint, if there is one, is unchanged'
    )
    self.array = array


def check(tree: Any, private: Set[str] = frozenset()) -> None:
  """Raises a `NonFiniteStateError` for a tree with NaN or infinity.

  Args:
    tree: see `find`.
    private: see `find`.
  """
  array = find(tree, private)
  if array is not None:
    raise NonFiniteStateError(array)


def check_loaded(
  path: str | os.PathLike[str], tree: Any, private: Set[str] = frozenset()
) -> None:
  """Raises a `CheckpointError` for a checkpoint with NaN or infinity.

  Args:
    path: path of its file.
    tree: the tree that was loaded, see `find`.
    private: see `find`.
  """
  array = find(tree, private)
  if array is not None:
    raise checkpoint.CheckpointError(
      f'{os.fspath(path)} has NaN or infinity in {array}, which is never '
      'saved: the file was changed'
    )


def find(tree: Any, private: Set[str] = frozenset()) -> str | None:
  """Finds NaN or infinity in a tree.

  Args:
    tree: tree of arrays and numbers, on the host or on devices. Of arrays over
      several processes, each checks its part.
    private: names of fields or entries that are not checked, nor anything below
      them.

  Returns:
    The path of the first array that is not finite; None if there is none.
  """
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    dtype = getattr(leaf, 'dtype', None)
    if dtype is None:
      is_float = isinstance(leaf, float)
    else:
      is_float = bool(jnp.issubdtype(dtype, np.floating))
    if not is_float or not private.isdisjoint(_names(path)):
      continue
    if not all(_is_finite(part) for part in _parts(leaf)):
      return '/'.join(_names(path)) or 'the only array'
  return None


def _names(path: Any) -> list[str]:
  return [
    jax.tree_util.keystr((key,), simple=True, separator='/') for key in path
  ]


def _parts(leaf: Any) -> Iterator[np.ndarray]:
  """Yields the parts of an array that this process has."""
  if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
    for shard in leaf.addressable_shards:
      yield np.asarray(shard.data)
  else:
    yield np.asarray(leaf)


def _is_finite(array: np.ndarray) -> bool:
  # A sum is non-finite if one of its terms is. Unlike `isfinite`, it needs no
  # memory; `isfinite` decides if the sum may only have overflowed.
  with np.errstate(all='ignore'):
    return bool(np.isfinite(np.sum(array)) or np.isfinite(array).all())
