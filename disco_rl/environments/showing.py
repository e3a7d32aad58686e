"""What is known of environments by name, to show what agents do in them.

The module of a family may have a function `render_settings(name)`, which
returns the changes to settings with which `Environment.render` can draw it.
"""

from collections.abc import Mapping
import importlib
from typing import Any

from disco_rl.environments import foreign
from disco_rl.environments import registry

# Lowest and highest possible return of an episode.
_RETURN_RANGES = {'catch': (-1.0, 1.0), 'catch_numpy': (-1.0, 1.0)}

# Which environments can be drawn, for messages.
DRAWABLE = (
  'those whose observation is a board or an image (catch, MinAtar, Atari), '
  'and those of Gymnasium with render_mode="rgb_array"'
)


def drawable_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
  """Returns settings with which an environment can be drawn, if it can.

  Args:
    name: see `registry.known_names`.
    settings: changes to its default settings.

  Returns:
    These settings, with the changes that drawing needs.
  """
  changed = dict(settings)
  for key, value in _ask_family(name, 'render_settings', {}).items():
    if isinstance(value, Mapping):
      changed[key] = {**dict(changed.get(key) or {}), **value}
    else:
      changed[key] = value
  return changed


def return_range(name: str) -> tuple[float, float] | None:
  """Returns the lowest and the highest possible return of an episode.

  Args:
    name: name of an environment, which need not be known any more.

  Returns:
    The range; None if it is not known.
  """
  return _RETURN_RANGES.get(name)


def _ask_family(name: str, function: str, default: Any) -> Any:
  """Calls an optional function of the module of a family."""
  prefix, _, inner_name = name.partition(':')
  family = registry.FAMILIES.get(prefix)
  if family is None or not inner_name:
    return default
  with foreign.boundary(f'cannot import the package of {name}', ValueError):
    module = importlib.import_module(family.module)
    found = getattr(module, function, None)
    return default if found is None else found(inner_name)
