"""Checks arguments of the library that have no entry in the schema."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types


def check_kind(name: str, value: Any, kind: type, words: str) -> None:
  """Raises a `ValueError` for an argument of another type.

  Args:
    name: name of the argument.
    value: the argument; None is accepted.
    kind: the type.
    words: what the message calls it.
  """
  if value is not None and not isinstance(value, kind):
    raise ValueError(f'{name} must be {words}, got {fields.shorten(value)}')


def check_flag(name: str, value: Any) -> None:
  """Raises a `ValueError` unless an argument is True or False.

  Args:
    name: name of the argument.
    value: the argument.
  """
  if not isinstance(value, bool | np.bool_):
    raise ValueError(
      f'{name} must be True or False, got {fields.shorten(value)}'
    )


def check_agent_settings(value: Any) -> None:
  """Raises a `ValueError` unless settings of agents are a ConfigDict or None.

  Args:
    value: the argument.
  """
  words = 'a ConfigDict, see disco_rl.config.agents'
  check_kind('agent_settings', value, config_dict.ConfigDict, words)
  if value is not None and 'update_rule_name' not in value:
    raise ValueError('agent_settings must name a rule in update_rule_name')


def check_critic(value: Any) -> None:
  """Raises a `ValueError` unless settings of a critic are complete, or None.

  Args:
    value: the argument.
  """
  check_kind('critic', value, Mapping, 'a disco_rl.types.ValueFnConfig')
  if value is None:
    return
  for field in dataclasses.fields(types.ValueFnConfig):
    is_needed = field.default is dataclasses.MISSING
    if is_needed and field.name not in value:
      raise ValueError(f'critic must be complete, but has no {field.name}')


class Default(int):
  """A default that differs from the same number as an argument, see `is_given`.

  In a signature, `steps: int = Default(10)` looks and counts like 10.
  """


def is_given(value: Any) -> bool:
  """Returns whether an argument is given: neither None nor a `Default`.

  Args:
    value: the argument.
  """
  return value is not None and not isinstance(value, Default)


def check_replaced(name: str, value: Any, settings: Mapping[str, Any]) -> None:
  """Raises a `ValueError` for settings that an argument would replace.

  Args:
    name: name of the argument, e.g. `'optimizer'`.
    value: the argument; None if it is not given.
    settings: the settings that are given and that it would replace, by name.
  """
  if value is None or not settings:
    return
  path, setting = next(iter(settings.items()))
  raise ValueError(
    f'{path} ({fields.shorten(setting)}) would have no effect beside {name}, '
    'which replaces the default optimiser: give one or the other'
  )


def check_optimizer(name: str, value: Any) -> None:
  """Raises a `ValueError` unless an optimiser is one of optax, or None.

  Args:
    name: name of the argument.
    value: the argument.
  """
  has_functions = all(
    callable(getattr(value, function, None)) for function in ('init', 'update')
  )
  if value is not None and not has_functions:
    raise ValueError(
      f'{name} must be an optax.GradientTransformation, got '
      f'{fields.shorten(value)}'
    )


def check_function(name: str, value: Any) -> None:
  """Raises a `ValueError` unless an argument is a function, or None.

  Args:
    name: name of the argument.
    value: the argument.
  """
  if value is not None and not callable(value):
    raise ValueError(f'{name} must be a function, got {fields.shorten(value)}')
