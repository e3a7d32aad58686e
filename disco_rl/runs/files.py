"""Writes files atomically: whole or not at all."""

from collections.abc import Callable, Iterator
import contextlib
import io
import os
import pathlib
import secrets
import tempfile
from typing import Any, IO

from disco_rl.runs import npz
from disco_rl.runs import os_errors
from disco_rl.runs import reading

# For callers that both read and write.
UnreadableFileError = reading.UnreadableFileError
read_npz = npz.read

CACHE_VARIABLE = 'DISCO_RL_CACHE'


class StorageError(OSError):
  """Raised if a file cannot be written; the message names it and the reason.

  Attributes:
    is_user_facing: whether the message is written for users, so that commands
      show it without a traceback.
  """

  is_user_facing = True


@contextlib.contextmanager
def storing(path: str | os.PathLike[str]) -> Iterator[None]:
  """Converts errors of the operating system to `StorageError`, in a block.

  Args:
    path: the file or folder that the block writes.
  """
  try:
    yield
  except StorageError:
    raise
  except OSError as error:
    raise StorageError(
      f'cannot write {os_errors.cut_name(path)}: '
      f'{os_errors.why_not_written(error)}'
    ) from error


def cache_folder() -> pathlib.Path:
  """Returns the user's cache folder, which may not exist yet.

  Without a home folder, it is a folder among the temporary files, see
  `has_private_cache`.
  """
  if os.environ.get(CACHE_VARIABLE):
    return pathlib.Path(os.environ[CACHE_VARIABLE])
  home = _cache_home()
  if home is None:
    return pathlib.Path(tempfile.gettempdir()) / f'disco_rl-{os.getuid()}'
  return home / 'disco_rl'


def has_private_cache() -> bool:
  """Returns whether the cache folder is one that no other user can make."""
  return bool(os.environ.get(CACHE_VARIABLE)) or _cache_home() is not None


def _cache_home() -> pathlib.Path | None:
  """Returns the folder of all caches of a user; None without a home folder."""
  if os.environ.get('XDG_CACHE_HOME'):
    return pathlib.Path(os.environ['XDG_CACHE_HOME'])
  try:
    return pathlib.Path.home() / '.cache'
  except RuntimeError:
    return None


class _Part(io.FileIO):
  """A temporary file that will replace another, which its errors name."""

  def __init__(self, part: pathlib.Path, path: pathlib.Path):
    super().__init__(part, 'x+')
    self._path = path

  def write(self, data: Any) -> int:
    """Writes bytes, perhaps not all of them; returns how many."""
    with storing(self._path):
      return super().write(data)


@contextlib.contextmanager
def atomic_writer(
  path: str | os.PathLike[str], *, make_folder: bool = False
) -> Iterator[IO[bytes]]:
  """Opens a file that replaces `path` when the block ends without an error.

  Until then it is a hidden `.part` file in the same folder. If the block
  raises, that file is removed and `path` is unchanged.

  Args:
    path: path of the file.
    make_folder: whether to make its folder if it does not exist. Not for the
      files of a run, whose folder exists unless it was removed.

  Yields:
    The file, open for reading and writing bytes.

  Raises:
    StorageError: if the file cannot be written.
  """
  path = pathlib.Path(path)
  part = path.parent / f'.{path.name}.{secrets.token_hex(4)}.part'
  with storing(path):
    if make_folder:
      path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BufferedRandom(_Part(part, path))
  try:
    with file:
      yield file
      file.flush()
      with storing(path):
        os.fsync(file.fileno())
    with storing(path):
      os.replace(part, path)
      _sync_folder(path.parent)
  except BaseException:
    with contextlib.suppress(OSError):
      part.unlink()
    raise


def append(
  path: str | os.PathLike[str], make_data: Callable[[bool], bytes]
) -> None:
  """Appends all or nothing to a file.

  Args:
    path: path of the file, made if it does not exist; its folder must exist.
    make_data: returns the bytes to append, given whether the file is empty.

  Raises:
    StorageError: if not all could be written; the file is as it was before.
  """
  with storing(path):
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    file = os.open(path, flags, 0o666)
    try:
      size = os.fstat(file).st_size
      left = memoryview(make_data(size == 0))
      try:
        while left:  # A write may be partial, e.g. as the disk fills up.
          left = left[os.write(file, left) :]
        os.fsync(file)
      except OSError:
        with contextlib.suppress(OSError):
          os.ftruncate(file, size)
        raise
    finally:
      os.close(file)


def remove_parts(folder: str | os.PathLike[str]) -> None:
  """Removes the files that a killed `atomic_writer` leaves in a folder.

  Args:
    folder: a folder that no other process writes to.
  """
  for part in pathlib.Path(folder).glob('.*.part'):
    with contextlib.suppress(OSError):
      part.unlink()


def _sync_folder(folder: pathlib.Path) -> None:
  """Flushes the entries of a folder to the disk, if that is possible."""
  with contextlib.suppress(OSError):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
      os.fsync(descriptor)
    finally:
      os.close(descriptor)
