"""Makes the settings of an environment, and changes them."""

from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl.environments import foreign


def make(name: str, get_config: Callable[[], Any]) -> config_dict.ConfigDict:
  """Makes the default settings of an environment.

  Args:
    name: name of the environment, for messages.
    get_config: returns them, as a ConfigDict or a mapping.

  Returns:
    A copy that may be changed.

  Raises:
    ForeignCodeError: if they cannot be made.
  """
  with foreign.boundary(f'cannot make the settings of {name}', ValueError):
    config = get_config()
    fields.check_names(f'the settings of {name}', config)
    if isinstance(config, Mapping):
      return config_dict.ConfigDict(dict(config))
    if isinstance(config, config_dict.ConfigDict):
      # A copy, since a function may return the same object again.
      return config_dict.ConfigDict(config.copy_and_resolve_references())
  raise foreign.InvalidEnvironmentError(
    f'the settings of {name} must be a ConfigDict or a mapping, but its '
    f'get_config returned {type(config).__name__}'
  )


def make_fields(
  name: str, get_fields: Callable[[], Mapping[str, fields.Field]]
) -> Mapping[str, fields.Field]:
  """Returns the declared types and ranges of an environment's settings.

  Args:
    name: name of the environment, for messages.
    get_fields: returns them.
  """
  with foreign.boundary(f'cannot make the settings of {name}', ValueError):
    return get_fields()


def change(
  name: str,
  config: config_dict.ConfigDict,
  changes: Mapping[str, Any],
  declared: Mapping[str, fields.Field],
) -> None:
  """Changes settings in place, after checking them.

  Args:
    name: name of the environment, for messages.
    config: the settings.
    changes: new values, nested like `config`.
    declared: types and ranges, by path.

  Raises:
    ValueError: if a setting is unknown, or a value is not valid.
  """
  unknown = sorted(set(changes) - set(config))
  if unknown:
    raise ValueError(
      f'unknown settings {unknown} of {name}; accepted: {sorted(config)}'
    )
  _change(config, changes, declared, f'{name}.')


def _change(
  config: config_dict.ConfigDict,
  changes: Mapping[str, Any],
  declared: Mapping[str, fields.Field],
  where: str,
  above: str = '',
) -> None:
  """Changes a group of settings.

  Args:
    config: the group.
    changes: new values, nested like `config`.
    declared: types and ranges, by path.
    where: prefix of the settings' names in messages.
    above: path of `config` in all settings, ending in a dot.
  """
  with config.unlocked(), config.ignore_type():
    for key, value in changes.items():
      path, old = f'{above}{key}', config.get(key)
      if isinstance(old, config_dict.ConfigDict) and hasattr(value, 'items'):
        _change(old, value, declared, where, f'{path}.')
      else:
        field = declared.get(path) or fields.like(old)
        config[key] = fields.check(field, f'{where}{path}', value)
