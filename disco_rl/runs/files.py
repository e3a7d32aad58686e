"""Writes files atomically."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import secrets
from typing import IO

from disco_rl.runs import npz
from disco_rl.runs import reading

# Used together with the functions below.
UnreadableFileError = reading.UnreadableFileError
read_npz = npz.read

CACHE_VARIABLE = 'DISCO_RL_CACHE'


def cache_folder() -> pathlib.Path:
  """Returns the user's cache folder, which may not exist yet."""
  if os.environ.get(CACHE_VARIABLE):
    return pathlib.Path(os.environ[CACHE_VARIABLE])
  base = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(base) / 'disco_rl'


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
