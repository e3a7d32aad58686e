"""Reads the entries of a run's `config.json`, which may be damaged."""

from collections.abc import Iterable, Mapping
import os
from typing import Any

from disco_rl import fields
from disco_rl.runs import run_folder

# Entries that every `config.json` has.
_ENTRIES = {
  'command': (str, 'the name of a command'),
  'rule_settings': (dict, 'a group of settings'),
  'is_by_name': (bool, 'true or false'),
  'request': (dict, 'the request of the run'),
  'settings': (dict, 'a group of settings'),
}
# Entries of requests that runs of earlier versions do not have: their defaults
# are meant.
_LATER = ('env_steps',)
# Command to the entry that names its rule.
_RULE_ENTRIES = {'eval': 'rule', 'meta-train': 'init'}


def check(
  path: str | os.PathLike[str],
  config: Mapping[str, Any],
  names: Iterable[str] = tuple(_ENTRIES),
) -> None:
  """Raises a `RunFolderError` if entries of a config are missing or wrong.

  Args:
    path: path of the folder.
    config: from `run_folder.read_config`.
    names: the entries that are needed besides the rule, with `request` among
      them.
  """
  entries = {name: _ENTRIES[name] for name in names}
  command = config.get('command')
  # The command may be anything, a list for example, which is no key.
  if isinstance(command, str) and command in _RULE_ENTRIES:
    entries[_RULE_ENTRIES[command]] = (str, 'the name of a rule')
  if command == 'eval' and 'settings' in entries:
    entries['num_devices'] = (int, 'the number of devices')
  for name, (kind, words) in entries.items():
    value: Any = config.get(name)
    # True and False are integers in Python.
    is_wrong_bool = isinstance(value, bool) and kind is not bool
    is_wrong = not isinstance(value, kind) or is_wrong_bool
    if is_wrong or (kind is int and value < 1):
      given = fields.shorten(config[name]) if name in config else 'nothing'
      raise _damaged(path, f'{name} must be {words}, got {given}')
  if 'rule_settings' in entries:
    for name, group in config['rule_settings'].items():
      if not isinstance(group, dict):
        raise _damaged(
          path,
          f'{fields.shorten(name)} of rule_settings must be a group of '
          f'settings, got {fields.shorten(group)}',
        )
  request = config['request']
  _check_names(path, 'env', request.get('env'), config.get('command'))
  if config.get('command') == 'meta-train':
    _check_names(path, 'eval_env', request.get('eval_env', []), 'meta-train')


def check_request(
  path: str | os.PathLike[str],
  request: Mapping[str, Any],
  names: Iterable[str],
) -> None:
  """Raises a `RunFolderError` if entries of a run's request are missing.

  Their defaults would make another run.

  Args:
    path: path of the folder.
    request: the request in its config.
    names: the entries that every request has.
  """
  for name in names:
    if name not in request and name not in _LATER:
      raise _damaged(path, f'its request has no {name}')


def _check_names(path: Any, name: str, value: Any, command: Any) -> None:
  """Checks an entry with environments: one, or a list in meta-training."""
  field, words = fields.Field(str), 'the name of an environment'
  if command == 'meta-train':
    field, words = fields.Field(tuple, items=field), 'a list of names'
  try:
    fields.check(field, name, value)
  except ValueError:
    raise _damaged(
      path,
      f'{name} of the request must be {words}, got {fields.shorten(value)}',
    ) from None


def _damaged(path: Any, what: str) -> run_folder.RunFolderError:
  return run_folder.RunFolderError(f'{path}/config.json is damaged: {what}')


def recorded_steps(folder: run_folder.RunFolder) -> int:
  """Returns the total steps with which a run was last started or resumed."""
  steps = folder.config['settings'].get('steps')
  field = fields.Field(int, low=1, high=fields.MAX_COUNT)
  return fields.check(field, f'steps in {folder.path}/config.json', steps)


def request_of_folder(
  folder: run_folder.RunFolder, names: Iterable[str], is_complete: bool
) -> dict[str, Any]:
  """Returns the request that a run was made from.

  Args:
    folder: folder of the run.
    names: the entries that every such request has.
    is_complete: whether the caller has the Python objects that the run needs.

  Returns:
    The request.
  """
  config = folder.config
  check(folder.path, config)
  check_request(folder.path, config['request'], names)
  if not (config['is_by_name'] or is_complete):
    raise run_folder.RunFolderError(
      f'{folder.path} was made in Python, from objects that have no name, so '
      'its folder alone is not enough: to resume it, repeat the call that made '
      'it, with resume=True'
    )
  return dict(config['request'])
