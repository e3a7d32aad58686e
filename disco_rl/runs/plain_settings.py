"""Converts settings to and from what JSON can hold.

Run folders and rule files record settings this way; `from_plain(to_plain(x))`
rebuilds everything that a setting can be, the inputs of a meta-network
included.
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
      numbers and texts. Anything else becomes its name.

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
  """Rebuilds settings from what `to_plain` made.

  Args:
    plain: a tree of JSON types.

  Returns:
    The same with tuples for lists, and the records that dicts stand for.
  """
  if isinstance(plain, Mapping):
    inner = {name: from_plain(value) for name, value in plain.items()}
    record = _RECORDS.get(frozenset(inner))
    return inner if record is None else record(**inner)
  if isinstance(plain, list | tuple):
    return tuple(from_plain(value) for value in plain)
  return plain
