"""Makes environments of tasks by name, `tasks:FAMILY` or `tasks:all`.

```python
env = registry.get_environment('tasks:grid', batch_size=8)
```

With `tasks:all`, the family is a part of an agent's task.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import utils
from disco_rl.environments.tasks import balances
from disco_rl.environments.tasks import bandits
from disco_rl.environments.tasks import catches
from disco_rl.environments.tasks import chains
from disco_rl.environments.tasks import corridors
from disco_rl.environments.tasks import environment
from disco_rl.environments.tasks import family as family_lib
from disco_rl.environments.tasks import grids
from disco_rl.environments.tasks import mdps
from disco_rl.environments.tasks import memories

# Makes each family from its settings.
FAMILIES: dict[str, Callable[..., family_lib.Family]] = {
  'balance': balances.Balances,
  'bandit': bandits.Bandits,
  'catch': catches.Catches,
  'chain': chains.Chains,
  'contextual_bandit': functools.partial(bandits.Bandits, max_contexts=6),
  'corridor': corridors.Corridors,
  'grid': grids.Grids,
  'mdp': mdps.Mdps,
  'memory': memories.Memories,
}
ALL = 'all'

_COMMON = dict(num_actions=family_lib.MAX_ACTIONS, reward_scale=3.0)


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings.

  Args:
    name: a family; or `all`, which has a group of settings per family.

  Returns:
    The settings.
  """
  if name == ALL:
    groups = {family: _settings(family) for family in FAMILIES}
    own = dict(families=tuple(FAMILIES), **groups)
  else:
    own = _settings(name)
  return config_dict.ConfigDict({**_COMMON, **own})


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  names = list(FAMILIES) if name == ALL else [name]
  least = 2 if name == ALL else _make(name).min_actions
  common = dict(
    num_actions=fields.Field(int, low=least, high=family_lib.MAX_ACTIONS),
    reward_scale=fields.Field(float, low=1, limit=1e6),
  )
  if name != ALL:
    return {**common, **_make(name).setting_fields}
  choices = fields.Field(str, choices=tuple(names))
  common['families'] = fields.Field(
    tuple,
    items=choices,
    accepts=lambda x: 0 < len(set(x)) == len(x),
    words='a list, without repetitions and not empty,',
  )
  return {
    **common,
    **{
      f'{family}.{setting}': field
      for family in names
      for setting, field in _make(family).setting_fields.items()
    },
  }


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> environment.TaskEnvironment:
  """Builds B streams of a task.

  Args:
    name: see `get_config`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.

  Raises:
    ValueError: if a family needs more actions.
  """
  own = settings.to_dict()
  common = {key: own.pop(key) for key in _COMMON}
  if name == ALL:
    families = {x: _make(x, **own[x]) for x in own['families']}
  else:
    families = {name: _make(name, **own)}
  for family_name, family in families.items():
    if common['num_actions'] < family.min_actions:
      raise ValueError(
        f'num_actions of tasks:{name} must be at least {family.min_actions} '
        f'for the family {family_name}, got {common["num_actions"]}; families '
        'can be left out (families)'
      )
  return environment.TaskEnvironment(families, batch_size, **common)


def _make(name: str, **settings: Any) -> family_lib.Family:
  make = utils.lookup({**FAMILIES, ALL: None}, name, 'family of tasks')
  assert make is not None
  return make(**settings)


def _settings(name: str) -> dict[str, Any]:
  return dataclasses.asdict(_make(name))
