"""Reads untrusted files within size limits, and executes nothing.

Every function checks that a path leads to an ordinary file (not to a device or
a pipe, which might never end), and reads no more than the file holds.
"""

from collections.abc import Iterator
import contextlib
import json
import os
import pathlib
import stat
from typing import Any, IO

from disco_rl.runs import os_errors

_MAX_TEXT_BYTES = 1 << 26
_MAX_DEPTH = 64

_KINDS = {
  stat.S_ISDIR: 'a folder',
  stat.S_ISCHR: 'a device',
  stat.S_ISBLK: 'a device',
  stat.S_ISFIFO: 'a pipe',
  stat.S_ISSOCK: 'a socket',
}


class UnreadableFileError(ValueError):
  """Raised for files that are damaged or have another format.

  Attributes:
    is_user_facing: see `files.StorageError`.
  """

  is_user_facing = True


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
  """Opens an ordinary file.

  Args:
    path: its path, or a symbolic link to it.

  Yields:
    The file, and its size in bytes.

  Raises:
    UnreadableFileError: if it cannot be opened, or is not an ordinary file.
  """
  try:
    # A pipe without a writer would block.
    number = os.open(path, os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0))
  except OSError as error:
    error.filename = None  # Callers name the file.
    raise UnreadableFileError(os_errors.describe(error)) from None
  except ValueError:  # A null character.
    raise UnreadableFileError('its name is not valid') from None
  status = os.fstat(number)
  kind = _other_kind(status.st_mode)
  if kind is not None:
    os.close(number)
    raise UnreadableFileError(f'it is {kind}, not a file')
  with os.fdopen(number, 'rb') as file:
    yield file, status.st_size


def read_text(
  path: str | os.PathLike[str], max_bytes: int = _MAX_TEXT_BYTES
) -> str:
  """Reads a text file in UTF-8.

  Args:
    path: path of the file.
    max_bytes: larger files are refused.

  Returns:
    Its contents.

  Raises:
    UnreadableFileError: if it cannot be read, or is not a text.
  """
  with open_file(path) as (file, size):
    if size > max_bytes:
      raise UnreadableFileError(
        f'it has {size} bytes, more than the {max_bytes} that are read'
      )
    try:
      content = file.read(max_bytes)
    except OSError as error:
      raise UnreadableFileError(os_errors.describe(error)) from None
  try:
    return content.decode('utf-8')
  except UnicodeDecodeError as error:
    raise UnreadableFileError(
      f'it is not a text in UTF-8 (byte {error.start})'
    ) from None


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
  """Reads a JSON file that contains an object; see `parse_json`."""
  return parse_json(read_text(path))


def parse_json(text: str | bytes) -> dict[str, Any]:
  """Parses JSON: one object, of limited depth, without repeated names.

  Args:
    text: the JSON.

  Returns:
    The object.

  Raises:
    UnreadableFileError: if it is anything else.
  """
  try:
    parsed = json.loads(text, object_pairs_hook=_unique)
  except RecursionError:
    raise UnreadableFileError('its JSON is too deep') from None
  except UnreadableFileError:
    raise
  except ValueError as error:
    raise UnreadableFileError(f'it is not JSON ({error})'[:200]) from None
  if not isinstance(parsed, dict):
    raise UnreadableFileError('it is not a JSON object, {...}')
  level: list[Any] = [parsed]
  for _ in range(_MAX_DEPTH):
    level = [inner for node in level for inner in _children(node)]
    if not level:
      return parsed
  raise UnreadableFileError('its JSON is too deep')


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  found = dict(pairs)
  if len(found) < len(pairs):
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise UnreadableFileError(f'its JSON has {twice[:60]!r} twice')
  return found


def _children(node: Any) -> list[Any]:
  if isinstance(node, dict):
    return list(node.values())
  return node if isinstance(node, list) else []


def other_kind(path: str | os.PathLike[str]) -> str | None:
  """Returns words for what exists at a path and is not an ordinary file.

  Args:
    path: the path, or a link to it.

  Returns:
    E.g. `'a folder'`; None for an ordinary file, and if nothing is there.
  """
  try:
    mode = os.stat(path).st_mode
  except OSError:
    return 'a broken symbolic link' if os.path.islink(path) else None
  return _other_kind(mode)


def _other_kind(mode: int) -> str | None:
  if stat.S_ISREG(mode):
    return None
  kinds = (words for is_kind, words in _KINDS.items() if is_kind(mode))
  return next(kinds, 'something else')


def is_file(path: str | os.PathLike[str]) -> bool:
  """Returns whether a path leads to an ordinary file."""
  try:
    return pathlib.Path(path).is_file()
  except (OSError, ValueError):
    return False
