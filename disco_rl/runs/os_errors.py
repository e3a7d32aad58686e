"""Turns errors of the operating system into words."""

import re


def describe(error: OSError) -> str:
  """Describes an error without its number.

  Args:
    error: from a file or a folder.

  Returns:
    E.g. `runs/x: permission denied`.
  """
  reason = getattr(error, 'reason', None)  # Of an error of urllib.
  if isinstance(reason, OSError):
    return describe(reason)
  words = error.strerror or re.sub(r'^\[Errno -?\d+\] ', '', str(error))
  words = words or type(error).__name__
  if words[1:2].islower():
    words = words[0].lower() + words[1:]
  if error.strerror is None or error.filename is None:
    return words
  name = error.filename
  if isinstance(name, bytes):
    name = name.decode(errors='replace')
  name = str(name)
  return f'{name if len(name) <= 200 else name[:200] + "..."}: {words}'
