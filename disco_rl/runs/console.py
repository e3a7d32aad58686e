"""Writes to standard output and error without ever failing.

Text for a stream that is closed, broken or full is dropped, and the program
goes on. Characters that its encoding lacks are replaced. `set_up` does this for
all output of a process; `say` and `complain` do it for one line, in the
library, which does not change the streams of its user.

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
# Temporary errors, e.g. of a log on a full disk; after others, a stream is
# redirected to /dev/null.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINTR)


class _Output(io.FileIO):
  """A file descriptor to which writing cannot fail."""

  def write(self, data: Any) -> int:
    """Writes or drops bytes; returns how many were written or dropped."""
    size = memoryview(data).nbytes
    try:
      written = super().write(data)
      if written is None:  # It is non-blocking, and full.
        select.select([], [self.fileno()], [], _SECONDS_TO_DRAIN)
        written = super().write(data)
    except OSError as error:
      if error.errno not in _PASSING:
        _to_nowhere(self.fileno())
      return size
    return size if written is None else written


def set_up() -> None:
  """Makes the standard streams of this process unbreakable.

  To be called first in a program. Closed descriptors are opened on /dev/null;
  otherwise the next file that is opened would get their number, and the output.
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
  """Prints a line to the standard output; drops it if that fails."""
  write(sys.stdout, f'{text}\n')


def complain(text: str) -> None:
  """Prints a line to the standard error; drops it if that fails."""
  write(sys.stderr, f'{text}\n')


def write(stream: TextIO | None, text: str) -> None:
  """Writes text to a stream and flushes it; drops it if that fails.

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
  """Returns whether the encoding of a stream has all characters of a text."""
  encoding = getattr(stream, 'encoding', None) or 'utf-8'
  try:
    text.encode(encoding)
  except (UnicodeError, LookupError):
    return False
  return True


def is_terminal(stream: TextIO | None) -> bool:
  """Returns whether a stream is a terminal; False for None, no stream."""
  try:
    return stream is not None and stream.isatty()
  except (OSError, ValueError):
    return False


def can_rewrite(stream: TextIO | None) -> bool:
  """Returns whether a stream is a terminal whose last line can be replaced."""
  return is_terminal(stream) and os.environ.get('TERM') != 'dumb'


def width(stream: TextIO | None) -> int:
  """Returns the columns of a terminal; `COLUMNS` or 80 if they are unknown."""
  columns = 0
  if stream is not None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
      columns = os.get_terminal_size(stream.fileno()).columns
  if columns < 1:
    named = os.environ.get('COLUMNS', '')
    columns = int(named) if named.isdecimal() else 0
  return columns if columns > 0 else _DEFAULT_WIDTH


def _unbreakable(number: int, old: TextIO | None) -> TextIO:
  """Makes a stream with the encoding and buffering of an old one, or None."""
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
  """Redirects a descriptor to /dev/null, in both directions."""
  with contextlib.suppress(OSError):
    null = os.open(os.devnull, os.O_RDWR)
    if null == number:
      os.set_inheritable(null, True)
    else:
      os.dup2(null, number)
      os.close(null)
