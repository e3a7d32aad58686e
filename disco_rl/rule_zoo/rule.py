"""Loads and saves rules: discovered or hand-designed, by name, file or run.

rule = disco_rl.load_rule('disco_103')
result = disco_rl.evaluate('catch', rule)
disco_rl.save_rule('mine.npz', rule)
"""

from collections.abc import Mapping
import dataclasses
import os
import pathlib
from typing import Any

from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl import utils
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import store
from disco_rl.runs import os_errors
from disco_rl.runs import plain_settings
from disco_rl.runs import run_files
from disco_rl.update_rules import registry

# The default rule. It is shipped with the package, so that commands do not
# depend on a download.
DEFAULT = 'catch_small'

# The groups of an agent's settings that a rule depends on.
SETTINGS_GROUPS = ('update_rule', 'hyper_params')


@dataclasses.dataclass(frozen=True)
class Rule:
  """A loaded rule: its class, parameters, settings and provenance.

  Attributes:
    name: its name, e.g. in the legend of a picture.
    kind: name of its class in `update_rules.registry`, e.g. `'disco'`.
    eta: its parameters η; None for a rule without parameters.
    settings: the agent settings that its file records: those that the rule
      depends on (`update_rule` and `hyper_params`), as JSON types.
    path: path of its file; None for a rule without a file.
    provenance: a few words on its origin.
  """

  name: str
  kind: str
  eta: types.MetaParams | None
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  path: pathlib.Path | None = None
  provenance: str = ''


@dataclasses.dataclass(frozen=True)
class ListedRule:
  """A rule that `load_rule` can load by name.

  Attributes:
    name: its name.
    origin: `'discovered'`, `'your own'` (a file), `'hand-designed'`, or
      `'registered'` by `register_rule`.
    path: path of its file on this machine, or None.
    url: address from which it is downloaded, or None.
    description: its licence and provenance, if they are recorded.
  """

  name: str
  origin: str
  path: pathlib.Path | None = None
  url: str | None = None
  description: str = ''

  @property
  def is_here(self) -> bool:
    """Whether it can be loaded without a download."""
    return self.path is not None or self.name in registry.known_names()


def list_rules() -> list[ListedRule]:
  """Lists the rules that `load_rule` can load by name; downloads nothing.

  Returns:
    The rules of the manifest, those in the folder `DISCO_RL_WEIGHTS` and in the
    cache, and the registered ones, such as `actor_critic`.
  """
  store.check_variables()
  rules = []
  for info in store.known_rules().values():
    description = f'{info.license}: {info.provenance}'
    path = store.find(info.name)
    rules.append(
      ListedRule(info.name, 'discovered', path, info.url, description)
    )
  rules += [ListedRule(p.stem, 'your own', p) for p in store.own_files()]
  rules += [
    ListedRule(name, registry.origin_of(name))
    for name in registry.known_names()
  ]
  return rules


def load_rule(rule: str | os.PathLike[str]) -> Rule:
  """Finds and loads a rule; downloads it if necessary.

  Args:
    rule: a name that `disco-rl rules` lists (`'catch_small'`, `'disco_103'`,
      `'actor_critic'`, a name of `register_rule`, a file in the folder
      `DISCO_RL_WEIGHTS`), the path of a rule file, or the folder of a run: its
      best rule if it has one, else its last.

  Returns:
    The rule.

  Raises:
    ValueError: if there is no such rule, or its file cannot be used.
  """
  store.check_variables()
  name = os.fspath(rule) if isinstance(rule, str | os.PathLike) else rule
  if not isinstance(name, str) or not name or '\0' in name:
    raise store.RuleFileError(
      'a rule must be a name, a file or the folder of a run, got '
      f'{fields.shorten(name)}'
    )
  if name in registry.known_names():
    return Rule(name, name, None, provenance=registry.origin_of(name))
  path = pathlib.Path(name)
  try:
    is_folder = path.is_dir()
  except OSError as error:  # E.g. for a name that is too long.
    raise store.RuleFileError(os_errors.describe(error)) from None
  if is_folder:
    return _load_run(path)
  is_name = not (path.suffix or os.sep in name)
  if is_name:
    if store.find(name) is None:
      known = {*registry.known_names(), *store.known_rules()}
      utils.lookup(dict.fromkeys(known), name, 'rule')
    path = store.fetch(name)
  elif path.name == run_files.RULE_FILE:
    name = path.resolve().parent.name
  else:
    name = path.stem
  return _load_file(path, name, _provenance_of_name(name) if is_name else '')


def save_rule(
  path: str | os.PathLike[str],
  rule: Rule | types.MetaParams,
  *,
  settings: Mapping[str, Any] | None = None,
  metadata: Mapping[str, Any] | None = None,
) -> None:
  """Saves a rule with its settings.

  Args:
    path: path of the file, which must end in `.npz`; an existing file is
      replaced.
    rule: a rule from `load_rule` or `meta_train`, with its settings; or only
      its parameters η, `{module: {name: array}}`.
    settings: if only η is given, the agent settings that the rule was trained
      with. Only `update_rule_name`, `update_rule` (with the inputs of the
      meta-network) and `hyper_params` are saved. None for the published ones.
    metadata: further entries to save, of JSON types.
  """
  fields.check_path('path', path)
  for name, group in dict(settings=settings, metadata=metadata).items():
    if group is not None and not hasattr(group, 'items'):
      raise ValueError(
        f'{name} must be entries by name, got {fields.shorten(group)}'
      )
  eta = rule
  if isinstance(rule, Rule):
    if settings is not None:
      raise ValueError('a rule has settings of its own: leave out settings')
    if rule.eta is None:
      raise ValueError(f'{rule.name} has no parameters that could be saved')
    eta = rule.eta
    settings = {**rule.settings, 'update_rule_name': rule.kind}
  kept = rule_settings(settings or {})
  if settings is not None and 'update_rule_name' in settings:
    kept['update_rule_name'] = settings['update_rule_name']
  # As when it is loaded.
  _check_settings(kept, f'cannot save {os.fspath(path)}')
  file_format.save(path, eta, {**(metadata or {}), 'settings': kept})


def rule_settings(agent_settings: Mapping[str, Any]) -> dict[str, Any]:
  """Selects the agent settings that a rule depends on.

  Args:
    agent_settings: see `agent.get_settings_disco`.

  Returns:
    The groups of `SETTINGS_GROUPS` that exist, as JSON types.
  """
  return {
    name: plain_settings.to_plain(agent_settings[name])
    for name in SETTINGS_GROUPS
    if name in agent_settings
  }


def _load_run(folder: pathlib.Path) -> Rule:
  """Loads the best rule of a run, or its last."""
  name = folder.resolve().name
  candidates = (
    (run_files.BEST_RULE_FILE, 'best'),
    (run_files.RULE_FILE, 'last'),
  )
  for file, which in candidates:
    path = folder / file
    if path.exists():
      step = file_format.load_metadata(path).get('step')
      at = f', meta-update {step}' if isinstance(step, int) else ''
      return _load_file(path, name, f'{which} rule of {folder}{at}')
  raise store.RuleFileError(
    f'{folder} is a folder without a {run_files.RULE_FILE}'
  )


def _load_file(path: pathlib.Path, name: str, provenance: str) -> Rule:
  eta = file_format.load(path)
  recorded = _recorded_settings(file_format.load_metadata(path), path)
  kind = recorded.pop('update_rule_name', 'disco')
  return Rule(name, kind, eta, recorded, path, provenance or f'file {path}')


def _recorded_settings(
  metadata: Mapping[str, Any], path: pathlib.Path
) -> dict[str, Any]:
  """Reads the settings that a rule's file records."""
  node: Any = metadata.get('settings')
  if node is None:  # Older files of `disco-rl meta-train` have a whole config.
    node = metadata
    for name in ('config', 'settings', 'agent'):
      node = node.get(name, {}) if isinstance(node, Mapping) else {}
  if not isinstance(node, Mapping):
    raise store.RuleFileError(
      f'{path}: its settings are {fields.shorten(node)}, not a group of them'
    )
  names = ('update_rule_name', *SETTINGS_GROUPS)
  recorded = {name: node[name] for name in names if name in node}
  _check_settings(recorded, str(path))
  return recorded


def _check_settings(recorded: Mapping[str, Any], where: str) -> None:
  """Checks the settings that a rule's file records, or shall record.

  Args:
    recorded: the settings, by name.
    where: the beginning of an error message.
  """
  for name, value in recorded.items():
    is_name = name == 'update_rule_name'
    words = 'a name' if is_name else 'a group of settings'
    if not isinstance(value, str if is_name else Mapping):
      raise store.RuleFileError(
        f'{where}: its setting {name} is {fields.shorten(value)}, not {words}'
      )
  kind = recorded.get('update_rule_name', 'disco')
  if kind not in registry.UPDATE_RULES:
    raise store.RuleFileError(
      f'{where}: it is of the kind {fields.shorten(kind)}, which is not '
      'registered here: import the module that registers it first '
      '(disco_rl.register_rule; in the commands: --use MODULE)'
    )
  custom = () if kind in registry.BUILT_IN else schema.CUSTOM
  for name in SETTINGS_GROUPS:
    try:
      group = plain_settings.from_plain(recorded.get(name, {}))
      schema.check_tree(group, f'agent.{name}', custom)
    except (TypeError, ValueError) as error:
      raise store.RuleFileError(
        f'{where}: a setting is not valid: {error}'
      ) from None


def _provenance_of_name(name: str) -> str:
  info = store.known_rules().get(name)
  if info is None:
    return ''
  return 'published' if info.url else 'discovered with this library, shipped'
