"""Errors of users, which are reported without a traceback."""

from collections.abc import Iterator
import contextlib

from disco_rl.runs import os_errors


class UsageError(ValueError):
  """Raised for requests that cannot be fulfilled; the message explains why."""


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
  """Converts `ValueError` and `OSError` to `UsageError`, within a block.

  For the set-up of a command only, where the library raises a `ValueError` with
  a message for users if settings are wrong.
  """
  try:
    yield
  except UsageError:
    raise
  except OSError as error:
    raise UsageError(os_errors.describe(error)) from error
  except ValueError as error:
    raise UsageError(str(error)) from error
