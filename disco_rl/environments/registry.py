"""Builds environments by name.

A name is a key of `ENVIRONMENTS`, or consists of a family and a name in that
family; `family/name` is the same as `family:name`. Custom environments are
registered by name:

```python
registry.get_environment('gym:CartPole-v1', batch_size=8)
disco_rl.register_environment('maze', MazeEnvironment, get_maze_config)
disco_rl.evaluate('maze', rule)
```
"""

from collections.abc import Callable, Mapping
import dataclasses
import importlib
import re
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import env_settings
from disco_rl.environments import foreign
from disco_rl.environments import host_suites
from disco_rl.environments import jittable_envs
from disco_rl.environments import names
from disco_rl.environments import packages
from disco_rl.environments import sokoban
from disco_rl.environments.wrappers import batched_jittable_env
from disco_rl.environments.wrappers import guarded_env


@dataclasses.dataclass(frozen=True)
class Entry:
  """A registered environment.

  Attributes:
    build: makes a `base.Environment` from a batch size and settings.
    get_config: makes its default settings.
    get_fields: returns the types and ranges of settings, by name; all others
      have the type of their default.
    is_on_host: whether it runs outside of JAX; False if that is not known.
    network: the network that is suggested for it; None if there is none.
  """

  build: Callable[[int, Any], base.Environment]
  get_config: Callable[[], config_dict.ConfigDict]
  get_fields: Callable[[], Mapping[str, fields.Field]] = dict
  is_on_host: bool = False
  network: str | None = None


@dataclasses.dataclass(frozen=True)
class Family:
  """Environments whose names share a prefix, e.g. those of another package.

  Attributes:
    module: a module, often an adapter, with the functions `get_config(name)`,
      `get_fields(name)` and `build(name, batch_size, settings)`; imported on
      first use.
    usage: the form of its names, for messages.
    package: the package that must be installed; None if none is needed.
    extra: the extra of this library that installs the package.
    networks: suffix of a name to the network that is suggested for it, see
      `config/networks.py`.
    is_on_host: whether its environments run outside of JAX.
    minimum: the oldest version of the package that works; None for any.
    jax_below: see `packages.Package`.
    needs: see `packages.Package`.
  """

  module: str
  usage: str
  package: str | None = None
  extra: str | None = None
  networks: Mapping[str, str] = dataclasses.field(default_factory=dict)
  is_on_host: bool = True
  minimum: str | None = None
  jax_below: str | None = None
  needs: tuple[str, ...] = ()


ENVIRONMENTS: dict[str, Entry] = {
  'catch': Entry(
    jittable_envs.CatchJittableEnvironment,
    jittable_envs.get_config_catch,
    lambda: catch.BOARD_FIELDS,
  ),
  'catch_numpy': Entry(
    catch.CatchEnvironment, catch.get_config, lambda: catch.FIELDS, True
  ),
  'sokoban': Entry(
    sokoban.SokobanEnvironment,
    sokoban.get_config,
    lambda: sokoban.FIELDS,
    network='conv',
  ),
}

_BUILT_IN = frozenset(ENVIRONMENTS)
_HERE = 'disco_rl.environments.adapters'


def _in_jax(
  name: str, minimum: str, networks: Mapping[str, str], **others: Any
) -> Family:
  """Makes the family of a package in JAX, whose names are all the same."""
  return Family(
    f'{_HERE}.{name}_env',
    f'{name}:<id>',
    package=name,
    extra=name,
    networks=networks,
    is_on_host=False,
    minimum=minimum,
    **others,
  )


FAMILIES: dict[str, Family] = {
  'gym': Family(
    f'{_HERE}.gymnasium_env',
    'gym:<id>',
    'gymnasium',
    'gym',
    minimum='1.2.0',
  ),
  'gymnax': _in_jax(
    'gymnax',
    '1.0.1',
    {'-MinAtar': 'conv'},
    jax_below='0.12',
    needs=('flax', 'gymnasium', 'matplotlib', 'seaborn'),
  ),
  'craftax': _in_jax('craftax', '1.6.1', {'-Pixels-v1': 'residual'}),
  'jumanji': _in_jax(
    'jumanji',
    '1.1.2',
    dict.fromkeys(('Maze-v0', 'PacMan-v1', 'Snake-v1', 'Sokoban-v0'), 'conv'),
  ),
  'xminigrid': _in_jax('xminigrid', '0.9.3', {'': 'conv'}),
  'navix': _in_jax('navix', '0.7.4', {'': 'conv'}),
  'pgx': _in_jax('pgx', '2.6', {'': 'conv'}),
  'atari': Family(
    f'{_HERE}.atari_env',
    'atari:<Game>',
    'ale_py',
    'atari',
    networks={'': 'residual'},
    minimum='0.12.0',
  ),
  'dm': Family(f'{_HERE}.dm_env_env', 'dm:<module>:<factory>'),
  'tasks': Family(
    'disco_rl.environments.tasks.named', 'tasks:<family>', is_on_host=False
  ),
  **{prefix: Family(**x) for prefix, x in host_suites.FAMILIES.items()},
}

# Makes an environment from a batch size and a seed.
EnvironmentFn = Callable[[int, int], base.Environment]


def register_environment(
  name: str,
  build: Callable[[int, Any], base.Environment],
  get_config: Callable[[], config_dict.ConfigDict] = config_dict.ConfigDict,
) -> None:
  """Registers a custom environment under a name.

  Args:
    name: its name. Registering a name again replaces the earlier environment;
      built-in names cannot be replaced.
    build: a function of a batch size and settings that returns a
      `base.Environment`; or a single-stream class in JAX, see
      `wrappers.batched_jittable_env.SingleStreamJittable`, which is constructed
      from the settings and vmapped.
    get_config: makes its default settings; by default it has none. If they
      include a `random_seed`, every agent gets a different one.

  Raises:
    ValueError: if the name cannot be registered, or `build` is not callable.
  """
  utils.check_name(name, 'environment', {*_BUILT_IN, *FAMILIES})
  if names.canonical(name, FAMILIES) != name:
    raise ValueError(
      f'an environment cannot be registered as {fields.shorten(name)}, which '
      f'means {names.canonical(name, FAMILIES)}'
    )
  if isinstance(build, base.Environment) or not callable(build):
    raise ValueError(
      f'the environment {name!r} must be registered as a function from a batch '
      f'size and settings to an environment, or as a class; got {build!r}'
    )
  ENVIRONMENTS[name] = Entry(_batched(build), get_config)


def _batched(build: Any) -> Callable[[int, Any], base.Environment]:
  """Returns `build`, or a function that batches a single-stream class."""
  is_single_stream = all(
    hasattr(build, method)
    for method in ('initial_state', 'episode_reset', 'is_terminal', 'render')
  )
  if not is_single_stream:
    return build
  wrapper = batched_jittable_env.BatchedJittableEnvironment
  return lambda batch_size, settings: wrapper(build, batch_size, settings)


def as_environment_fn(
  env: str | EnvironmentFn, settings: Mapping[str, Any] | None = None
) -> EnvironmentFn:
  """Converts a name or a function to a function of guarded environments.

  Args:
    env: a name (see `known_names`), or a function that makes an environment
      from a batch size and a seed.
    settings: changes to the default settings of a named environment.

  Returns:
    A function of a batch size and a seed, whose environments are guarded (see
    `wrappers.guarded_env`).

  Raises:
    ValueError: if `env` is unknown, or neither a name nor a function, or a
      function together with `settings`.
  """
  if isinstance(env, str):
    return environment_fn(env, **(settings or {}))
  if isinstance(env, base.Environment) or not callable(env):
    raise ValueError(
      'an environment is given by its name or by a function that makes one '
      'from a batch size and a seed (lambda batch_size, seed: ...), not as an '
      f'object: got {type(env).__name__}'
    )
  if settings:
    raise ValueError('env_settings need an environment that is given by name')
  if isinstance(env, guarded_env.GuardedFn):
    return env
  name = getattr(env, '__name__', type(env).__name__)
  return guarded_env.GuardedFn(
    env, name if name.isidentifier() else 'the environment'
  )


def known_names() -> list[str]:
  """Lists the registered names, and the form of the names of each family."""
  return [*ENVIRONMENTS, *(family.usage for family in FAMILIES.values())]


def canonical(name: Any) -> Any:
  """Converts `family/name` to `family:name`, see `names.canonical`."""
  return name if name in ENVIRONMENTS else names.canonical(name, FAMILIES)


def is_on_host(name: str) -> bool:
  """Returns whether `name` is known to run outside of JAX, not a custom one."""
  name = canonical(name)
  if name in ENVIRONMENTS:
    return ENVIRONMENTS[name].is_on_host
  family = FAMILIES.get(name.partition(':')[0])
  return ':' in name and family is not None and family.is_on_host


def suggested_network(name: str) -> str | None:
  """Returns the network that is suggested for an environment's observations.

  Args:
    name: see `known_names`.

  Returns:
    A name of `config/networks.py`; None if there is no suggestion.
  """
  name = canonical(name)
  if name in ENVIRONMENTS:
    return ENVIRONMENTS[name].network
  prefix, _, inner_name = name.partition(':')
  if prefix not in FAMILIES:
    return None
  networks = FAMILIES[prefix].networks
  return next(
    (n for end, n in networks.items() if inner_name.endswith(end)), None
  )


def default_settings(name: str) -> config_dict.ConfigDict:
  """Makes the default settings of the environment called `name`."""
  return env_settings.make(name, _find(name).get_config)


def settings_fields(name: str) -> Mapping[str, fields.Field]:
  """Returns the types and ranges that `name` declares of settings, by path."""
  return env_settings.make_fields(name, _find(name).get_fields)


def environment_fn(name: str, **settings: Any) -> EnvironmentFn:
  """Returns a function that makes an environment from a batch size and a seed.

  Args:
    name: see `known_names`.
    **settings: changes to the environment's default settings.

  Returns:
    A function of a batch size and a seed, whose environments are guarded (see
    `wrappers.guarded_env`). The seed is added to the setting `random_seed`; it
    has no effect on environments without one, such as those in JAX, which are
    seeded by `reset`.
  """
  name = canonical(name)
  config = default_settings(name)

  def make(batch_size: int, seed: int) -> base.Environment:
    own = dict(settings)
    if 'random_seed' in config:
      first = own.get('random_seed', config.random_seed)
      fields.check(fields.Field(int), f'random_seed of {name}', first)
      own['random_seed'] = first + seed
    return get_environment(name, batch_size, **own)

  make.__name__ = re.sub(r'\W', '_', name)  # Results are named after it.
  return guarded_env.GuardedFn(make, name)


def get_environment(
  name: str, batch_size: int, **settings: Any
) -> base.Environment:
  """Builds the environment called `name`.

  Args:
    name: see `known_names`.
    batch_size: B, the number of streams.
    **settings: changes to the environment's default settings.

  Returns:
    The environment.

  Raises:
    ValueError: if the name or a setting is unknown, or a value is invalid.
    ForeignCodeError: if the environment cannot be made.
  """
  name = canonical(name)
  entry = _find(name)
  config = env_settings.make(name, entry.get_config)
  declared = env_settings.make_fields(name, entry.get_fields)
  env_settings.change(name, config, settings, declared)
  return guarded_env.make(
    lambda: entry.build(batch_size, config), batch_size, name
  )


def _find(name: str) -> Entry:
  """Finds the entry of a name; makes one for names of other packages."""
  name = canonical(name)
  prefix, separator, inner_name = name.partition(':')
  if not separator or prefix not in FAMILIES:
    host_suites.check_installable(name)
    if name not in ENVIRONMENTS:
      raise ValueError(names.unknown(name, FAMILIES, known_names()))
    return ENVIRONMENTS[name]
  family = FAMILIES[prefix]
  if not inner_name:
    raise ValueError(
      f'{name!r} lacks the name of an environment: write {family.usage}'
    )
  package = 'the package'
  if family.package and family.extra:
    needed = packages.Package(
      family.package,
      family.extra,
      family.minimum,
      family.jax_below,
      family.needs,
    )
    package = packages.check(name, needed)
  with foreign.boundary(f'cannot import {package} for {name}'):
    module = importlib.import_module(family.module)
  return Entry(
    build=lambda *args: module.build(inner_name, *args),
    get_config=lambda: module.get_config(inner_name),
    get_fields=lambda: module.get_fields(inner_name),
  )
