"""Builds environments by name.

A name is a key of `ENVIRONMENTS`, or consists of a family and a name in that
family. Custom environments are registered by name:

```python
registry.get_environment('gym:CartPole-v1', batch_size=8)
disco_rl.register_environment('maze', MazeEnvironment, get_maze_config)
disco_rl.evaluate('maze', rule)
```
"""

from collections.abc import Callable, Mapping
import dataclasses
import importlib
import importlib.util
import re
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import installation
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import foreign
from disco_rl.environments import host_suites
from disco_rl.environments import jittable_envs
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
  """

  build: Callable[[int, Any], base.Environment]
  get_config: Callable[[], config_dict.ConfigDict]
  get_fields: Callable[[], Mapping[str, fields.Field]] = dict
  is_on_host: bool = False


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
  """

  module: str
  usage: str
  package: str | None = None
  extra: str | None = None
  networks: Mapping[str, str] = dataclasses.field(default_factory=dict)
  is_on_host: bool = True


ENVIRONMENTS: dict[str, Entry] = {
  'catch': Entry(
    jittable_envs.CatchJittableEnvironment,
    jittable_envs.get_config_catch,
    lambda: catch.BOARD_FIELDS,
  ),
  'catch_numpy': Entry(
    catch.CatchEnvironment, catch.get_config, lambda: catch.FIELDS, True
  ),
}

_BUILT_IN = frozenset(ENVIRONMENTS)
_HERE = 'disco_rl.environments.adapters'
FAMILIES: dict[str, Family] = {
  'gym': Family(f'{_HERE}.gymnasium_env', 'gym:<id>', 'gymnasium', 'gym'),
  'gymnax': Family(
    f'{_HERE}.gymnax_env',
    'gymnax:<id>',
    'gymnax',
    'gymnax',
    networks={'-MinAtar': 'conv'},
    is_on_host=False,
  ),
  'atari': Family(
    f'{_HERE}.atari_env',
    'atari:<Game>',
    'ale_py',
    'atari',
    networks={'': 'residual'},
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


def is_on_host(name: str) -> bool:
  """Returns whether an environment is known to run outside of JAX.

  Args:
    name: see `known_names`. False for custom ones.
  """
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
  prefix, _, inner_name = name.partition(':')
  if prefix not in FAMILIES:
    return None
  networks = FAMILIES[prefix].networks
  return next(
    (n for end, n in networks.items() if inner_name.endswith(end)), None
  )


def default_settings(name: str) -> config_dict.ConfigDict:
  """Makes the default settings of the environment called `name`."""
  return _make_config(name, _find(name))


def settings_fields(name: str) -> Mapping[str, fields.Field]:
  """Returns the declared types and ranges of settings, by path.

  Args:
    name: see `known_names`.
  """
  return _make_fields(name, _find(name))


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
  entry = _find(name)
  config = _make_config(name, entry)
  unknown = sorted(set(settings) - set(config))
  if unknown:
    raise ValueError(
      f'unknown settings {unknown} of {name}; accepted: {sorted(config)}'
    )
  _change(config, settings, _make_fields(name, entry), f'{name}.')
  return guarded_env.make(
    lambda: entry.build(batch_size, config), batch_size, name
  )


def _make_config(name: str, entry: Entry) -> config_dict.ConfigDict:
  """Makes the default settings of an entry, as a copy that may be changed."""
  with foreign.boundary(f'cannot make the settings of {name}', ValueError):
    config = entry.get_config()
    fields.check_names(f'the settings of {name}', config)
    if isinstance(config, Mapping):
      return config_dict.ConfigDict(dict(config))
    if isinstance(config, config_dict.ConfigDict):
      # A copy, since a function may return the same object again.
      return config_dict.ConfigDict(config.copy_and_resolve_references())
  raise foreign.InvalidEnvironmentError(
    f'the settings of {name} must be a ConfigDict or a mapping, but its '
    f'get_config returned {type(config).__name__}'
  )


def _make_fields(name: str, entry: Entry) -> Mapping[str, fields.Field]:
  with foreign.boundary(f'cannot make the settings of {name}', ValueError):
    return entry.get_fields()


def _change(
  config: config_dict.ConfigDict,
  changes: Mapping[str, Any],
  declared: Mapping[str, fields.Field],
  where: str,
  above: str = '',
) -> None:
  """Changes settings in place, after checking them.

  Args:
    config: the settings.
    changes: new values, nested like `config`.
    declared: types and ranges, by path.
    where: prefix of the settings' names in messages.
    above: path of `config` in all settings, ending in a dot.
  """
  with config.unlocked(), config.ignore_type():
    for key, value in changes.items():
      path, old = f'{above}{key}', config.get(key)
      if isinstance(old, config_dict.ConfigDict) and hasattr(value, 'items'):
        _change(old, value, declared, where, f'{path}.')
      else:
        field = declared.get(path) or fields.like(old)
        config[key] = fields.check(field, f'{where}{path}', value)


def _find(name: str) -> Entry:
  """Finds the entry of a name; makes one for names of other packages."""
  prefix, separator, inner_name = name.partition(':')
  if not separator or prefix not in FAMILIES:
    host_suites.check_installable(name)
    if name not in ENVIRONMENTS:
      raise ValueError(_unknown(name))
    return ENVIRONMENTS[name]
  family = FAMILIES[prefix]
  if not inner_name:
    raise ValueError(
      f'{name!r} lacks the name of an environment: write {family.usage}'
    )
  package, extra = family.package, family.extra
  if package and extra and importlib.util.find_spec(package) is None:
    raise ValueError(
      f'{name} needs the package {package}, which is not installed: '
      f'{installation.install_hint(extra)}'
    )
  with foreign.boundary(f'cannot import the package of {name}'):
    module = importlib.import_module(family.module)
  return Entry(
    build=lambda *args: module.build(inner_name, *args),
    get_config=lambda: module.get_config(inner_name),
    get_fields=lambda: module.get_fields(inner_name),
  )


_LOOKS = {  # Patterns of names as other packages write them, to their family.
  r'.+-(MinAtar|bsuite|misc)': 'gymnax',
  r'ALE/(?P<game>\w+)-v\d+': 'atari',
  r'(?P<game>\w+)NoFrameskip-v\d+': 'atari',
  r'([\w.]+/)?[\w.-]+-v\d+': 'gym',
}


def _unknown(name: str) -> str:
  """Makes the error message for an unknown name."""
  prefix, separator, inner_name = name.partition(':')
  if separator:
    nearest = utils.did_you_mean(prefix, FAMILIES)
    suggestion = nearest.replace('?', f':{inner_name}?')
  else:
    suggestion = utils.did_you_mean(name, known_names())
  for pattern, family in _LOOKS.items():
    match = re.fullmatch(pattern, name)
    if match:
      inner_name = match.groupdict().get('game') or name
      suggestion = f' (did you mean {family}:{inner_name}?)'
      break
  return (
    f'unknown environment {fields.shorten(name)}{suggestion}; known: '
    f'{", ".join(sorted(known_names()))}'
  )
