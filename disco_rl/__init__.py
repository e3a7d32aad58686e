"""Reinforcement learning with rules that are discovered, not designed.

```python
import disco_rl

rule = disco_rl.load_rule('disco_103')  # A name, a file, or a run's folder.
result = disco_rl.evaluate('catch', rule, num_seeds=5)
result.plot('curve.png')
```

These names are imported when they are first used, so that importing the package
is quick. Everything else is imported by module: `from disco_rl import agent`,
`from disco_rl.update_rules import disco`. ARCHITECTURE.md lists the modules.
"""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
  from disco_rl.benchmarking.benchmark import benchmark as benchmark
  from disco_rl.config.batching import Batching as Batching
  from disco_rl.environments.registry import (
    register_environment as register_environment,
  )
  from disco_rl.evaluation.evaluate import evaluate as evaluate
  from disco_rl.evaluation.saved_run import load_run as load_run
  from disco_rl.learning.learner import make_learner as make_learner
  from disco_rl.meta_training.meta_train import meta_train as meta_train
  from disco_rl.networks.nets import register_network as register_network
  from disco_rl.rule_zoo.rule import list_rules as list_rules
  from disco_rl.rule_zoo.rule import load_rule as load_rule
  from disco_rl.rule_zoo.rule import save_rule as save_rule
  from disco_rl.runs.trackers import register_tracker as register_tracker
  from disco_rl.update_rules.registry import register_rule as register_rule

__version__ = '0.2.0'

_HOMES = {
  'Batching': 'config.batching',
  'benchmark': 'benchmarking.benchmark',
  'evaluate': 'evaluation.evaluate',
  'list_rules': 'rule_zoo.rule',
  'load_rule': 'rule_zoo.rule',
  'load_run': 'evaluation.saved_run',
  'make_learner': 'learning.learner',
  'meta_train': 'meta_training.meta_train',
  'register_environment': 'environments.registry',
  'register_network': 'networks.nets',
  'register_rule': 'update_rules.registry',
  'register_tracker': 'runs.trackers',
  'save_rule': 'rule_zoo.rule',
}


def __getattr__(name: str) -> Any:
  """Imports a public name on first use."""
  if name not in _HOMES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
  """Lists all names, including those that are imported on first use."""
  return sorted({*globals(), *_HOMES})
