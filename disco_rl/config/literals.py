"""Parses values of settings that are written as text."""

import ast
from typing import Any

from disco_rl import fields

_MAX_LENGTH = 10_000
_MAX_DEPTH = 32

_WORDS = dict(none=None, true=True, false=False)


def parse(text: str, path: str, field: fields.Field) -> Any:
  """Parses the value of a setting, which its field must still check.

  Args:
    text: e.g. `3e-4`, `512,256`, `none` or `{'a': 1}`.
    path: full name of the setting, for messages.
    field: its type and range.

  Returns:
    The value; the text itself if it is not a literal.

  Raises:
    ValueError: if the text is too long or too deep.
  """
  if len(text) > _MAX_LENGTH or _depth(text) > _MAX_DEPTH:
    # Python's parser would need an unbounded amount of memory and stack.
    raise ValueError(
      f'{path} must be {fields.describe(field)}, got {len(text)} characters: '
      f'{fields.shorten(text)}'
    )
  if field.kind is str and not (field.optional and text.lower() == 'none'):
    return text
  if text.lower() in _WORDS:
    return _WORDS[text.lower()]
  if field.kind is bool and text in ('0', '1'):
    return text == '1'
  try:
    value = ast.literal_eval(text)
  except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
    if field.items is not None and field.items.kind is str:
      return tuple(item.strip() for item in text.split(','))
    return text
  if field.kind is tuple and not isinstance(value, tuple | list):
    return (value,)
  return value


def _depth(text: str) -> int:
  """Returns an upper bound on the depth of a literal."""
  depth = deepest = 0
  for character in text:
    if character in '([{':
      depth += 1
      deepest = max(deepest, depth)
    elif character in ')]}':
      depth -= 1
  # Signs nest, too: `----1`.
  signs = max(text.count('-'), text.count('+'), text.count('~'))
  return deepest if signs <= _MAX_DEPTH else deepest + signs
