"""Environments by name."""

from collections.abc import Callable
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import jittable_envs

# Name to (constructor, default settings). The constructor is called with a
# batch size and settings.
ENVIRONMENTS: dict[
  str,
  tuple[Callable[..., base.Environment], Callable[[], config_dict.ConfigDict]],
] = {
  'catch': (
    jittable_envs.CatchJittableEnvironment,
    jittable_envs.get_config_catch,
  ),
  'catch_numpy': (catch.CatchEnvironment, catch.get_config),
}


# Makes an environment from a batch size and a seed.
EnvironmentFn = Callable[[int, int], base.Environment]


def default_settings(name: str) -> config_dict.ConfigDict:
  """The settings of the environment registered under `name`; a new copy."""
  _, get_config = utils.lookup(ENVIRONMENTS, name, 'environment')
  return get_config()


def environment_fn(name: str, **settings: Any) -> EnvironmentFn:
  """Makes copies of an environment that differ by their size and seed.

  Args:
    name: a key of `ENVIRONMENTS`.
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
  """Builds the environment registered under `name`.

  Args:
    name: a key of `ENVIRONMENTS`.
    batch_size: B, the number of streams.
    **settings: what to change of the environment's default settings.

  Returns:
    The environment.
  """
  build, _ = utils.lookup(ENVIRONMENTS, name, 'environment')
  config = default_settings(name)
  unknown = sorted(set(settings) - set(config))
  if unknown:
    raise ValueError(
      f'unknown settings {unknown} of {name}; accepted: {sorted(config)}'
    )
  config.update(settings)
  return build(batch_size, config)
