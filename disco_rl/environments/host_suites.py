"""Families of environments on the host of the published evaluations."""

from collections.abc import Mapping
from typing import Any

# Facts of each family by its prefix, see `registry.Family`.
FAMILIES: Mapping[str, Mapping[str, Any]] = {
  'procgen': dict(
    module='disco_rl.environments.adapters.procgen_env',
    usage='procgen:<game>',
    package='envpool',
    extra='procgen',
    minimum='1.0.1',
    networks={'': 'residual'},
  ),
  'crafter': dict(
    module='disco_rl.environments.adapters.crafter_env',
    usage='crafter:reward',
    package='crafter',
    extra='crafter',
    minimum='1.8.3',
    networks={'': 'residual'},
  ),
  'nethack': dict(
    module='disco_rl.environments.adapters.nethack_env',
    usage='nethack:<Task>',
    package='nle',
    extra='nethack',
    minimum='1.3',
    networks={'': 'glyphs'},
  ),
}

# Observations and numbers of actions with the default settings, for lists.
DECLARED: Mapping[str, tuple[str, str]] = {
  'atari': ('84x84x4 u8', '3-18'),
  'procgen': ('64x64x3 u8', '15'),
  'crafter': ('64x64x3 u8', '17'),
  'nethack': ('27 i32, 21x79 i16, 256 u8', '23-121'),
}

# Families that no package on the index has.
_NOT_INSTALLABLE: Mapping[str, str] = {
  'dmlab': (
    'the engine of DeepMind Lab is not on the package index; if you have built '
    'it, name a function that makes its dm_env: dm:my_module:make_env'
  ),
}


def check_installable(name: str) -> None:
  """Raises a `ValueError` for environments that no package on the index has.

  Args:
    name: of an environment that is not registered.
  """
  prefix, separator, _ = name.partition(':')
  if separator and prefix in _NOT_INSTALLABLE:
    raise ValueError(f'cannot make {name}: {_NOT_INSTALLABLE[prefix]}')
