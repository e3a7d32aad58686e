"""Saves and restores whole training states, to the bit.

A checkpoint is an npz file with one array per leaf, named by its path in the
tree. It is written whole or not at all, and nothing is unpickled.

  checkpoint.save('run/state.npz', state)
  state = checkpoint.load('run/state.npz', like=state)
"""

import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import files


class CheckpointError(ValueError):
  """A checkpoint cannot be read, or belongs to something else."""


def save(path: str | os.PathLike[str], tree: Any) -> None:
  """Writes the leaves of a tree; a file already there is replaced.

  Args:
    path: where to.
    tree: any tree of arrays and numbers, random keys included.
  """
  arrays: dict[str, Any] = {
    name: np.asarray(_raw(leaf)) for name, leaf in _named_leaves(tree)
  }
  with files.atomic_writer(path) as file:
    np.savez(file, **arrays)


def load(path: str | os.PathLike[str], like: Any) -> Any:
  """Reads a tree back.

  Args:
    path: what `save` wrote.
    like: a tree of the same structure, shapes and dtypes; of arrays or specs.

  Returns:
    The tree, with device arrays for leaves.
  """
  path = pathlib.Path(path)
  try:
    arrays = files.read_npz(path)
  except files.UnreadableFileError as e:
    raise CheckpointError(f'cannot read the checkpoint {path}: {e}') from None

  wanted = _named_leaves(like)
  missing = sorted({name for name, _ in wanted} - set(arrays))
  extra = sorted(set(arrays) - {name for name, _ in wanted})
  if missing or extra:
    raise CheckpointError(
      f'{path} is of another structure: missing {missing[:3]}, not expected '
      f'{extra[:3]}. Was it made with other settings?'
    )
  leaves = [_restore(arrays[name], leaf, name, path) for name, leaf in wanted]
  return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
  named = [
    (jax.tree_util.keystr(key_path, simple=True, separator='/') or 'leaf', leaf)
    for key_path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  ]
  if len({name for name, _ in named}) != len(named):
    raise CheckpointError('two leaves of the tree have the same path')
  return named


def _is_key(leaf: Any) -> bool:
  dtype = getattr(leaf, 'dtype', None)
  return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _raw(leaf: Any) -> Any:
  return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _restore(
  array: np.ndarray, like: Any, name: str, path: pathlib.Path
) -> Any:
  restored: Any
  if _is_key(like):
    restored = jax.random.wrap_key_data(
      jnp.asarray(array), impl=jax.random.key_impl(like)
    )
    dtype: Any = like.dtype
  else:
    dtype = np.dtype(getattr(like, 'dtype', None) or np.asarray(like).dtype)
    if array.dtype.kind == 'V' and array.dtype.itemsize == dtype.itemsize:
      array = array.view(dtype)  # How npz stores bfloat16 and its like.
    restored = jnp.asarray(array)
  found, wanted = (restored.shape, restored.dtype), (np.shape(like), dtype)
  if found != wanted:
    raise CheckpointError(
      f'{path}: {name} is {found}, but {wanted} is needed. Was it made with '
      'other settings?'
    )
  return restored
