"""Parameters of environments in JAX as settings: the numbers of a record."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import fields

_WHOLE = fields.Field(int, low=-fields.MAX_SEED, high=fields.MAX_SEED)


def scalars(params: Any) -> dict[str, bool | int | float]:
  """Returns the numbers among the parameters of an environment, by name.

  Args:
    params: a dataclass.
  """
  values = {
    field.name: getattr(params, field.name)
    for field in dataclasses.fields(params)
  }
  return {
    name: value
    for name, value in values.items()
    if isinstance(value, bool | int | float)
  }


def make_fields(
  defaults: Mapping[str, Any], group: str = 'params'
) -> dict[str, fields.Field]:
  """Returns the types and ranges of parameters that JAX stores as int32.

  Args:
    defaults: their defaults, by name; only whole numbers have a range.
    group: the group of settings that they are in.

  Returns:
    Fields by path.
  """
  return {
    f'{group}.{name}': _WHOLE
    for name, value in defaults.items()
    if type(value) is int
  }


def change(params: Any, values: config_dict.ConfigDict, name: str) -> Any:
  """Changes the numbers among the parameters of an environment.

  Args:
    params: a dataclass with the method `replace`.
    values: new values, by name.
    name: name of the environment, for messages.

  Returns:
    The changed parameters.

  Raises:
    ValueError: if there is no such parameter.
  """
  accepted = scalars(params)
  unknown = sorted(set(values) - set(accepted))
  if unknown:
    raise ValueError(
      f'unknown params {unknown} of {name}; accepted: {sorted(accepted)}'
    )
  return params.replace(**values.to_dict())
