"""Reads the outputs of another implementation: npz, npy files or JSON."""

from collections.abc import Iterable
import contextlib
import os
import pathlib
from typing import Any

import numpy as np

from disco_rl.runs import npz
from disco_rl.runs import os_errors
from disco_rl.runs import reading

NPZ, JSON = 'outputs.npz', 'outputs.json'
_MAX_BYTES = 1 << 26


def read(folder: pathlib.Path, names: Iterable[str]) -> dict[str, np.ndarray]:
  """Reads the outputs of a case.

  Args:
    folder: the folder of the case, with `outputs.npz`, or `outputs.json` (name
      to nested lists), or one npy file per output, in folders for names that
      have a `/`.
    names: names of the outputs that are expected, for npy files.

  Returns:
    Name to array of numbers or bools; empty if the folder has no outputs.

  Raises:
    ValueError: if a file cannot be read, or is not what it should be.
  """
  arrays = [name for name in names if _exists(folder / f'{name}.npy')]
  kinds = [kind for kind in (NPZ, JSON) if _exists(folder / kind)]
  if arrays:
    kinds.append(f'{arrays[0]}.npy')
  if len(kinds) > 1:
    raise ValueError(
      f'{folder} has both {kinds[0]} and {kinds[1]}: one of them is needed'
    )
  found: dict[str, Any] = {}
  if kinds == [NPZ]:
    with _naming(folder / NPZ):
      found = npz.read(folder / NPZ)
  elif kinds == [JSON]:
    with _naming(folder / JSON):
      parsed = reading.parse_json(reading.read_text(folder / JSON, _MAX_BYTES))
      found = {name: _from_lists(name, x) for name, x in parsed.items()}
  for name in arrays:
    with _naming(folder / f'{name}.npy'):
      found[name] = npz.read_npy(folder / f'{name}.npy')
  for name, array in found.items():
    if array.dtype.kind not in 'fiub':
      raise ValueError(
        f'{folder / kinds[0]}: {name[:60]} is of type {array.dtype}, but '
        'numbers or bools are needed'
      )
  return found


def _exists(path: pathlib.Path) -> bool:
  try:
    return os.path.lexists(path)
  except ValueError:  # A null character.
    return False


@contextlib.contextmanager
def _naming(path: pathlib.Path) -> Any:
  """Names the file in errors, and refuses large files before reading them."""
  try:
    with reading.open_file(path) as (_, size):
      if size > _MAX_BYTES:
        raise reading.UnreadableFileError(
          f'it has {size} bytes, more than the {_MAX_BYTES} that are read'
        )
    yield
  except reading.UnreadableFileError as error:
    name = os_errors.cut_name(path)
    raise ValueError(f'{name} cannot be read: {error}') from error


def _from_lists(name: str, lists: Any) -> np.ndarray:
  """Makes an array of nested lists of numbers or bools."""
  refusal = reading.UnreadableFileError(
    f'{name[:60]} is not a number, or nested lists of equal lengths of numbers '
    'or bools'
  )
  shape: list[int] = []
  level: list[Any] = [lists]
  while level and all(isinstance(node, list) for node in level):
    lengths = {len(node) for node in level}
    if len(lengths) > 1:
      raise refusal
    shape.append(lengths.pop())
    level = [inner for node in level for inner in node]
  if not all(isinstance(x, bool | int | float) for x in level):
    raise refusal
  if level and all(isinstance(x, bool) for x in level):
    return np.array(level, bool).reshape(shape)
  try:
    numbers = [float(x) for x in level]
  except OverflowError:
    raise refusal from None
  return np.array(numbers, np.float64).reshape(shape)
