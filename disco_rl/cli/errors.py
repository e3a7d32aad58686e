"""User errors, reported without a traceback."""

from collections.abc import Iterator
import contextlib


class UsageError(ValueError):
  """Something asked for cannot be done; the message says what and why."""


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
  """Within the block, wrong values and files are the user's mistakes.

  For the set-up of a command only: there the library raises ValueError for
  settings that cannot work, with a message made to be read.
  """
  try:
    yield
  except UsageError:
    raise
  except (ValueError, OSError) as error:
    raise UsageError(str(error)) from error
