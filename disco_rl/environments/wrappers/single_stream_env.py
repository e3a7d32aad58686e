"""Wraps a dm_env environment as one stream that resets automatically."""

from typing import Any

import chex
import dm_env
import jax
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import layouts
from disco_rl.environments import rendering

UnusedEnvState = base.UnusedEnvState


class SingleStreamEnv(base.Environment):
  """Wraps a dm_env environment as one stream in this library's convention.

  When an episode ends, the environment is reset at once: the timestep has LAST,
  the terminal reward, and the first observation of the next episode.
  Actions and timesteps are those of one stream, without a batch dimension;
  `batched_env.py` makes batches of streams.
  """

  def __init__(self, env: dm_env.Environment):
    """Wraps an environment.

    Args:
      env: an environment whose observation spec is any tree, and whose action
        spec is scalar and discrete.
    """
    super().__init__(batch_size=1)
    self._env = env
    self._last_observation: Any = None  # Of the last episode.

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of the observation, 64-bit dtypes cast to 32."""
    specs = self._env.observation_spec()
    layouts.make_layout(type(self._env).__name__, 1, specs)  # Only checks.
    return jax.tree.map(
      lambda spec: types.ArraySpec(
        tuple(spec.shape),
        utils.cast_to_single_precision(
          np.zeros((), spec.dtype), host_data=True
        ).dtype,
      ),
      specs,
    )

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of the action, as int32."""
    spec = self._env.action_spec()
    if (
      isinstance(spec, types.ActionSpec)
      and np.issubdtype(spec.dtype, np.integer)
      and spec.dtype != np.int32
    ):
      spec = types.ActionSpec(
        spec.shape, np.int32, spec.minimum, spec.maximum, spec.name
      )
    return spec

  def reset(
    self, rng_key: chex.PRNGKey | None = None
  ) -> tuple[UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode; `rng_key` is not used."""
    del rng_key
    observation = self._checked(self._env.reset(), 'reset').observation
    return UnusedEnvState(), _timestep(dm_env.StepType.FIRST, 0.0, observation)

  def step(
    self, state: Any, action: Any
  ) -> tuple[UnusedEnvState, types.EnvironmentTimestep]:
    """Takes an action, and starts the next episode if this one ends.

    Args:
      state: not used, since a dm_env stores its state internally.
      action: a scalar.

    Returns:
      An empty state, and a timestep without batch dimension.
    """
    del state
    timestep = self._checked(self._env.step(action), 'step')
    observation = timestep.observation
    if timestep.last():
      self._last_observation = jax.tree.map(np.array, observation)
      observation = self._checked(self._env.reset(), 'reset').observation
    # In dm_env, the reward of a FIRST timestep is None.
    reward = 0.0 if timestep.reward is None else timestep.reward
    if np.shape(reward) or np.asarray(reward).dtype.kind not in 'biuf':
      raise foreign.InvalidEnvironmentError(
        f'{type(self._env).__name__}: step returned a reward of the type '
        f'{type(reward).__name__} and the shape {np.shape(reward)}; one number '
        'is needed'
      )
    return UnusedEnvState(), _timestep(timestep.step_type, reward, observation)

  def render_end_of_stream(self) -> Any:
    """Draws the last observation of the last episode."""
    return rendering.picture(self._last_observation)

  def snapshot(self) -> Any:
    """Calls the environment's method `snapshot`; None if it has none."""
    method = getattr(self._env, 'snapshot', None)
    return None if method is None else method()

  def restore(self, snapshot: Any) -> UnusedEnvState:
    """Calls the environment's method `restore`."""
    self._env.restore(snapshot)
    return UnusedEnvState()

  def close(self) -> None:
    """Closes the environment."""
    self._env.close()

  def _checked(self, timestep: Any, method: str) -> dm_env.TimeStep:
    """Checks that the environment returned a timestep."""
    if not hasattr(timestep, 'observation') or not hasattr(timestep, 'last'):
      raise foreign.InvalidEnvironmentError(
        f'{type(self._env).__name__}: {method} returned '
        f'{type(timestep).__name__}; a dm_env.TimeStep is needed'
      )
    return timestep


def _timestep(
  step_type: dm_env.StepType, reward: float, observation: Any
) -> types.EnvironmentTimestep:
  with np.errstate(over='ignore'):  # Infinity is reported by `guarded_env`.
    return types.EnvironmentTimestep(
      observation=utils.cast_to_single_precision(observation, host_data=True),
      step_type=np.asarray(step_type, np.int32),
      reward=np.asarray(reward, np.float32),
    )
