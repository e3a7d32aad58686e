"""Adapts NAVIX environments, `navix:<id>`, which run on the device.

```python
env = registry.get_environment('navix:Navix-DoorKey-5x5-v0', batch_size=8)
```

By default, observations are the whole grid, with the kind, the colour and the
state of every cell as one-hot vectors.
"""

from typing import Any

import chex
from ml_collections import config_dict
import navix
from navix import observations

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.wrappers import vmapped_env

# The package's functions of observations to the sizes of one-hot vectors of
# each layer; none for images.
_OBSERVATIONS: dict[str, tuple[int, ...]] = {
  'symbolic': (11, 6, 4),  # Kinds; colours; directions, or states of doors.
  'symbolic_first_person': (11, 6, 4),
  'rgb': (),
  'rgb_first_person': (),
}


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all environments."""
  _check_name(name)
  return config_dict.ConfigDict(
    dict(
      max_steps=100,
      observation='symbolic',  # A function of `navix.observations`.
      # How many streams are reset at a time, see `VmappedEnvironment`.
      resets_at_once=1,
    )
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(
    max_steps=fields.Field(int, low=1, limit=fields.MAX_COUNT),
    observation=fields.Field(str, choices=tuple(_OBSERVATIONS)),
    resets_at_once=vmapped_env.RESETS_AT_ONCE,
  )


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: an id of `navix.registry()`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  _check_name(name)
  env = navix.make(
    name,
    max_steps=settings.max_steps,
    observation_fn=getattr(observations, settings.observation),
  )
  stream = _NavixStream(env, _OBSERVATIONS[settings.observation], name)
  return vmapped_env.VmappedEnvironment(
    stream, batch_size, settings.resets_at_once
  )


class _NavixStream:
  """One stream, see `vmapped_env.Stream`."""

  resets_itself = False

  def __init__(self, env: Any, sizes: tuple[int, ...], name: str):
    self.name = f'navix:{name}'
    self.num_actions = len(env.action_set)
    self._env = env
    self._sizes = sizes

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    timestep = self._env.reset(rng)
    return timestep, self._encode(timestep.observation)

  def step(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> vmapped_env.Step:
    del rng  # The key is part of the state.
    # Not `step`, which computes a reset for the next call.
    timestep = self._env._step(state, action)
    observation = self._encode(timestep.observation)
    return vmapped_env.Step(
      timestep, observation, timestep.reward, timestep.is_done()
    )

  def _encode(self, observation: Any) -> Any:
    if not self._sizes:
      return observation
    return vmapped_env.one_hot_layers(observation, self._sizes)


def known_names() -> list[str]:
  """Lists the names of all environments."""
  return list(navix.registry())


def _check_name(name: str) -> None:
  utils.lookup(dict.fromkeys(known_names()), name, 'NAVIX environment')
