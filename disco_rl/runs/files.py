"""Files that are written whole or not at all, and read with care."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import secrets
from typing import IO
import zipfile
import zlib

import numpy as np

# All that NumPy and zipfile raise for one damaged file or another.
_READ_ERRORS = (
  EOFError,
  KeyError,
  NotImplementedError,
  OSError,
  RuntimeError,
  ValueError,
  zipfile.BadZipFile,
  zlib.error,
)


CACHE_VARIABLE = 'DISCO_RL_CACHE'


def cache_folder() -> pathlib.Path:
  """Returns the user's cache folder, which may not exist yet."""
  if os.environ.get(CACHE_VARIABLE):
    return pathlib.Path(os.environ[CACHE_VARIABLE])
  base = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(base) / 'disco_rl'


class UnreadableFileError(ValueError):
  """A file is damaged, or not of the kind it should be."""


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
  """Opens a file that appears at `path` only when the block ends well.

  Until then it is a hidden `.part` file beside it. If the block raises, that
  one is removed and whatever was at `path` stays as it was.

  Args:
    path: where the file will be; its folder is made if need be.

  Yields:
    The file, open for reading and writing bytes.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  part = path.parent / f'.{path.name}.{secrets.token_hex(4)}.part'
  try:
    with open(part, 'x+b') as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    os.replace(part, path)
  except BaseException:
    part.unlink(missing_ok=True)
    raise


def remove_parts(folder: str | os.PathLike[str]) -> None:
  """Removes what `atomic_writer` leaves in a folder when it is killed.

  Args:
    folder: which no other process is writing to.
  """
  for part in pathlib.Path(folder).glob('.*.part'):
    part.unlink(missing_ok=True)


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads all arrays of an npz file; nothing is unpickled.

  Args:
    path: of the file.

  Returns:
    Name to array.

  Raises:
    UnreadableFileError: whatever is wrong with the file.
  """
  try:
    # Opened here: NumPy does not close a file it cannot read.
    with open(path, 'rb') as file, np.load(file, allow_pickle=False) as archive:
      return {name: archive[name] for name in archive.files}
  except _READ_ERRORS as error:
    raise UnreadableFileError(str(error)) from None
