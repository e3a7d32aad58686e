"""Checks the types and ranges of settings, with messages for users.

```python
steps = Field(int, low=1, limit=MAX_COUNT)
check(steps, 'steps', 1e3)  # 1000
check(steps, 'steps', 0)  # Raises: steps must be a whole number of at least 1
```

Environments declare the fields of their settings beside their defaults; all
others are in `schema.py`.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import math
import os
from typing import Any

from ml_collections import config_dict
import numpy as np

# Limit on seeds, agents and devices.
MAX_LANES = 4096
# Limit on iterations, updates and the like, which are counted in 32 bits.
MAX_COUNT = 10**9
# Limit on environment steps, which are exact in float64.
MAX_ENV_STEPS = 10**15
# Limit on the sizes of batches and rollouts, and on environments. Far smaller
# ones are refused if they do not fit into memory; this limit keeps the time of
# that estimate short.
MAX_SIZE = 10**6
# Limits on the width of a layer and on the number of layers.
MAX_WIDTH = 2**16
MAX_LAYERS = 32
MAX_SEED = 2**31 - 1
# Limit on numbers; larger ones may be infinite in float32.
MAX_FLOAT = 1e38
# Positive numbers below this are 0.
MIN_FLOAT = 1e-37

_MAX_TEXT = 10_000
_MAX_ITEMS = 1000
_MAX_DEPTH = 8
_MAX_INT = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Field:
  """The type and range of a setting.

  Attributes:
    kind: its type; None for any plain value.
    low: smallest value.
    high: largest value.
    above: exclusive lower bound.
    below: exclusive upper bound.
    limit: bound on the absolute value that no sensible run exceeds; messages
      name it only if it is exceeded.
    choices: all valid values, or a function that lists them.
    optional: whether it may be None.
    items: type and range of the items of a sequence; None for any items.
    max_items: largest number of items of a sequence.
    finite: whether a number must be finite.
    accepts: a further condition, which `words` describe.
    words: replaces the type in messages, e.g. `'an odd number'`.
  """

  kind: type | None = None
  low: float | None = None
  high: float | None = None
  above: float | None = None
  below: float | None = None
  limit: float | None = None
  choices: Sequence[str] | Callable[[], Sequence[str]] | None = None
  optional: bool = False
  items: 'Field | None' = None
  max_items: int = _MAX_ITEMS
  finite: bool = True
  accepts: Callable[[Any], bool] | None = None
  words: str = ''


# Settings that environments have in common.
SEED = Field(int, low=0, high=MAX_SEED)
WORKERS = Field(int, low=0, limit=256)
TIMEOUT = Field(float, above=0, limit=10**7)  # Seconds.
FRAME_STACK = Field(int, low=1, limit=256)

_KINDS = {
  bool: 'true or false',
  int: 'a whole number',
  float: 'a number',
  str: 'a text',
  tuple: 'a list',
  dict: 'a group of settings',
}


def describe(field: Field, with_limit: bool = False) -> str:
  """Describes the valid values, e.g. as `a whole number of at least 1`.

  Args:
    field: the field.
    with_limit: whether to include its limits.

  Returns:
    Words that follow `must be`.
  """
  text = _KINDS.get(field.kind or object, 'a finite number, a text or a list')
  if field.choices is not None:
    text = f'one of {", ".join(_choices(field))}'
  text = field.words or text
  if with_limit and field.kind is str and field.choices is None:
    text += f' of at most {_MAX_TEXT} characters'
  if with_limit and _is_positive(field):
    field = dataclasses.replace(field, above=MIN_FLOAT)
  high = field.limit if with_limit and field.high is None else field.high
  bounds = {
    'of at least': field.low,
    'above': field.above,
    'of at most': high,
    'below': field.below,
  }
  limits = [
    f'{word} {_plain(x)}' for word, x in bounds.items() if x is not None
  ]
  if field.low is not None and high is not None:
    limits = [f'between {_plain(field.low)} and {_plain(high)}']
  text = ' '.join([text, ' and '.join(limits)]).strip()
  if field.items is not None:
    text += f' of up to {field.max_items} items' if with_limit else ' of items'
    text += f', each {describe(field.items, with_limit)}'
  return f'{text}, or none' if field.optional else text


def check(field: Field, path: str, value: Any) -> Any:
  """Checks the value of a setting, and converts it to its type.

  Args:
    field: its type and range.
    path: its full name, for the message.
    value: the value.

  Returns:
    The converted value.

  Raises:
    ValueError: if the value is not valid.
  """
  if value is None and field.optional:
    return None
  given, value = value, _convert(value, field)
  has_kind = value is not None and _has_kind(field, value)
  is_within = has_kind and _is_within_limits(field, value)
  if not is_within:
    raise ValueError(
      f'{path} must be {describe(field, with_limit=has_kind)}, got '
      f'{shorten(given)}'
    )
  if field.choices is None and field.items is None:
    check_plain(path, value)
  return value


def check_plain(path: str, value: Any, depth: int = 0) -> None:
  """Raises a `ValueError` for plain values of excessive size or depth.

  Args:
    path: full name of the setting, for the message.
    value: numbers, texts, and lists and groups of them. Other objects, which
      only Python programs can pass, are not checked.
    depth: number of lists and groups around the value.
  """
  problem = ''
  if isinstance(value, str) and len(value) > _MAX_TEXT:
    problem = f'a text of at most {_MAX_TEXT} characters'
  elif isinstance(value, int) and abs(value) > _MAX_INT:
    problem = 'a whole number of at most 64 bits'
  elif isinstance(value, Mapping | list | tuple):
    if depth < _MAX_DEPTH and len(value) <= _MAX_ITEMS:
      for item in value.values() if isinstance(value, Mapping) else value:
        check_plain(path, item, depth + 1)
      return
    problem = f'of at most {_MAX_ITEMS} items, in at most {_MAX_DEPTH} levels'
  elif isinstance(value, float):
    # At depth 0, the field has checked whether it must be finite.
    if depth and not math.isfinite(value):
      problem = 'made of finite numbers'
    elif math.isfinite(value) and abs(value) > MAX_FLOAT:
      problem = f'a number of at most {MAX_FLOAT:g}'
  if problem:
    raise ValueError(f'{path} must be {problem}, got {shorten(value)}')


def check_names(path: str, settings: Any) -> None:
  """Raises a `ValueError` if the name of a setting is no string.

  Args:
    path: full name of the group, for the message.
    settings: a ConfigDict or a mapping, perhaps with groups in it. Other
      objects are not checked.
  """
  if not isinstance(settings, Mapping | config_dict.ConfigDict):
    return
  for name in settings:
    if not isinstance(name, str):
      raise ValueError(
        f'{path} must have strings as their names, got {shorten(name)}'
      )
    check_names(path, settings[name])


def check_path(name: str, value: Any) -> None:
  """Raises a `ValueError` for an argument that cannot be a path.

  Args:
    name: name of the argument, for the message.
    value: the argument.
  """
  try:
    text = os.fspath(value)
  except TypeError:
    text = None
  if not isinstance(text, str) or not text or '\0' in text:
    raise ValueError(f'{name} must be a path, got {shorten(value)}')


def like(default: Any) -> Field:
  """Makes the field of a setting from its default.

  Args:
    default: the default; None for a setting of any type.

  Returns:
    A field of the same type. Infinity is accepted only if it is the default.
  """
  if default is None:
    return Field(optional=True)
  if isinstance(default, list | tuple):
    kinds = {type(item) for item in default}
    items = None
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
      items = like(default[0])
    return Field(tuple, items=items)
  is_infinite = isinstance(default, float) and not math.isfinite(default)
  return Field(type(default), finite=not is_infinite)


def shorten(value: Any, length: int = 60) -> str:
  """Formats a value for a message, truncated if it is long.

  Args:
    value: any object.
    length: largest number of characters to show.

  Returns:
    Its `repr`, in one line; `...` marks a truncated one.
  """
  if isinstance(value, str):  # Truncated before it is quoted, to be quick.
    value, rest = value[:length], len(value) - length
    text = repr(value)
  else:
    try:
      text = repr(value)
    except Exception:  # Too deep, too large, or a broken `__repr__`.
      text = f'a {type(value).__name__}'
    text, rest = ' '.join(text[:length].split()), len(text) - length
  return f'{text}...' if rest > 0 else text


def printable(text: str, length: int) -> str:
  """Returns a text in one line that can be printed, truncated if it is long.

  Args:
    text: any text, e.g. a message with a name from a file or a command line.
    length: largest number of characters to show.

  Returns:
    The text, with `?` for characters that a terminal might obey; `...` marks a
    truncated one.
  """
  shown = text[:length]
  if not shown.isprintable():
    shown = ''.join(
      c if c.isprintable() else ' ' if c.isspace() else '?' for c in shown
    )
  return f'{shown}...' if len(text) > length else shown


def _is_within_limits(field: Field, value: Any) -> bool:
  """Returns whether a value and its items are within the limits of a field."""
  if field.limit is not None and abs(value) > field.limit:
    return False
  if _is_positive(field) and value < MIN_FLOAT:
    return False
  if field.kind is str and len(value) > _MAX_TEXT:
    return False
  if field.items is not None:
    if len(value) > field.max_items:
      return False
    return all(_is_within_limits(field.items, item) for item in value)
  return True


def _is_positive(field: Field) -> bool:
  """Returns whether a field has floats above 0."""
  return field.kind is float and field.above == 0


def _has_kind(field: Field, value: Any) -> bool:
  """Returns whether a converted value has the type and range of a field."""
  kind = field.kind
  if kind is not None and kind in _KINDS:
    if not isinstance(value, Mapping if kind is dict else kind):
      return False
    if isinstance(value, bool) and kind is not bool:
      return False
  if field.finite and isinstance(value, float) and not math.isfinite(value):
    return False
  if field.choices is not None and value not in _choices(field):
    return False
  if field.items is not None and not all(
    item is not None and _has_kind(field.items, item) for item in value
  ):
    return False
  if field.accepts is not None and not field.accepts(value):
    return False
  return not (
    (field.low is not None and value < field.low)
    or (field.high is not None and value > field.high)
    or (field.above is not None and value <= field.above)
    or (field.below is not None and value >= field.below)
  )


def _convert(value: Any, field: Field) -> Any:
  """Converts between int and float, and lists to tuples, without loss."""
  kind = field.kind
  if isinstance(value, np.generic):
    value = value.item()
  if kind is int and isinstance(value, float) and value.is_integer():
    return int(value)  # 1e6
  if kind is int and isinstance(value, int) and not isinstance(value, bool):
    return int(value)  # Of a subclass, such as an enum.
  if kind is float and isinstance(value, int) and not isinstance(value, bool):
    try:
      return float(value)
    except OverflowError:
      return math.inf if value > 0 else -math.inf
  if kind is tuple and isinstance(value, list | range):
    value = tuple(value[: field.max_items + 1])  # More are refused.
  if kind is tuple and isinstance(value, tuple) and field.items is not None:
    return tuple(_convert(item, field.items) for item in value)
  return value


def _choices(field: Field) -> Sequence[str]:
  assert field.choices is not None
  return field.choices() if callable(field.choices) else field.choices


def _plain(bound: float) -> str:
  return str(bound) if isinstance(bound, int) else f'{bound:g}'
