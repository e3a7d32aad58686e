"""Changes settings in layers, and records which layer changed each of them.

```python
layers = Layers(defaults)
layers.apply('preset atari', {'agent.learning_rate': 3e-4})
layers.apply_texts('--set', ['batching.batch_size=96'])
layers.settings, layers.origins
```

Every value is checked against the schema; unknown settings are an error.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import schema
from disco_rl import utils
from disco_rl.config import literals

_MAX_PATH = 1000


class Layers:
  """A tree of settings that is changed layer by layer.

  Attributes:
    settings: the current settings.
    origins: path of a setting to the name of the layer that changed it last.
  """

  def __init__(
    self,
    defaults: Mapping[str, Any],
    *,
    declared: Mapping[str, fields.Field] | None = None,
    custom: Sequence[str] = schema.CUSTOM,
  ):
    """Starts from the defaults.

    Args:
      defaults: all settings, in groups, whose names may contain dots.
      declared: fields of the environments' settings, by path.
      custom: prefixes of the paths of custom settings, see `schema.field_of`.
    """
    self.settings = config_dict.ConfigDict(defaults)
    self.origins: dict[str, str] = {}
    self._declared = dict(declared or {})
    self._custom = tuple(custom)

  def __contains__(self, path: str) -> bool:
    """Returns whether a setting, or a group of settings, exists."""
    try:
      self._find(path)
    except ValueError:
      return False
    return True

  def __getitem__(self, path: str) -> Any:
    """Returns the value of a setting, or a group of settings."""
    node, name = self._find(path)
    return node[name]

  def apply(self, origin: str, values: Mapping[str, Any]) -> None:
    """Changes settings.

    Args:
      origin: name of the layer.
      values: path of a setting to its value.

    Raises:
      ValueError: if a setting is unknown, or its value is not valid.
    """
    for path, value in values.items():
      self._set(origin, path, value)

  def apply_texts(self, origin: str, assignments: Iterable[str]) -> None:
    """Changes settings that are given as text, as on a command line.

    Args:
      origin: name of the layer.
      assignments: each `path.to.setting=value`.
    """
    for assignment in assignments:
      path, separator, text = assignment.partition('=')
      path, text = path.strip(), text.strip()
      if not separator or not path or len(path) > _MAX_PATH:
        raise ValueError(
          f'{origin} must be name=value, got {fields.shorten(assignment)}'
        )
      node, name = self._find(path)
      field = self._field(path, node[name])
      self._set(origin, path, literals.parse(text, path, field))

  def mark(self, origin: str, tree: Mapping[str, Any], above: str) -> None:
    """Records that settings come from a layer, without changing them.

    Args:
      origin: name of the layer.
      tree: names of the settings, in groups; their values are not read.
      above: path of the group that contains them.
    """
    for name, value in tree.items():
      path = f'{above}.{name}'
      # Records, e.g. the inputs of a meta-network, are mappings in files, too.
      is_group = isinstance(self[path], config_dict.ConfigDict)
      if is_group and isinstance(value, Mapping) and value:
        self.mark(origin, value, path)
      else:
        self.origins[path] = origin

  def check(self) -> None:
    """Checks all settings against the schema, defaults included."""
    for path, value in _leaves(self.settings):
      fields.check(self._field(path, value), path, value)

  def _field(self, path: str, default: Any) -> fields.Field:
    return schema.field_of(
      path, default, declared=self._declared, custom=self._custom
    )

  def _set(self, origin: str, path: str, value: Any) -> None:
    node, name = self._find(path)
    old = node[name]
    is_group = isinstance(old, config_dict.ConfigDict)
    if is_group and not old:  # An empty group takes any settings.
      value = _as_group(path, value)
    elif is_group or dataclasses.is_dataclass(old):
      names = list(getattr(old, 'keys', list)())
      inner = f': {", ".join(names)}' if names else ''
      raise ValueError(
        f'{path} is a group of settings and cannot be set as a whole{inner}'
      )
    else:
      value = fields.check(self._field(path, old), path, value)
    with node.unlocked(), node.ignore_type():
      node[name] = value
    self.origins[path] = origin

  def _find(self, path: str) -> tuple[Any, str]:
    """Finds the group that contains a setting, and its name in the group."""
    node: Any = self.settings
    above, rest = '', path
    while True:
      if not isinstance(node, config_dict.ConfigDict):
        raise ValueError(
          f'{above} has no settings below it, got {fields.shorten(path)}: it '
          f'is {fields.shorten(node)}'
        )
      known = list(node.keys())
      # Names may contain dots: the longest match counts.
      fitting = [name for name in known if f'{rest}.'.startswith(f'{name}.')]
      if not fitting:
        name = rest.partition('.')[0]
        where = f'of {above} ' if above else ''
        raise ValueError(
          f'unknown setting {fields.shorten(name)} {where}'.rstrip()
          + self._suggestion(path, above, name, known)
          + f'; known: {", ".join(sorted(known))}'
        )
      name = max(fitting, key=len)
      if name == rest:
        return node, name
      node = node[name]
      above, rest = f'{above}.{name}'.lstrip('.'), rest[len(name) + 1 :]

  def _suggestion(
    self, path: str, above: str, name: str, known: list[str]
  ) -> str:
    """Suggests known settings for an unknown one."""
    # The end of a longer path first: `learning_rate` for `agent.learning_rate`.
    paths = sorted((p for p, _ in _leaves(self.settings)), key=_depth)
    longer = [p for p in paths if f'.{p}'.endswith(f'.{path}')]
    if longer:
      return f' (did you mean {" or ".join(longer[:3])}?)'
    near = utils.did_you_mean(name, known)
    if near and above:
      near = near.replace('did you mean ', f'did you mean {above}.')
    return near


def _as_group(path: str, value: Any) -> config_dict.ConfigDict:
  """Converts a mapping to a group of settings."""
  if isinstance(value, config_dict.ConfigDict):
    value = value.to_dict()
  if not isinstance(value, Mapping) or not all(
    isinstance(key, str) for key in value
  ):
    raise ValueError(
      f"{path} must be a group of settings like {{'a': 1}}, got "
      f'{fields.shorten(value)}'
    )
  fields.check_plain(path, value)
  dotted = next((key for key in value if '.' in key), None)
  if dotted is not None:
    raise ValueError(
      f'{path} has a name with a dot in it, {fields.shorten(dotted)}'
    )
  try:
    return config_dict.ConfigDict(value)
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f'{path} has a name that settings cannot have: {error.args[0]}'
    ) from None


def _leaves(
  config: config_dict.ConfigDict, above: str = ''
) -> list[tuple[str, Any]]:
  """Lists all settings with their paths."""
  leaves: list[tuple[str, Any]] = []
  for name, value in config.items():
    if isinstance(value, config_dict.ConfigDict):
      leaves += _leaves(value, f'{above}{name}.')
    else:
      leaves.append((f'{above}{name}', value))
  return leaves


def _depth(path: str) -> int:
  return path.count('.')
