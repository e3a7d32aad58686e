"""Reinforcement learning with rules that are discovered, not designed.

  import disco_rl

  rule = disco_rl.load_rule('disco_103')  # A name, a file, or a run's folder.
  result = disco_rl.evaluate('catch', rule, num_seeds=5)
  result.plot('curve.png')

These names are imported when they are first used, so that importing the package
is quick. Everything else is imported by module: `from disco_rl import agent`,
`from disco_rl.update_rules import disco`. ARCHITECTURE.md says what is where.
"""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
  from disco_rl.environments.registry import (
    register_environment as register_environment,
  )
  from disco_rl.evaluation import evaluate as evaluate
  from disco_rl.meta_training.training import meta_train as meta_train
  from disco_rl.networks.nets import register_network as register_network
  from disco_rl.rule_choice import load_rule as load_rule
  from disco_rl.rule_choice import save_rule as save_rule
  from disco_rl.rule_learner import make_learner as make_learner
  from disco_rl.saved_run import load_run as load_run
  from disco_rl.update_rules.registry import register_rule as register_rule

__version__ = '0.1.0'

_HOMES = {
  'evaluate': 'evaluation',
  'load_rule': 'rule_choice',
  'load_run': 'saved_run',
  'make_learner': 'rule_learner',
  'meta_train': 'meta_training.training',
  'register_environment': 'environments.registry',
  'register_network': 'networks.nets',
  'register_rule': 'update_rules.registry',
  'save_rule': 'rule_choice',
}


def __getattr__(name: str) -> Any:
  """Imports a public function when it is first asked for."""
  if name not in _HOMES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
  """Lists what there is, the public functions included."""
  return sorted({*globals(), *_HOMES})
