"""Reports errors to users in one sentence, without a traceback."""

from collections.abc import Iterator
import contextlib
import traceback

from disco_rl import fields
from disco_rl.runs import console
from disco_rl.runs import os_errors

# Longer messages are cut; the names in them are from users and from files.
_MAX_MESSAGE = 2000


class UsageError(ValueError):
  """Raised if a command cannot start; the message explains why.

  Attributes:
    exit_code: exit code of the command.
    word: kind of the error, shown before the message.
    advice: a further line for the user; empty for none.
  """

  exit_code = 2
  word = 'error'
  advice = ''


class StoppedError(RuntimeError):
  """Raised when an error stopped a run; the message explains why.

  Attributes:
    exit_code: exit code of the command.
    word: kind of the error, shown before the message.
    advice: a further line for the user, e.g. how to resume; empty for none.
  """

  exit_code = 1
  word = 'stopped'

  def __init__(self, message: str, advice: str):
    """Stores the advice."""
    super().__init__(message)
    self.advice = advice


def is_for_users(error: BaseException) -> bool:
  """Returns whether the message of an error is written for users.

  Such errors have an attribute `is_user_facing` that is true.
  """
  return bool(getattr(error, 'is_user_facing', False))


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
  """Converts errors that users can correct to `UsageError`, within a block.

  For the set-up of a command only, where the library raises a `ValueError` if
  settings are wrong, and a user-facing error if code of the user fails.
  """
  try:
    yield
  except UsageError:
    raise
  except OSError as error:
    raise UsageError(os_errors.describe(error)) from error
  except Exception as error:
    if isinstance(error, ValueError) or is_for_users(error):
      raise UsageError(str(error)) from error
    raise


def report(
  command: str, error: UsageError | StoppedError, show_traceback: bool
) -> int:
  """Prints an error to the standard error.

  Args:
    command: the command that failed.
    error: the error.
    show_traceback: whether to print its traceback first.

  Returns:
    The exit code.
  """
  if show_traceback:
    cause = error.__cause__ or error
    console.complain(''.join(traceback.format_exception(cause)))
  message = fields.printable(str(error), _MAX_MESSAGE)
  console.complain(f'disco-rl {command}: {error.word}: {message}')
  if error.advice:
    console.complain(error.advice)
  return error.exit_code
