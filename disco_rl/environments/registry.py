"""Environments by name, for the commands and the library alike.

  registry.get_environment('gym:CartPole-v1', batch_size=8)

A name is one of `ENVIRONMENTS`, or that of a family and what it is called
there, e.g. `gym:CartPole-v1`. Your own, in two lines:

  registry.register('maze', MazeEnvironment, get_maze_config)
  evaluation.evaluate('maze', eta)
"""

from collections.abc import Callable, Mapping
import dataclasses
import importlib
import importlib.util
from typing import Any

from ml_collections import config_dict

from disco_rl import installation
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import jittable_envs


@dataclasses.dataclass(frozen=True)
class Entry:
  """How an environment is made.

  Attributes:
    build: from a batch size and settings to a `base.Environment`.
    get_config: makes its default settings.
  """

  build: Callable[[int, Any], base.Environment]
  get_config: Callable[[], config_dict.ConfigDict]


@dataclasses.dataclass(frozen=True)
class Family:
  """Environments of another package, whose names it knows.

  Attributes:
    module: with the functions `get_config(name)` and `build(name, batch_size,
      settings)`; imported when it is needed.
    usage: how a name is written, for messages.
    package: which must be installed, None for nothing.
    extra: of this library that installs it.
    networks: end of a name to the network that suits it, see
      `network_settings.py`.
  """

  module: str
  usage: str
  package: str | None = None
  extra: str | None = None
  networks: Mapping[str, str] = dataclasses.field(default_factory=dict)


ENVIRONMENTS: dict[str, Entry] = {
  'catch': Entry(
    jittable_envs.CatchJittableEnvironment, jittable_envs.get_config_catch
  ),
  'catch_numpy': Entry(catch.CatchEnvironment, catch.get_config),
}

_HERE = 'disco_rl.environments'
FAMILIES: dict[str, Family] = {
  'gym': Family(f'{_HERE}.gymnasium_env', 'gym:<id>', 'gymnasium', 'gym'),
  'gymnax': Family(
    f'{_HERE}.gymnax_env',
    'gymnax:<id>',
    'gymnax',
    'gymnax',
    networks={'-MinAtar': 'conv'},
  ),
  'atari': Family(
    f'{_HERE}.atari_env',
    'atari:<Game>',
    'ale_py',
    'atari',
    networks={'': 'residual'},
  ),
  'dm': Family(f'{_HERE}.dm_env_env', 'dm:<module>:<factory>'),
}


# Makes an environment from a batch size and a seed.
EnvironmentFn = Callable[[int, int], base.Environment]


def register(
  name: str,
  build: Callable[[int, Any], base.Environment],
  get_config: Callable[[], config_dict.ConfigDict] = config_dict.ConfigDict,
) -> None:
  """Adds an environment of your own.

  Args:
    name: by which it will be known; not one that is taken.
    build: called with a batch size and settings, returns a `base.Environment`.
    get_config: makes its default settings; by default it has none. One on the
      host that has a `random_seed` among them gets a different one for every
      agent.
  """
  if name in ENVIRONMENTS or ':' in name:
    raise ValueError(
      f'an environment cannot be called {name!r}: that name is taken, or '
      'looks like one of another package'
    )
  ENVIRONMENTS[name] = Entry(build, get_config)


def known_names() -> list[str]:
  """All names, and how those of other packages are written."""
  return [*ENVIRONMENTS, *(family.usage for family in FAMILIES.values())]


def suggested_network(name: str) -> str | None:
  """The network that suits an environment's observations.

  Args:
    name: see `known_names`.

  Returns:
    A name of `network_settings.py`, or None where any may do.
  """
  prefix, _, inner_name = name.partition(':')
  if prefix not in FAMILIES:
    return None
  networks = FAMILIES[prefix].networks
  return next(
    (n for end, n in networks.items() if inner_name.endswith(end)), None
  )


def default_settings(name: str) -> config_dict.ConfigDict:
  """The settings of the environment called `name`; a new copy."""
  return _find(name).get_config()


def environment_fn(name: str, **settings: Any) -> EnvironmentFn:
  """Makes copies of an environment that differ by their size and seed.

  Args:
    name: see `known_names`.
    **settings: what to change of the environment's default settings.

  Returns:
    A function of a batch size and a seed. Environments in JAX are seeded when
    they are reset, and do not use the seed; those on the host that have a
    `random_seed` among their settings use both.
  """
  config = default_settings(name)

  def make(batch_size: int, seed: int) -> base.Environment:
    own = dict(settings)
    if 'random_seed' in config:
      own['random_seed'] = own.get('random_seed', config.random_seed) + seed
    return get_environment(name, batch_size, **own)

  return make


def get_environment(
  name: str, batch_size: int, **settings: Any
) -> base.Environment:
  """Builds the environment called `name`.

  Args:
    name: see `known_names`.
    batch_size: B, the number of streams.
    **settings: what to change of the environment's default settings.

  Returns:
    The environment.
  """
  entry = _find(name)
  config = entry.get_config()
  unknown = sorted(set(settings) - set(config))
  if unknown:
    raise ValueError(
      f'unknown settings {unknown} of {name}; accepted: {sorted(config)}'
    )
  config.update(settings)
  return entry.build(batch_size, config)


def _find(name: str) -> Entry:
  """The entry of a name, which is made if it is of another package."""
  prefix, separator, inner_name = name.partition(':')
  if not separator or prefix not in FAMILIES:
    table = ENVIRONMENTS | {f.usage: None for f in FAMILIES.values()}
    if separator:
      name = f'{prefix}:'  # The nearest family is what is meant.
    entry = utils.lookup(table, name, 'environment')
    assert entry is not None, name
    return entry
  family = FAMILIES[prefix]
  if not inner_name:
    raise ValueError(f'{name!r} names no environment: write {family.usage}')
  package, extra = family.package, family.extra
  if package and extra and importlib.util.find_spec(package) is None:
    raise ValueError(
      f'{name} needs the package {package}, which is not installed: '
      f'{installation.install_hint(extra)}'
    )
  module = importlib.import_module(family.module)
  return Entry(
    build=lambda *args: module.build(inner_name, *args),
    get_config=lambda: module.get_config(inner_name),
  )
