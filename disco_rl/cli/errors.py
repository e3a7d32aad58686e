"""Errors of users, which are reported without a traceback."""

from collections.abc import Iterator
import contextlib


class UsageError(ValueError):
  """Raised for requests that cannot be fulfilled; the message explains why."""


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
  """Converts errors with a message for users to `UsageError`, within a block.

  For the set-up of a command only, where the library raises a `ValueError` if
  settings are wrong, and a user-facing error if code of the user fails.
  """
  try:
    yield
  except UsageError:
    raise
  except Exception as error:
    if isinstance(error, ValueError | OSError) or is_user_facing(error):
      raise UsageError(str(error)) from error
    raise


def is_user_facing(error: BaseException) -> bool:
  """Returns whether an error's message alone tells users what to do."""
  return getattr(error, 'is_user_facing', False) is True
