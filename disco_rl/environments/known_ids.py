"""Lists the environments of packages, for `listing.py`."""

from collections.abc import Callable, Mapping
import importlib
import importlib.util
from typing import Any

# Gymnasium's own modules whose environments can be made, and packages whose
# environments have a family of their own.
_OF_GYMNASIUM = ('classic_control.', 'toy_text.', 'box2d.')
_IN_FAMILIES = ('ale_py', 'nle', 'gymnax', 'navix')
_CONTINUOUS = (
  *('Pendulum', 'MountainCarContinuous', 'LunarLanderContinuous'),
  *('BipedalWalker', 'BipedalWalkerHardcore', 'CarRacing'),
)

# Families whose packages take seconds to import, so that their names are only
# listed if there is a pattern.
SLOW = ('jumanji', 'navix', 'xminigrid')


def gymnasium_ids() -> list[str]:
  """Lists the registered ids, without those that other families have.

  Also without those of continuous actions, and of packages that are missing.
  """
  gymnasium = importlib.import_module('gymnasium')
  return [
    env_id
    for env_id, spec in gymnasium.registry.items()
    if _can_be_made(spec.entry_point)
    and env_id.rpartition('-v')[0] not in _CONTINUOUS
  ]


def gymnax_ids() -> list[str]:
  """Lists the ids of environments with discrete actions."""
  gymnax = importlib.import_module('gymnax')
  spaces = importlib.import_module('gymnax.environments.spaces')

  def has_discrete_actions(name: str) -> bool:
    try:
      env, params = gymnax.make(name)
      return isinstance(env.action_space(params), spaces.Discrete)
    except Exception:  # Some need packages that are not installed.
      return False

  return [name for name in gymnax.registered_envs if has_discrete_actions(name)]


def task_families() -> list[str]:
  """Lists the families of random tasks, and `all`."""
  named = importlib.import_module('disco_rl.environments.tasks.named')
  return [named.ALL, *named.FAMILIES]


# Functions that list the names of a family, by its prefix. Other families have
# a function `known_names` in their adapter.
OF_PACKAGES: Mapping[str, Callable[[], list[str]]] = {
  'gym': gymnasium_ids,
  'gymnax': gymnax_ids,
  'tasks': task_families,
}


def _can_be_made(entry_point: Any) -> bool:
  """Returns whether a registered class or function is listed."""
  module = getattr(entry_point, '__module__', None) or str(entry_point)
  if module.startswith('gymnasium.'):
    inner = module.removeprefix('gymnasium.envs.')
    is_missing = 'box2d' in inner and not importlib.util.find_spec('Box2D')
    return inner.startswith(_OF_GYMNASIUM) and not is_missing
  return not module.startswith(_IN_FAMILIES)
