"""Writes files atomically, and reads npz files safely."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import secrets
from typing import IO
import zipfile
import zlib

import numpy as np

# Errors that NumPy and zipfile raise for damaged files.
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
  """Raised for files that are damaged or have another format."""


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
  """Opens a file that replaces `path` when the block ends without an error.

  Until then it is a hidden `.part` file in the same folder. If the block
  raises, that file is removed and `path` is unchanged.

  Args:
    path: path of the file; its folder is made if it does not exist.

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
  """Removes the files that a killed `atomic_writer` leaves in a folder.

  Args:
    folder: a folder that no other process writes to.
  """
  for part in pathlib.Path(folder).glob('.*.part'):
    part.unlink(missing_ok=True)


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads all arrays of an npz file; nothing is unpickled.

  Args:
    path: path of the file.

  Returns:
    Name to array.

  Raises:
    UnreadableFileError: if the file cannot be read, for any reason.
  """
  try:
    # Opened here: NumPy does not close a file it cannot read.
    with open(path, 'rb') as file, np.load(file, allow_pickle=False) as archive:
      return {name: archive[name] for name in archive.files}
  except _READ_ERRORS as error:
    raise UnreadableFileError(str(error)) from None
