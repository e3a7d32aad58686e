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
  build, get_config = utils.lookup(ENVIRONMENTS, name, 'environment')
  config = get_config()
  unknown = sorted(set(settings) - set(config))
  if unknown:
    raise ValueError(
      f'unknown settings {unknown} of {name}; accepted: {sorted(config)}'
    )
  config.update(settings)
  return build(batch_size, config)
