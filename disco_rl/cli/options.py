"""Parses command lines, and rejects likely mistakes.

Options cannot be abbreviated or have empty values. They cannot be given twice,
unless they collect values.
"""

import argparse
from collections.abc import Sequence
import contextlib
import math
from typing import Any, NoReturn

from disco_rl import fields

_MAX_MESSAGE = 1000


class Parser(argparse.ArgumentParser):
  """An `ArgumentParser` with these restrictions, also for its subparsers."""

  def __init__(self, **kwargs: Any):
    """Initialises the parser; arguments as in `ArgumentParser`."""
    kwargs.setdefault('allow_abbrev', False)
    super().__init__(**kwargs)
    for name in (None, 'store'):
      self.register('action', name, _Store)
    self.register('action', 'append', _Collect)
    self.register('action', 'store_true', _Flag)

  def error(self, message: str) -> NoReturn:
    """Prints usage and the message, truncated if it is long, and exits."""
    super().error(fields.printable(message, _MAX_MESSAGE))


def whole_number(text: str) -> int:
  """Parses the value of an option that must be a whole number.

  Args:
    text: e.g. `1000000`, `1_000_000` or `1e6`.

  Returns:
    The number.
  """
  with contextlib.suppress(ValueError):
    return int(text)
  with contextlib.suppress(ValueError):
    value = float(text)
    if value.is_integer():
      return int(value)
  raise argparse.ArgumentTypeError(
    f'must be a whole number, got {fields.shorten(text)}'
  )


def positive_number(text: str) -> float:
  """Parses the value of an option that must be a finite number above 0."""
  try:
    value = float(text)
  except ValueError:
    value = 0.0
  if not 0 < value < math.inf:
    raise argparse.ArgumentTypeError(
      f'must be a number above 0, got {fields.shorten(text)}'
    )
  return value


class _Store(argparse.Action):
  """Stores a value, which must not be empty or given twice."""

  def __call__(
    self,
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    values: Any,
    option_string: str | None = None,
  ) -> None:
    name = option_string or self.metavar
    texts: Sequence[Any] = values if isinstance(values, list) else [values]
    if any(isinstance(text, str) and not text.strip() for text in texts):
      parser.error(f'{name} needs a value, got an empty text')
    given = vars(namespace).setdefault('given_options', set())
    before = getattr(namespace, self.dest) if self.dest in given else None
    given.add(self.dest)
    setattr(namespace, self.dest, self._combine(parser, name, before, values))

  def _combine(
    self, parser: argparse.ArgumentParser, name: Any, before: Any, value: Any
  ) -> Any:
    """Returns the new value of the option, given the one before or None."""
    if before is not None and self.option_strings:
      parser.error(
        f'{name} is given twice, as {fields.shorten(before)} and '
        f'{fields.shorten(value)}: give it once'
      )
    return value


class _Collect(_Store):
  """Collects the values of an option, which must not be empty, in a list."""

  def _combine(
    self, parser: argparse.ArgumentParser, name: Any, before: Any, value: Any
  ) -> Any:
    del parser, name
    return [*(before or []), value]


class _Flag(argparse.Action):
  """Stores True, at most once."""

  def __init__(self, default: bool = False, **kwargs: Any):
    super().__init__(nargs=0, default=default, **kwargs)

  def __call__(
    self,
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    values: Any,
    option_string: str | None = None,
  ) -> None:
    del values
    if getattr(namespace, self.dest):
      parser.error(f'{option_string} is given twice: give it once')
    setattr(namespace, self.dest, True)


def add_use(parser: argparse.ArgumentParser) -> None:
  """Adds the option that names modules of users."""
  parser.add_argument(
    '--use',
    action='append',
    metavar='MODULE',
    help='module to import first, which may register environments, rules and '
    'networks. May be repeated',
  )
