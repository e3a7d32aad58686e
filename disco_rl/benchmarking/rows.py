"""Rows of a benchmark: rules with settings, from texts.

disco_103           a rule as in `load_rule`, with its default settings
random:3            untrained η of seed 3, of the size of the default rule
random:3:disco_103  the same, of the size of another rule
ppo@tuned           with the settings that were tuned for each task
ppo@one             with the one setting that is best for all tasks together
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import jax

from disco_rl import fields
from disco_rl import schema
from disco_rl.benchmarking import suites
from disco_rl.config import agents
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.rule_zoo import store
from disco_rl.update_rules import registry

RANDOM = 'random'
TUNED = 'tuned'
ONE = 'one'


@dataclasses.dataclass(frozen=True)
class Row:
  """A rule with its settings in each task.

  Attributes:
    name: its text.
    rule: the rule.
    settings: name of a task to settings by path.
  """

  name: str
  rule: rule_lib.Rule
  settings: Mapping[str, Mapping[str, Any]]

  def to_plain(self) -> dict[str, Any]:
    """Returns all that results depend on, as JSON types."""
    return dict(
      eta=file_format.digest(self.rule.eta or {}),
      settings={task: dict(own) for task, own in self.settings.items()},
    )


def parse(name: str) -> tuple[str, str | None]:
  """Splits the text of a row.

  Args:
    name: see the module.

  Returns:
    The rule, and `TUNED`, `ONE` or None.
  """
  rule, separator, variant = name.rpartition('@')
  if separator and variant in (TUNED, ONE):
    return rule, variant
  return name, None


def missing_reason(name: str) -> str | None:
  """Returns why a row is left out because its file is not on this machine.

  Args:
    name: the text of a row.

  Returns:
    A sentence; None for a row that is not left out, which may be wrong.
  """
  rule, _ = parse(name)
  if rule.startswith(f'{RANDOM}:'):
    rule = rule.split(':', 2)[-1]
  if rule not in store.known_rules() or store.find(rule) is not None:
    return None
  return (
    f'{name} is left out: the file of {rule} is not on this machine '
    f'(disco-rl eval --rule {rule} downloads it)'
  )


def make(
  name: str,
  suite: suites.Suite,
  tuned: Mapping[str, Any] | None,
  recorded: Mapping[str, Any] | None = None,
) -> Row:
  """Loads the rule of a row, and finds its settings.

  Args:
    name: the text of the row.
    suite: the suite.
    tuned: results of tuning, see `tuning.py`; None if there are none.
    recorded: what `Row.to_plain` returned for the same row before; its settings
      are used if there are no results of tuning.

  Returns:
    The row.

  Raises:
    ValueError: if there is no such rule, or it was not tuned.
  """
  rule_name, variant = parse(name)
  settings: dict[str, Any] = {task.name: {} for task in suite.tasks}
  if variant is not None and tuned is None and recorded is not None:
    before = recorded.get('settings')
    settings.update(before if isinstance(before, Mapping) else {})
  elif variant is not None:
    settings.update(_tuned_settings(name, suite, tuned))
  return Row(name, load(rule_name), settings)


def _tuned_settings(
  name: str, suite: suites.Suite, tuned: Mapping[str, Any] | None
) -> dict[str, Any]:
  """Finds the tuned settings of a row, by task."""
  rule_name, variant = parse(name)
  found = (tuned or {}).get('rules', {}).get(rule_name)
  if found is None:
    raise ValueError(
      f'{name} needs tuned settings of {rule_name} for the suite '
      f'{suite.name}, and there are none: compute them with disco-rl '
      f'benchmark --tune --suite {suite.name} --rules {rule_name} and give '
      'the file (--tuned FILE; in Python: tuned=...)'
    )
  if variant == ONE:
    return {task.name: found['one']['settings'] for task in suite.tasks}
  return {
    task.name: found['tasks'][task.name]['settings'] for task in suite.tasks
  }


def load(name: str) -> rule_lib.Rule:
  """Loads a rule, or makes one with random η.

  Args:
    name: see `load_rule`, or `random:SEED` or `random:SEED:RULE`.

  Returns:
    The rule.

  Raises:
    ValueError: if there is no such rule.
  """
  if not name.startswith(f'{RANDOM}:'):
    return rule_lib.load_rule(name)
  _, seed_text, *rest = name.split(':', 2)
  if not seed_text.isdecimal() or not all(rest):
    raise ValueError(
      f'a rule with random parameters is written {RANDOM}:SEED or '
      f'{RANDOM}:SEED:RULE, got {fields.shorten(name)}'
    )
  seed = schema.check_as(f'the seed of {name}', 'seed', int(seed_text))
  like = rule_lib.load_rule(rest[0] if rest else rule_lib.DEFAULT)
  if like.eta is None:
    raise ValueError(
      f'{name}: the rule {like.name} has no parameters that could be random'
    )
  config = agents.for_rule(like)
  rule = registry.get_update_rule(like.kind, **config.update_rule)
  eta, _ = rule.init_params(jax.random.PRNGKey(seed))
  return dataclasses.replace(
    like,
    name=name,
    eta=eta,
    path=None,
    provenance=f'untrained, of the size of {like.name}',
  )
