"""Converts errors in code of users and of other packages to one sentence.

```python
with foreign.boundary('cannot import my_module'):
  importlib.import_module('my_module')
```

Any error in the block is raised again as a `ForeignCodeError`, whose message is
one sentence with the type and message of the error, and the file and line that
it comes from. The original error is its cause.
"""

from collections.abc import Sequence
import pathlib
import signal
import sysconfig
import threading
import traceback
from typing import Any

from disco_rl import fields

_PACKAGE = pathlib.Path(__file__).parents[1]
_STANDARD_LIBRARY = pathlib.Path(sysconfig.get_path('stdlib'))
_INSTALLED = ('site-packages', 'dist-packages')
# Packages whose frames are less informative than those of their callers.
_TOOLS = frozenset(('jax', 'jaxlib', 'numpy'))
_LONGEST_MESSAGE = 300


class ForeignCodeError(RuntimeError):
  """Raised for errors in code of users or of other packages.

  Attributes:
    is_user_facing: whether the message suffices without a traceback; commands
      then print no more than the message.
  """

  is_user_facing = True


class InvalidEnvironmentError(ForeignCodeError, ValueError):
  """Raised for environments that violate the interface of `base.Environment`.

  Their code raised no error, but returned a value that cannot be used.
  """


class boundary:  # noqa: N801, since it is used like a function.
  """Converts every error within a block to a `ForeignCodeError`.

  That includes a `SystemExit`, `KeyboardInterrupt` or `GeneratorExit` of the
  code itself, but not one that a signal raised, such as Ctrl-C.
  """

  def __init__(
    self,
    doing: str,
    passes: type[Exception] | tuple[type[Exception], ...] = (),
  ):
    """Initialises the boundary.

    Args:
      doing: beginning of the message, e.g. `'cannot import my_module'`.
      passes: types of errors that are not converted if this library raised
        them, e.g. for invalid settings.
    """
    self._doing = doing
    self._passes = passes

  def __enter__(self) -> None:
    """Does nothing."""

  def __exit__(
    self, kind: Any, error: BaseException | None, trace: Any
  ) -> None:
    """Converts the error, if there is one."""
    if error is None or isinstance(error, ForeignCodeError):
      return
    if isinstance(error, GeneratorExit) and _is_raised_here(error):
      return  # A generator of this library is closed.
    if not isinstance(error, Exception) and _is_from_signal(error):
      return
    if isinstance(error, self._passes) and _is_raised_here(error):
      return
    raise ForeignCodeError(f'{self._doing}: {describe(error)}') from error


def describe(error: BaseException) -> str:
  """Returns type, message, file and line of an error, in one line."""
  try:
    message = one_line(str(error))
  except Exception:  # The error's `__str__` may fail.
    message = ''
  kind = type(error).__name__
  text = f'{kind}: {message}' if message else kind
  return with_place(text, _frames(error))


def one_line(message: str) -> str:
  """Returns a message in one line that can be printed, cut off if it is long.

  Args:
    message: any text.

  Returns:
    At most 300 characters, and `...` if there were more.
  """
  return fields.printable(' '.join(message.split()), _LONGEST_MESSAGE)


def with_place(text: str, frames: Sequence[tuple[str, int]]) -> str:
  """Appends file and line of the innermost foreign frame, if there is one.

  Args:
    text: the description of an error.
    frames: file and line of each frame, the innermost last.

  Returns:
    The text with the place in parentheses.
  """
  foreign = [
    at for at in frames if not (_is_in(at[0], _PACKAGE) or _is_tool(at[0]))
  ]
  if not foreign:
    return text
  filename, line = foreign[-1]
  return f'{text} ({filename}, line {line})'


def _frames(error: BaseException) -> list[tuple[str, int]]:
  """Returns file and line of every frame of an error, the innermost last."""
  frames = [
    (frame.f_code.co_filename, line)
    for frame, line in traceback.walk_tb(error.__traceback__)
  ]
  if isinstance(error, SyntaxError) and error.filename:
    frames.append((error.filename, error.lineno or 0))
  return frames


def _is_from_signal(error: BaseException) -> bool:
  """Returns whether the handler of a signal raised an error.

  Python's own handler of Ctrl-C leaves no trace, so that a `KeyboardInterrupt`
  is taken for one of it wherever that handler is installed. It is not in a
  command, nor in a run that is saved (`runs/interrupts.py`).
  """
  if threading.current_thread() is not threading.main_thread():
    return False
  handlers = [signal.getsignal(number) for number in signal.valid_signals()]
  if isinstance(error, KeyboardInterrupt):
    if signal.default_int_handler in handlers:
      return True
  codes = {getattr(handler, '__code__', None) for handler in handlers} - {None}
  return any(
    frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__)
  )


def _is_raised_here(error: BaseException) -> bool:
  """Returns whether the innermost frame is one of this library."""
  frames = list(traceback.walk_tb(error.__traceback__))
  return bool(frames) and _is_in(frames[-1][0].f_code.co_filename, _PACKAGE)


def _is_in(filename: str, folder: pathlib.Path) -> bool:
  return pathlib.Path(filename).is_relative_to(folder)


def _is_tool(filename: str) -> bool:
  """Returns whether a file belongs to Python, JAX or NumPy."""
  parts = pathlib.Path(filename).parts
  installed = [i for i, part in enumerate(parts) if part in _INSTALLED]
  if installed:
    return bool(_TOOLS.intersection(parts[installed[-1] + 1 :][:1]))
  return filename.startswith('<') or _is_in(filename, _STANDARD_LIBRARY)
