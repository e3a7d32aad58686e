"""Lists the environments that can be made by name.

```python
listing.list_environments('procgen:*')[0].name  # 'procgen:bigfish'
```

A family has many environments, and to make one can take seconds. So what is
listed of an environment is what its family declares; observations and actions
are read from the environments themselves if a pattern leaves few.
"""

from collections.abc import Iterable
import dataclasses
import fnmatch
import importlib
import importlib.util
from typing import Any

import jax
import numpy as np

from disco_rl.environments import foreign
from disco_rl.environments import host_suites
from disco_rl.environments import known_ids
from disco_rl.environments import registry

# At most so many environments are made for their observations and actions.
MOST_MADE = 12

_SHORT = {'float': 'f', 'uint': 'u', 'int': 'i', 'bool': 'bool'}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
  """What is known of an environment.

  Attributes:
    name: its name; or the form of the names of a family (`gym:<id>`) whose
      names are not known.
    observation: shapes and dtypes of its arrays, `'84x84x4 u8'`; empty if they
      are not known without making it.
    actions: number of actions; empty if it is not known.
    where: `'device'` for environments in JAX, or `'host'`; empty if it is not
      known.
    extra: the extra of this library that installs its package; empty if it
      needs none.
    is_installed: whether its package is installed.
    problem: why it cannot be made; empty if it can, or if it was not tried.
  """

  name: str
  observation: str = ''
  actions: str = ''
  where: str = ''
  extra: str = ''
  is_installed: bool = True
  problem: str = ''


def list_environments(pattern: str = '') -> list[Listed]:
  """Lists environments by name, without those of packages that make none here.

  Args:
    pattern: a pattern as in a shell (`'atari:S*'`), or a part of the name, in
      upper or lower case; all if it is empty.

  Returns:
    The environments, in the order of the registry. A family whose package is
    not installed has one entry, as have those of `known_ids.SLOW` without a
    pattern.
  """
  pattern = registry.canonical(pattern)
  found = [
    *_registered(pattern),
    *(
      listed
      for prefix, family in registry.FAMILIES.items()
      for listed in _of_family(prefix, family, pattern)
    ),
  ]
  if sum(map(_can_be_made, found)) > MOST_MADE:
    return found
  return [_made(listed) if _can_be_made(listed) else listed for listed in found]


def _registered(pattern: str) -> Iterable[Listed]:
  for name, entry in registry.ENVIRONMENTS.items():
    if _matches(name, pattern):
      # Functions that make environments have no such attribute.
      is_jittable: Any = getattr(entry.build, 'is_jittable', None)
      where = {True: 'device', False: 'host'}.get(is_jittable, '')
      yield Listed(name=name, where='host' if entry.is_on_host else where)


def _of_family(
  prefix: str, family: registry.Family, pattern: str
) -> Iterable[Listed]:
  """Lists the environments of a family."""
  own_prefix, separator, _ = pattern.partition(':')
  if separator and not fnmatch.fnmatchcase(prefix, f'*{own_prefix.lower()}'):
    return  # Before its package is imported.
  package = family.package
  is_installed = (
    package is None or importlib.util.find_spec(package) is not None
  )
  observation, actions = host_suites.DECLARED.get(prefix, ('', ''))
  listed = Listed(
    name=family.usage,
    observation=observation,
    actions=actions,
    where='host' if family.is_on_host else 'device',
    extra=family.extra or '',
    is_installed=is_installed,
  )
  is_slow = not pattern and prefix in known_ids.SLOW
  names = _names(prefix, family) if is_installed and not is_slow else []
  if not names:
    # All that begins so: its names are not known.
    if separator or _matches(family.usage, pattern):
      yield listed
    return
  for name in names:
    if _matches(name, pattern):
      yield dataclasses.replace(listed, name=name)


def _names(prefix: str, family: registry.Family) -> list[str]:
  """Returns the names of a family that are known, perhaps none."""
  try:
    with foreign.boundary(f'cannot list the environments of {prefix}'):
      if prefix in known_ids.OF_PACKAGES:
        known = known_ids.OF_PACKAGES[prefix]()
      else:
        module = importlib.import_module(family.module)
        known = getattr(module, 'known_names', list)()
  except foreign.ForeignCodeError:  # E.g. a version that does not fit.
    return []
  return [f'{prefix}:{name}' for name in known]


def _matches(name: str, pattern: str) -> bool:
  name, pattern = name.lower(), pattern.lower()
  if any(c in pattern for c in '*?['):
    return fnmatch.fnmatchcase(name, pattern)
  return pattern in name


def _can_be_made(listed: Listed) -> bool:
  return listed.is_installed and '<' not in listed.name


def _made(listed: Listed) -> Listed:
  """Makes an environment, and reads its observations and actions."""
  try:
    env = registry.get_environment(listed.name, 1)
  except (ValueError, foreign.ForeignCodeError, MemoryError) as error:
    return dataclasses.replace(listed, problem=foreign.one_line(str(error)))
  try:
    return dataclasses.replace(
      listed,
      observation=_describe(env.single_observation_spec()),
      actions=str(env.single_action_spec().maximum + 1),
      where='device' if env.is_jittable else 'host',
    )
  finally:
    env.close()


def _describe(specs: Any) -> str:
  """Describes the arrays of an observation, e.g. as `10x10x4 f32`."""
  return ', '.join(
    ' '.join(filter(None, ['x'.join(map(str, leaf.shape)), _short(leaf.dtype)]))
    for leaf in jax.tree.leaves(specs)
  )


def _short(dtype: Any) -> str:
  """Shortens the name of a dtype, e.g. to `f32`."""
  name = np.dtype(dtype).name
  kind = name.rstrip('0123456789')
  return f'{_SHORT.get(kind, kind)}{name[len(kind) :]}'
