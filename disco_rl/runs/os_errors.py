"""Describes errors of the operating system in words."""

import errno
import re
from typing import Any

# Why a file cannot be written.
_REASONS = {
  errno.EACCES: 'there is no permission to write there',
  errno.EEXIST: 'there is a file of that name',
  errno.EDQUOT: 'the disk quota is used up',
  errno.EFBIG: 'it would exceed the limit on the size of files',
  errno.EIO: 'the disk reports an error',
  errno.EISDIR: 'it is a folder',
  errno.ELOOP: 'its path has too many symbolic links',
  errno.EMFILE: 'too many files are open',
  errno.ENAMETOOLONG: 'the name is too long',
  errno.ENFILE: 'too many files are open',
  errno.ENOENT: 'its folder does not exist',
  errno.ENOSPC: 'the disk is full',
  errno.ENOTDIR: 'a part of its path is a file, not a folder',
  errno.EPERM: 'there is no permission to write there',
  errno.EROFS: 'the file system is read-only',
  errno.ESTALE: 'its folder does not exist any more',
  errno.ETXTBSY: 'it is in use',
}
_MAX_NAME = 200


def describe(error: OSError) -> str:
  """Describes an error without its number.

  Args:
    error: from a file or a folder.

  Returns:
    The name of the file, if the error has one, and the system's message, e.g.
    `runs/x: permission denied`.
  """
  reason = getattr(error, 'reason', None)  # Of an error of urllib.
  if isinstance(reason, OSError):
    return describe(reason)
  words = _message(error)
  if error.strerror is None or error.filename is None:
    return words
  return f'{cut_name(error.filename)}: {words}'


def cut_name(path: Any) -> str:
  """Returns a path for a message, cut if it is long."""
  if isinstance(path, bytes):
    path = path.decode(errors='replace')
  name = str(path)
  return name if len(name) <= _MAX_NAME else f'{name[:_MAX_NAME]}...'


def why_not_written(error: OSError) -> str:
  """Describes why a file cannot be written, without its name.

  Args:
    error: the error that writing raised.

  Returns:
    E.g. `the disk is full`; the system's message for rarer errors.
  """
  return _REASONS.get(error.errno or 0) or _message(error)


def _message(error: OSError) -> str:
  """Returns the system's message in lower case, or the type of the error."""
  words = error.strerror or re.sub(r'^\[Errno -?\d+\] ', '', str(error))
  words = words or type(error).__name__
  if words[1:2].islower():
    words = words[0].lower() + words[1:]
  return words
