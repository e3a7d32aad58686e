"""Saves and restores whole training states, bit-exact.

A checkpoint is an npz file with one array per leaf, named by its path in the
tree. It is written atomically, and nothing is unpickled.

```python
checkpoint.save('run/state.npz', state)
state = checkpoint.load('run/state.npz', like=state)
```
"""

from collections.abc import Collection, Iterable
import os
import pathlib
from typing import Any, IO

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl.runs import files

# Version of the layout of states; other versions cannot be loaded.
FORMAT = 2
_FORMAT_KEY = '__format__'

# Names of the leaves that count the steps of evaluations and of meta-training.
STEPS = ('iteration', 'step')


class CheckpointError(ValueError):
  """Raised for checkpoints that cannot be saved, read or used.

  Attributes:
    is_user_facing: see `files.StorageError`.
  """

  is_user_facing = True


def save(path: str | os.PathLike[str], tree: Any) -> None:
  """Saves the leaves of a tree; an existing file is replaced.

  Args:
    path: path of the file.
    tree: the tree, see `check`.
  """
  with files.atomic_writer(path) as file:
    write(file, tree)


def write(file: IO[bytes], tree: Any) -> None:
  """Writes the leaves of a tree to an open file, see `save`."""
  np.savez(file, **{_FORMAT_KEY: np.int32(FORMAT), **_arrays(tree)})


def check(tree: Any) -> None:
  """Raises a `CheckpointError` for a tree that cannot be saved.

  Args:
    tree: its leaves must be arrays, numbers, strings or random keys.
  """
  _arrays(tree)


def load(
  path: str | os.PathLike[str],
  like: Any,
  part: str = '',
  left_out: Collection[str] = (),
) -> Any:
  """Loads a tree.

  Args:
    path: path of a file that `save` wrote.
    like: a tree of the same structure, shapes and dtypes; of arrays or specs.
    part: path of the part of the saved tree to read, e.g. `'learner/params'`;
      empty for all of it.
    left_out: names of leaves that are not read, and are None in the result.
      Where all leaves are left out, the file may have others.

  Returns:
    The tree. Leaves are on the device, except those that are NumPy arrays,
    numbers or strings in `like`, which keep their type (also 64 bits).

  Raises:
    CheckpointError: if the file cannot be read, has another format number, or
      another structure, shape or dtype than `like`.
  """
  path = pathlib.Path(path)
  try:
    arrays = files.read_npz(path)
  except files.UnreadableFileError as e:
    raise CheckpointError(f'cannot read the checkpoint {path}: {e}') from None
  found = arrays.pop(_FORMAT_KEY, np.int32(1))
  if found.shape or found.dtype.kind not in 'iu':
    raise CheckpointError(f'{path} is not a checkpoint of disco_rl')
  if found != FORMAT:
    raise CheckpointError(
      f'the checkpoint {path} was made by another version of disco_rl: it has '
      f'the format {found}, and this version reads {FORMAT}'
    )
  if part:
    arrays = {
      name.removeprefix(f'{part}/'): array
      for name, array in arrays.items()
      if name.startswith(f'{part}/')
    }

  wanted = named_leaves(like)
  kept = [name for name, _ in wanted if name not in left_out]
  there = [name for name in arrays if not is_below(name, left_out, kept)]
  check_names(path, there, kept)
  leaves = [
    None if name in left_out else restore(arrays[name], leaf, name, path)
    for name, leaf in wanted
  ]
  return jax.tree.unflatten(jax.tree.structure(like), leaves)


def check_names(
  path: pathlib.Path, found: Collection[str], wanted: Collection[str]
) -> None:
  """Raises a `CheckpointError` if a checkpoint has other leaves than a tree.

  Args:
    path: path of the checkpoint, for the message.
    found: names of its leaves.
    wanted: names of the leaves of the tree.
  """
  missing = sorted(set(wanted) - set(found))
  extra = sorted(set(found) - set(wanted))
  if missing or extra:
    raise CheckpointError(
      f'{path} has another structure: missing '
      f'{fields.shorten(missing[:3], 200)}, not expected '
      f'{fields.shorten(extra[:3], 200)}. Was it made with other settings?'
    )


def is_below(name: str, some: Collection[str], others: Iterable[str]) -> bool:
  """Returns whether a leaf is in a part of a tree with only some leaves.

  Args:
    name: name of the leaf, which need not be in the tree.
    some: names of some leaves of the tree.
    others: names of all others.

  Returns:
    Whether the smallest part around it that has leaves has only `some`.
  """
  if name in some or not some:
    return name in some
  path = name
  while '/' in path:
    path = path.rpartition('/')[0]
    below = f'{path}/'
    if any(other.startswith(below) for other in others):
      return False
    if any(one.startswith(below) for one in some):
      return True
  return False


def read_step(path: str | os.PathLike[str]) -> int:
  """Returns how many steps are done in a checkpoint; -1 if that is unknown.

  Args:
    path: path of a file that `save` wrote.
  """
  try:
    arrays = files.read_npz(path)
  except files.UnreadableFileError:
    return -1
  counters = [arrays[name] for name in STEPS if name in arrays]
  return int(counters[0]) if counters and not counters[0].shape else -1


def _arrays(tree: Any) -> dict[str, Any]:
  arrays = {name: np.asarray(_raw(leaf)) for name, leaf in named_leaves(tree)}
  for name, array in arrays.items():
    if array.dtype.hasobject:
      raise CheckpointError(
        f'{name} cannot be saved: arrays, numbers of at most 64 bits, texts '
        'and random keys can'
      )
  return arrays


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
  """Returns the leaves of a tree with their names, which are their paths."""
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


def restore(array: np.ndarray, like: Any, name: str, path: pathlib.Path) -> Any:
  """Converts the array of a file to a leaf.

  Args:
    array: from the file.
    like: a leaf of the same shape and type, or its specs.
    name: name of the leaf, for messages.
    path: path of the file, for messages.

  Returns:
    The leaf, see `load`.
  """
  if type(like) in (bool, int, float, str):
    if array.shape or not isinstance(array.item(), type(like)):
      raise CheckpointError(
        f'{path}: {name} is {fields.shorten(array)}, but a '
        f'{type(like).__name__} is needed'
      )
    return array.item()
  raw = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
  dtype = np.dtype(getattr(raw, 'dtype', None) or np.asarray(raw).dtype)
  if array.dtype.kind == 'V' and array.dtype.itemsize == dtype.itemsize:
    array = array.view(dtype)  # npz stores bfloat16 and the like as bytes.
  actual, wanted = (array.shape, array.dtype), (np.shape(raw), dtype)
  if actual != wanted:
    raise CheckpointError(
      f'{path}: {name} has the shape {actual[0]} and the type {actual[1]}, but '
      f'{wanted[0]} and {wanted[1]} are needed. Was it made with other '
      'settings?'
    )
  if _is_key(like):
    return jax.random.wrap_key_data(
      jnp.asarray(array), impl=jax.random.key_impl(like)
    )
  on_host = isinstance(like, np.ndarray | np.generic)
  return array if on_host else jnp.asarray(array)
