"""Any rule by one name: discovered or hand-made, shipped or in a file.

rule = rule_choice.choose('disco_103')
settings = evaluation.default_agent_settings(
  rule.update_rule, 'catch', rule.agent_settings
)
evaluation.evaluate('catch', rule.params, settings)
"""

from collections.abc import Mapping
import dataclasses
import logging
import os
import pathlib
from typing import Any

from disco_rl import rule_params
from disco_rl import rule_store
from disco_rl import settings
from disco_rl import utils

BEST = 'best'
BEST_RULE_FILE = 'best_rule.npz'  # In the folder of a run.
# On Catch it reaches what the shipped rule does, in a tenth of the time.
_BEST_OFFLINE = 'actor_critic'
HAND_MADE = tuple(name for name in settings.SETTINGS if name != 'disco')


@dataclasses.dataclass(frozen=True)
class RuleChoice:
  """A rule that is there.

  Attributes:
    name: as the user knows it.
    update_rule: of `SETTINGS`.
    params: η, None for a hand-made rule.
    path: of its file, None for a hand-made rule.
    agent_settings: those of the agents' settings that the rule was trained
      with and depends on, as far as its file tells.
  """

  name: str
  update_rule: str
  params: Any
  path: pathlib.Path | None
  agent_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def choose(rule: str) -> RuleChoice:
  """Finds a rule, downloading it if need be.

  Args:
    rule: `'best'`, a hand-made rule, a name of the manifest or of a file in
      `DISCO_RL_WEIGHTS`, the path of a rule file, or the folder of a run: of
      its rules the one that did best in evaluations, if there were any (its
      name then ends in `/best_rule`), else the last.

  Returns:
    The rule.
  """
  if rule == BEST:
    return _best()
  if rule in HAND_MADE:
    return RuleChoice(rule, rule, None, None)
  path = pathlib.Path(rule)
  if path.is_dir():
    path = _in_folder(path)
  elif not (path.suffix or os.sep in rule):
    if rule_store.find(rule) is None:
      known = {*HAND_MADE, BEST, *rule_store.known_rules()}
      utils.lookup(dict.fromkeys(known), rule, 'rule')
    path = rule_store.fetch(rule)
  name = rule if path.name == f'{rule}.npz' else path.stem
  if path.name in ('rule.npz', BEST_RULE_FILE):
    name = path.resolve().parent.name
  if path.name == BEST_RULE_FILE:
    name = f'{name}/best_rule'
  return RuleChoice(
    name, 'disco', rule_params.load(path), path, _agent_settings(path)
  )


def _in_folder(folder: pathlib.Path) -> pathlib.Path:
  """The rule of a run: the best of its evaluations, else the last."""
  for name in (BEST_RULE_FILE, 'rule.npz'):
    if (folder / name).exists():
      return folder / name
  raise rule_store.RuleFileError(f'{folder} is a folder without a rule.npz')


def _agent_settings(path: pathlib.Path) -> dict[str, Any]:
  """What `disco-rl meta-train` wrote into the rule's file, and is its own."""
  node: Any = rule_params.load_metadata(path) or {}
  for name in ('config', 'settings', 'agent'):
    node = node.get(name, {})
    if not isinstance(node, dict):
      return {}
  return {k: node[k] for k in ('update_rule', 'hyper_params') if k in node}


def _best() -> RuleChoice:
  """Disco103 if it can be had, else the best that needs no network."""
  try:
    return choose('disco_103')
  except rule_store.RuleFileError as error:
    logging.getLogger(__name__).warning(
      '%s\nGoing on with %s.', error, _BEST_OFFLINE
    )
    return choose(_BEST_OFFLINE)
