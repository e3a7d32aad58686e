"""Adapts gymnax environments, `gymnax:<id>`, which run on the device.

```python
env = registry.get_environment('gymnax:Breakout-MinAtar', batch_size=8)
```

They are pure functions, so acting in them is compiled together with learning.
Truncation by a time limit is treated like termination.
"""

from typing import Any

import chex
import gymnax
from gymnax.environments import spaces
import jax
import jax.numpy as jnp
from ml_collections import config_dict

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.adapters import parameters
from disco_rl.environments.wrappers import vmapped_env


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings: the scalar parameters of an environment."""
  _, params = _make(name)
  return config_dict.ConfigDict(dict(params=parameters.scalars(params)))


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  return parameters.make_fields(get_config(name).params)


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: an id of `gymnax.registered_envs`, with discrete actions.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  env, params = _make(name)
  params = parameters.change(params, settings.params, f'gymnax:{name}')
  return GymnaxEnvironment(env, params, batch_size, f'gymnax:{name}')


class GymnaxEnvironment(vmapped_env.VmappedEnvironment):
  """B streams of a gymnax environment, which resets automatically."""

  def __init__(self, env: Any, params: Any, batch_size: int, name: str):
    """Wraps an environment.

    Args:
      env: a `gymnax.environments.environment.Environment`.
      params: its parameters.
      batch_size: B.
      name: its name in messages.
    """
    super().__init__(_GymnaxStream(env, params, name), batch_size)


class _GymnaxStream:
  """One stream, see `vmapped_env.Stream`."""

  # gymnax resets automatically, with a key that it splits from the step's.
  resets_itself = True

  def __init__(self, env: Any, params: Any, name: str):
    self.name = name
    space = env.action_space(params)
    is_discrete = isinstance(space, spaces.Discrete)
    vmapped_env.check_discrete(name, is_discrete, space)
    self.num_actions = int(space.n)
    self._env = env
    self._params = params
    observation_space = env.observation_space(params)
    self._num_classes = None
    if isinstance(observation_space, spaces.Discrete):
      self._num_classes = int(observation_space.n)

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    observation, state = self._env.reset(rng, self._params)
    return state, self._encode(observation)

  def step(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> vmapped_env.Step:
    observation, state, reward, terminated, truncated, _ = self._env.step(
      rng, state, action, self._params
    )
    is_last = jnp.logical_or(terminated, truncated)
    return vmapped_env.Step(state, self._encode(observation), reward, is_last)

  def last_observation(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> Any:
    *_, info = self._env.step(rng, state, action, self._params)
    return info.get('final_observation')

  def _encode(self, observation: Any) -> Any:
    if self._num_classes is None:
      return observation
    return jax.nn.one_hot(observation, self._num_classes)


def _make(name: str) -> tuple[Any, Any]:
  utils.lookup(
    dict.fromkeys(gymnax.registered_envs), name, 'gymnax environment'
  )
  return gymnax.make(name)
