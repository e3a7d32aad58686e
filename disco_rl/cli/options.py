"""A parser of options that refuses what is probably a mistake.

Options cannot be abbreviated, have empty values, or be given twice unless they
collect values.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from disco_rl import fields

_MAX_MESSAGE = 1000


class Parser(argparse.ArgumentParser):
  """An `ArgumentParser` with these rules; subparsers have them, too."""

  def __init__(self, **kwargs: Any):
    """Initialises the parser; arguments as in `ArgumentParser`."""
    kwargs.setdefault('allow_abbrev', False)
    super().__init__(**kwargs)
    for name in (None, 'store'):
      self.register('action', name, _Once)
    self.register('action', 'append', _Collect)

  def error(self, message: str) -> NoReturn:
    """Prints usage and the message, which may quote long arguments; exits."""
    if len(message) > _MAX_MESSAGE:
      message = f'{message[:_MAX_MESSAGE]}...'
    super().error(message)


def whole_number(text: str) -> int:
  """Parses an option's value, with an error that says what is accepted."""
  try:
    return int(text)
  except ValueError:
    raise argparse.ArgumentTypeError(
      f'must be a whole number, got {fields.shorten(text)}'
    ) from None


class _Once(argparse.Action):
  """Stores a value, which must not be empty or given twice."""

  def __call__(
    self,
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    values: Any,
    option_string: str | None = None,
  ) -> None:
    _check_not_empty(parser, values, option_string or self.metavar)
    given = vars(namespace).setdefault('given_options', set())
    if option_string is not None and self.dest in given:
      first = fields.shorten(getattr(namespace, self.dest))
      parser.error(
        f'{option_string} is given twice, as {first} and '
        f'{fields.shorten(values)}: give it once'
      )
    given.add(self.dest)
    setattr(namespace, self.dest, values)


class _Collect(argparse.Action):
  """Appends a value, which must not be empty, to a list."""

  def __call__(
    self,
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    values: Any,
    option_string: str | None = None,
  ) -> None:
    _check_not_empty(parser, values, option_string)
    collected = getattr(namespace, self.dest) or []
    setattr(namespace, self.dest, [*collected, values])


def _check_not_empty(
  parser: argparse.ArgumentParser, values: Any, name: Any
) -> None:
  texts: Sequence[Any] = values if isinstance(values, list) else [values]
  if any(isinstance(text, str) and not text.strip() for text in texts):
    parser.error(f'{name} needs a value, got an empty text')
