"""Settings changed from the command line: `--set agent.learning_rate=3e-4`."""

import ast
from collections.abc import Container, Iterable, Sequence
import dataclasses
import types
import typing
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.cli import errors


def apply(
  config: config_dict.ConfigDict,
  assignments: Iterable[str],
  may_be_none: Container[str] = (),
) -> None:
  """Changes settings in place.

  Args:
    config: the settings; only those that are there can be changed.
    assignments: each `path.to.setting=value`, applied in order.
    may_be_none: paths of settings that have a value, but need not.
  """
  for assignment in assignments:
    path, separator, text = assignment.partition('=')
    if not separator or not path:
      raise errors.UsageError(f'--set wants name=value, got {assignment!r}')
    node, name = _find(config, path.strip())
    old = node[name]
    if isinstance(old, config_dict.ConfigDict) and not old:
      node[name] = _parse_group(text.strip(), path)
      continue
    if isinstance(old, config_dict.ConfigDict) or dataclasses.is_dataclass(old):
      names = list(getattr(old, 'keys', list)())
      inner = f': {", ".join(names)}' if names else ''
      raise errors.UsageError(
        f'{path} is a group of settings and cannot be set as a whole{inner}'
      )
    is_none = path.strip() in may_be_none and text.strip().lower() == 'none'
    with node.ignore_type():
      node[name] = None if is_none else parse(text.strip(), old, path)


def parse(text: str, like: Any, name: str) -> Any:
  """Reads a value of the same type as the one it replaces.

  Args:
    text: as typed.
    like: the value it replaces; None accepts numbers, true, false and none.
    name: for the message.

  Returns:
    The value.
  """
  if isinstance(like, str):
    return text
  if isinstance(like, bool):
    known = dict(true=True, false=False, **{'1': True, '0': False})
    if text.lower() in known:
      return known[text.lower()]
    raise errors.UsageError(f'{name} is true or false, got {text!r}')
  try:
    value = ast.literal_eval(text)
  except (SyntaxError, ValueError):
    value = text
  if isinstance(like, int):
    if isinstance(value, float) and value.is_integer():
      value = int(value)  # 1e6
    if isinstance(value, int) and not isinstance(value, bool):
      return value
    raise errors.UsageError(f'{name} is a whole number, got {text!r}')
  if isinstance(like, float):
    if isinstance(value, int | float) and not isinstance(value, bool):
      return float(value)
    raise errors.UsageError(f'{name} is a number, got {text!r}')
  if isinstance(like, Sequence):
    items = value if isinstance(value, tuple | list) else (value,)
    if any(isinstance(item, str) for item in items) and not (
      like and isinstance(like[0], str)
    ):
      raise errors.UsageError(f'{name} is a list of numbers, got {text!r}')
    if like and not all(isinstance(item, type(like[0])) for item in items):
      raise errors.UsageError(f'{name} is a list like {like}, got {text!r}')
    return tuple(items)
  if not isinstance(value, str):
    return value
  words: dict[str, Any] = dict(none=None, true=True, false=False)
  if value.lower() not in words:
    raise errors.UsageError(
      f'{name} is a number, true, false or none, got {text!r}'
    )
  return words[value.lower()]


def may_be_none(config_class: type, group: str) -> set[str]:
  """Paths of the settings of a dataclass that None is a value of.

  Args:
    config_class: the dataclass.
    group: the group of settings that its fields are.

  Returns:
    Paths as `apply` knows them.
  """
  hints = typing.get_type_hints(config_class)
  return {
    f'{group}.{name}'
    for name, hint in hints.items()
    if isinstance(hint, types.UnionType) and type(None) in hint.__args__
  }


def _parse_group(text: str, name: str) -> config_dict.ConfigDict:
  """A group that is empty by default, such as arguments of somebody's own."""
  try:
    value = ast.literal_eval(text)
  except (SyntaxError, ValueError):
    value = None
  if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
    raise errors.UsageError(
      f"{name} is a group of settings like {{'a': 1}}, got {text!r}"
    )
  return config_dict.ConfigDict(value)


def _find(config: config_dict.ConfigDict, path: str) -> tuple[Any, str]:
  """The group that a setting is in, and its name there."""
  node: Any = config
  above, rest = '', path
  while True:
    if not isinstance(node, config_dict.ConfigDict):
      raise errors.UsageError(f'{above} has no settings below it')
    known = list(node.keys())
    # Names may have dots in them: the longest that fits is meant.
    fitting = [name for name in known if f'{rest}.'.startswith(f'{name}.')]
    if not fitting:
      name = rest.partition('.')[0]
      where = f'of {above} ' if above else ''
      raise errors.UsageError(
        f'unknown setting {name!r} {where}'.rstrip()
        + _suggestion(config, path, above, name, known)
        + f'; known: {", ".join(sorted(known))}'
      )
    name = max(fitting, key=len)
    if name == rest:
      return node, name
    node = node[name]
    above, rest = f'{above}.{name}'.lstrip('.'), rest[len(name) + 1 :]


def _suggestion(
  config: config_dict.ConfigDict,
  path: str,
  above: str,
  name: str,
  known: list[str],
) -> str:
  """What may have been meant by a setting that is not there."""
  # The end of a longer path first: `learning_rate` for `agent.learning_rate`.
  longer = [p for p in _paths(config) if f'.{p}'.endswith(f'.{path}')]
  if longer:
    return f' (did you mean {" or ".join(longer[:3])}?)'
  near = utils.did_you_mean(name, known)
  if near and above:
    near = near.replace('did you mean ', f'did you mean {above}.')
  return near


def _paths(config: config_dict.ConfigDict, above: str = '') -> list[str]:
  """The paths of all settings, those near the root first."""
  paths: list[str] = []
  for name, value in config.items():
    if isinstance(value, config_dict.ConfigDict):
      paths += _paths(value, f'{above}{name}.')
    else:
      paths.append(f'{above}{name}')
  return sorted(paths, key=lambda path: path.count('.'))
