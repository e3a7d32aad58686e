"""Adapts gymnax environments, `gymnax:<id>`, which run on the device.

```python
env = registry.get_environment('gymnax:Breakout-MinAtar', batch_size=8)
```

They are pure functions, so acting in them is compiled together with learning.
Truncation by a time limit is treated like termination.
"""

import dataclasses
from typing import Any

import chex
import gymnax
from gymnax.environments import spaces
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import rendering


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings: the scalar parameters of an environment."""
  _, params = _make(name)
  numbers = {
    field.name: getattr(params, field.name)
    for field in dataclasses.fields(params)
    if isinstance(getattr(params, field.name), bool | int | float)
  }
  return config_dict.ConfigDict(dict(params=numbers))


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  whole = fields.Field(int, low=-fields.MAX_SEED, high=fields.MAX_SEED)
  return {
    f'params.{key}': whole
    for key, value in get_config(name).params.items()
    if type(value) is int  # JAX stores them as int32.
  }


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
  changes = settings.params.to_dict()
  unknown = sorted(set(changes) - set(get_config(name).params))
  if unknown:
    raise ValueError(
      f'unknown params {unknown} of gymnax:{name}; accepted: '
      f'{sorted(get_config(name).params)}'
    )
  params = params.replace(**changes)
  return GymnaxEnvironment(env, params, batch_size, f'gymnax:{name}')


class GymnaxEnvironment(base.Environment):
  """B streams of a gymnax environment, which resets automatically."""

  is_jittable = True

  def __init__(self, env: Any, params: Any, batch_size: int, name: str):
    """Wraps an environment.

    Args:
      env: a `gymnax.environments.environment.Environment`.
      params: its parameters.
      batch_size: B.
      name: its name in messages.
    """
    super().__init__(batch_size)
    space = env.action_space(params)
    if not isinstance(space, spaces.Discrete):
      raise ValueError(
        f'{name} has actions {type(space).__name__}: only discrete actions are '
        'supported'
      )
    self._num_actions = int(space.n)
    self._env = env
    self._params = params
    observation_space = env.observation_space(params)
    self._num_classes = None
    if isinstance(observation_space, spaces.Discrete):
      self._num_classes = int(observation_space.n)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns `{'observation': spec}`; timesteps have the bare observation."""
    _, timestep = jax.eval_shape(self._reset_stream, jax.random.PRNGKey(0))
    return {'observation': timestep.observation}

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1."""
    return types.ActionSpec((), np.int32, 0, self._num_actions - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Resets every stream; `rng_key` is split into one key per stream."""
    keys = jax.random.split(rng_key, self.batch_size)
    return jax.vmap(self._reset_stream)(keys)

  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Advances every stream, starting a new episode where one ends."""
    return jax.vmap(self._step_stream)(states, actions)

  def render_end(self, states: Any, actions: types.Array) -> Any:
    """Draws the state in which an episode of the first stream ended."""
    rng, env_state = jax.tree.map(lambda x: x[0], states)
    _, step_rng = jax.random.split(rng)
    *_, info = self._env.step(
      step_rng, env_state, jnp.asarray(actions)[0], self._params
    )
    return rendering.picture(info.get('final_observation'))

  def _reset_stream(
    self, rng: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    rng, reset_rng = jax.random.split(rng)
    observation, state = self._env.reset(reset_rng, self._params)
    is_last = jnp.zeros([], bool)
    return (rng, state), self._timestep(observation, 0.0, is_last)

  def _step_stream(
    self, state: Any, action: types.Array
  ) -> tuple[Any, types.EnvironmentTimestep]:
    rng, env_state = state
    rng, step_rng = jax.random.split(rng)
    # gymnax resets automatically, with a key that it splits from `step_rng`.
    observation, env_state, reward, terminated, truncated, _ = self._env.step(
      step_rng, env_state, action, self._params
    )
    is_last = jnp.logical_or(terminated, truncated)
    return (rng, env_state), self._timestep(observation, reward, is_last)

  def _timestep(
    self, observation: Any, reward: Any, is_last: jax.Array
  ) -> types.EnvironmentTimestep:
    if self._num_classes is not None:
      observation = jax.nn.one_hot(observation, self._num_classes)
    return types.EnvironmentTimestep(
      observation=observation,
      step_type=types.mid_or_last(is_last),
      reward=jnp.asarray(reward, jnp.float32),
    )


def _make(name: str) -> tuple[Any, Any]:
  utils.lookup(
    dict.fromkeys(gymnax.registered_envs), name, 'gymnax environment'
  )
  return gymnax.make(name)
