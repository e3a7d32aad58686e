"""Standard output and error, neither of which is ever a reason to stop.

A stream that is closed, broken or full loses what is written to it, and the
program goes on. Characters that its encoding lacks are replaced. `set_up` does
this for a whole process, from its first line; `say` does it for one line, in
the library, which leaves the streams of its user as they are.

Nothing here needs JAX.
"""

import contextlib
import errno
import io
import os
import select
import sys
from typing import Any, TextIO

_NAMES = ('stdin', 'stdout', 'stderr')  # By file descriptor.
_SECONDS_TO_DRAIN = 1.0
_DEFAULT_WIDTH = 80
# Errors after which a stream may work again, e.g. a log on a full disk.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINTR)


class _Output(io.FileIO):
  """A file descriptor to which writing cannot fail."""

  def write(self, data: Any) -> int:
    """Writes bytes, or drops them; returns how many are taken care of."""
    size = memoryview(data).nbytes
    try:
      written = super().write(data)
      if written is None:  # It is full, and set not to wait.
        select.select([], [self.fileno()], [], _SECONDS_TO_DRAIN)
        written = super().write(data)
    except OSError as error:
      if error.errno not in _PASSING:
        _to_nowhere(self.fileno())
      return size
    return size if written is None else written


def set_up() -> None:
  """Makes the standard streams of this process unbreakable.

  To be called first in a program. Descriptors that are closed are opened, since
  the next file to be opened would get their number, and with it all output.
  """
  for number, name in enumerate(_NAMES):
    if getattr(sys, name) is None:
      _to_nowhere(number)
  for number, name in enumerate(_NAMES[1:], start=1):
    old = getattr(sys, name)
    new = _unbreakable(number, old)
    setattr(sys, name, new)
    setattr(sys, f'__{name}__', new)


def say(text: str) -> None:
  """Prints a line to the standard output, if that is possible."""
  write(sys.stdout, f'{text}\n')


def complain(text: str) -> None:
  """Prints a line to the standard error, if that is possible."""
  write(sys.stderr, f'{text}\n')


def write(stream: TextIO | None, text: str) -> None:
  """Writes text to a stream and flushes it, if that is possible.

  Args:
    stream: a stream, perhaps broken or closed; None for no stream.
    text: the text; characters that the stream cannot encode are replaced.
  """
  if stream is None:
    return
  encoding = getattr(stream, 'encoding', None) or 'utf-8'
  with contextlib.suppress(OSError, ValueError, LookupError):
    text = text.encode(encoding, 'replace').decode(encoding, 'replace')
    stream.write(text)
    stream.flush()


def can_show(stream: TextIO | None, text: str) -> bool:
  """Returns whether a stream has the characters of a text."""
  encoding = getattr(stream, 'encoding', None) or 'utf-8'
  try:
    text.encode(encoding)
  except (UnicodeError, LookupError):
    return False
  return True


def is_terminal(stream: TextIO | None) -> bool:
  """Returns whether a line of a stream can be written again.

  Args:
    stream: the stream; None for no stream.

  Returns:
    Whether it is a terminal, and not a dumb one.
  """
  if stream is None or os.environ.get('TERM') == 'dumb':
    return False
  try:
    return stream.isatty()
  except (OSError, ValueError):
    return False


def width(stream: TextIO | None) -> int:
  """Returns the number of columns of a terminal, or of a usual one."""
  columns = 0
  if stream is not None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
      columns = os.get_terminal_size(stream.fileno()).columns
  if columns < 1:
    named = os.environ.get('COLUMNS', '')
    columns = int(named) if named.isdecimal() else 0
  return columns if columns > 0 else _DEFAULT_WIDTH


def _unbreakable(number: int, old: TextIO | None) -> TextIO:
  """Makes the stream of a descriptor, in the manner of the old one."""
  encoding = getattr(old, 'encoding', None) or 'utf-8'
  line_buffering = bool(getattr(old, 'line_buffering', True))
  with contextlib.suppress(OSError, ValueError):
    if old is not None:
      old.flush()
  raw = _Output(number, 'wb', closefd=False)
  return io.TextIOWrapper(
    io.BufferedWriter(raw),
    encoding=encoding,
    errors='replace',
    line_buffering=line_buffering,
  )


def _to_nowhere(number: int) -> None:
  """Makes a descriptor lose what is written to it, and read nothing."""
  with contextlib.suppress(OSError):
    null = os.open(os.devnull, os.O_RDWR)
    if null == number:
      os.set_inheritable(null, True)
    else:
      os.dup2(null, number)
      os.close(null)
