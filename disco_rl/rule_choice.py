"""Loads and saves rules: discovered or hand-designed, by name, file or run.

rule = disco_rl.load_rule('disco_103')
result = disco_rl.evaluate('catch', rule)
disco_rl.save_rule('mine.npz', eta, settings=agent_settings)
"""

from collections.abc import Mapping
import dataclasses
import os
import pathlib
from typing import Any

from disco_rl import plain_settings
from disco_rl import rule_params
from disco_rl import rule_store
from disco_rl import settings as settings_lib
from disco_rl import types
from disco_rl import utils

# The rule that is used where none is named: it is shipped with the package, so
# that what a command does never depends on a download.
DEFAULT = 'catch_small'

# In the folder of a run.
BEST_RULE_FILE, _LAST_FILE = 'best_rule.npz', 'rule.npz'


@dataclasses.dataclass(frozen=True)
class Rule:
  """A loaded rule: its class, parameters, settings and provenance.

  Attributes:
    name: what to call it, e.g. in the legend of a picture.
    kind: name of its class, a key of `settings.SETTINGS`, e.g. `'disco'`.
    eta: its parameters η; None for a rule without any.
    settings: those of an agent's settings that the rule depends on, as far as
      its file records them (`update_rule` and `hyper_params`), of JSON types.
    path: of its file, None for a rule without parameters.
    provenance: a few words on where it comes from.
  """

  name: str
  kind: str
  eta: types.MetaParams | None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  path: pathlib.Path | None = None
  provenance: str = ''


def hand_designed() -> list[str]:
  """Names of the rules that need no file: those of `settings.SETTINGS`."""
  return [name for name in settings_lib.SETTINGS if name != 'disco']


def load_rule(rule: str | os.PathLike[str]) -> Rule:
  """Finds a rule and loads it, downloading it if need be.

  Args:
    rule: a name that `disco-rl rules` lists (`'catch_small'`, `'disco_103'`,
      `'actor_critic'`, one of `register_rule`, a file in the folder
      `DISCO_RL_WEIGHTS`), the path of a rule file, or the folder of a run. Of a
      run that keeps its best rule, that one is loaded, else its last.

  Returns:
    The rule.
  """
  name = os.fspath(rule)
  if name in hand_designed():
    return Rule(name, name, None, provenance='hand-designed')
  path = pathlib.Path(name)
  if path.is_dir():
    return _load_run(path)
  is_name = not (path.suffix or os.sep in name)
  if is_name:
    if rule_store.find(name) is None:
      known = {*hand_designed(), *rule_store.known_rules()}
      utils.lookup(dict.fromkeys(known), name, 'rule')
    path = rule_store.fetch(name)
  elif path.name == _LAST_FILE:
    name = path.resolve().parent.name
  else:
    name = path.stem
  return _load_file(path, name, _provenance_of_name(name) if is_name else '')


def save_rule(
  path: str | os.PathLike[str],
  eta: types.MetaParams,
  *,
  settings: Mapping[str, Any] | None = None,
  metadata: Mapping[str, Any] | None = None,
) -> None:
  """Saves a rule with all that is needed to use it again.

  Args:
    path: where to; must end in `.npz`. A file already there is replaced.
    eta: the parameters, `{module: {name: array}}`.
    settings: the agent settings the rule was trained with. Of them
      `update_rule_name`, `update_rule` (the inputs of the meta-network
      included) and `hyper_params` are kept. None for the published ones.
    metadata: what else to keep, of JSON types.
  """
  kept = {
    name: plain_settings.to_plain(settings[name])
    for name in ('update_rule_name', *settings_lib.RULE_GROUPS)
    if settings is not None and name in settings
  }
  rule_params.save(path, eta, {**(metadata or {}), 'settings': kept})


def _load_run(folder: pathlib.Path) -> Rule:
  """The best rule of a run, or its last."""
  name = folder.resolve().name
  for file, which in ((BEST_RULE_FILE, 'best'), (_LAST_FILE, 'last')):
    path = folder / file
    if path.exists():
      step = rule_params.load_metadata(path).get('step')
      at = '' if step is None else f', meta-update {step}'
      return _load_file(path, name, f'{which} rule of {folder}{at}')
  raise rule_store.RuleFileError(f'{folder} is a folder without a {_LAST_FILE}')


def _load_file(path: pathlib.Path, name: str, provenance: str) -> Rule:
  eta = rule_params.load(path)
  recorded = _recorded_settings(rule_params.load_metadata(path))
  kind = recorded.pop('update_rule_name', 'disco')
  if kind not in settings_lib.SETTINGS:
    raise rule_store.RuleFileError(
      f'{path} is of the kind {kind!r}, which is not registered here: import '
      'the module that registers it first (disco_rl.register_rule; in the '
      'commands: --use MODULE)'
    )
  return Rule(name, kind, eta, recorded, path, provenance or f'file {path}')


def _recorded_settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
  """What a rule's file says of the settings it depends on."""
  node: Any = metadata.get('settings')
  if node is None:  # `disco-rl meta-train` records its whole config.
    node = metadata
    for name in ('config', 'settings', 'agent'):
      node = node.get(name, {}) if isinstance(node, Mapping) else {}
  if not isinstance(node, Mapping):
    return {}
  names = ('update_rule_name', *settings_lib.RULE_GROUPS)
  return {name: node[name] for name in names if name in node}


def _provenance_of_name(name: str) -> str:
  info = rule_store.known_rules().get(name)
  if info is None:
    return ''
  return 'published' if info.url else 'discovered with this library, shipped'
