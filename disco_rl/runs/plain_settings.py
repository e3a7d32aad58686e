"""Converts settings to and from JSON types.

Run folders and rule files store settings this way; `from_plain(to_plain(x))`
restores all settings, including the inputs of a meta-network.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import types

# Records among the settings, recognised by the names of their fields.
_RECORDS = {
  frozenset(field.name for field in dataclasses.fields(record)): record
  for record in (types.TransformConfig, types.MetaNetInputOption)
}


def to_plain(value: Any) -> Any:
  """Converts settings to JSON types.

  Args:
    value: a `ConfigDict` or a tree of dicts, lists, tuples, dataclasses,
      numbers and strings. Anything else is converted to its name.

  Returns:
    A tree of JSON types.
  """
  if isinstance(value, config_dict.ConfigDict | dict):
    return {str(name): to_plain(inner) for name, inner in value.items()}
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    return {
      field.name: to_plain(getattr(value, field.name))
      for field in dataclasses.fields(value)
    }
  if isinstance(value, tuple | list):
    return [to_plain(inner) for inner in value]
  if value is None or isinstance(value, bool | int | float | str):
    return value
  return getattr(value, '__name__', None) or repr(value)


def from_plain(plain: Any) -> Any:
  """Restores settings from JSON types.

  Args:
    plain: a tree from `to_plain`.

  Returns:
    The tree with tuples instead of lists, and with records restored.
  """
  if isinstance(plain, Mapping):
    inner = {name: from_plain(value) for name, value in plain.items()}
    record = _RECORDS.get(frozenset(inner))
    return inner if record is None else record(**inner)
  if isinstance(plain, list | tuple):
    return tuple(from_plain(value) for value in plain)
  return plain


def is_plain(value: Any) -> bool:
  """Returns whether `to_plain` converts a value without loss.

  Args:
    value: a tree of settings.
  """
  if isinstance(value, Mapping):
    return all(
      isinstance(name, str) and is_plain(inner) for name, inner in value.items()
    )
  if isinstance(value, tuple | list):
    return all(is_plain(inner) for inner in value)
  return value is None or isinstance(value, bool | int | float | str)
