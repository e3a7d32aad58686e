"""Batches of pure-JAX environments."""

import operator
from typing import Any, Protocol

import chex
import dm_env
from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import rendering
from disco_rl.environments import timesteps

_STEP_KEY = 2  # Folded in; `jax.random.split` uses 0 and 1.


class SingleStreamJittable(Protocol):
  """One stream of an environment as pure functions of an explicit state.

  A method `picture(state)`, uint8 [H, W, 3], is optional: without it, pictures
  are drawn from observations, see `base.Environment.render`.
  """

  num_actions: int

  def initial_state(self, rng: chex.PRNGKey) -> Any:
    """Returns the state at the start of the stream's first episode."""

  def episode_reset(self, rng: chex.PRNGKey, state: Any) -> Any:
    """Returns the state at the start of the next episode."""

  def step(self, rng: chex.PRNGKey, state: Any, action: types.Array) -> Any:
    """Returns the state after `action`, a scalar."""

  def is_terminal(self, state: Any) -> types.Array:
    """Returns whether the episode ends in this state, []."""

  def render(self, state: Any) -> Any:
    """Returns the observation of this state, without [B]."""

  def reward(self, state: Any) -> types.Array:
    """Returns the reward for arriving in this state, []."""


@types.chex_dataclass(frozen=True)
class EnvState(types.Record):
  """The state of every stream, leaves [B, ...]."""

  state: Any
  rng: chex.PRNGKey


class BatchedJittableEnvironment(base.Environment):
  """B vmapped streams of a `SingleStreamJittable`.

  `step` and `reset` are pure and can be jitted, vmapped and scanned over.
  Streams differ only by their random key. Each step splits it into the next key
  and the key of a reset, and folds a number into it for the key of `step`.
  """

  is_jittable = True

  def __init__(self, env_class: Any, batch_size: int, env_settings: Any):
    """Builds the environment.

    Args:
      env_class: makes a `SingleStreamJittable` from the settings as one object,
        or from each as a keyword argument.
      batch_size: B, the number of streams.
      env_settings: its settings, a mapping.
    """
    super().__init__(batch_size)
    self._env: SingleStreamJittable = base.from_settings(
      env_class, env_settings
    )
    self._class_name = type(self._env).__name__

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns `{'observation': spec}`; timesteps have the bare array."""
    spec = jax.eval_shape(
      lambda rng: self._env.render(self._env.initial_state(rng)),
      jax.random.PRNGKey(0),
    )
    return {'observation': spec}

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1."""
    try:
      num_actions = operator.index(self._env.num_actions)
    except TypeError:  # The spec would round a fraction.
      raise foreign.InvalidEnvironmentError(
        f'{self._class_name}.num_actions must be a whole number, got '
        f'{fields.shorten(self._env.num_actions)}'
      ) from None
    return dm_env_specs.BoundedArray(
      (), np.int32, 0, num_actions - 1, name='action'
    )

  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[EnvState, types.EnvironmentTimestep]:
    """Resets every stream; `rng_key` is split into one key per stream."""
    keys = jax.random.split(rng_key, self.batch_size)
    return jax.vmap(self._reset_stream)(keys)

  def step(
    self, state: EnvState, actions: types.Array
  ) -> tuple[EnvState, types.EnvironmentTimestep]:
    """Advances every stream, starting a new episode where one ends."""
    return jax.vmap(self._step_stream)(state, actions)

  def render(self, states: EnvState, observation: Any) -> Any:
    """Draws the first stream, by the class's method `picture` if it has one."""
    if not hasattr(self._env, 'picture'):
      return super().render(states, observation)
    state = jax.tree.map(lambda x: x[0], states.state)
    return np.asarray(self._env.picture(state))

  def render_end(self, states: EnvState, actions: types.Array) -> Any:
    """Draws the state in which an episode of the first stream ended."""
    state, rng = jax.tree.map(lambda x: x[0], (states.state, states.rng))
    step_rng = jax.random.fold_in(rng, _STEP_KEY)
    state = self._env.step(step_rng, state, jnp.asarray(actions)[0])
    if hasattr(self._env, 'picture'):
      return np.asarray(self._env.picture(state))
    return rendering.picture(self._env.render(state))

  def _reset_stream(
    self, rng: chex.PRNGKey
  ) -> tuple[EnvState, types.EnvironmentTimestep]:
    rng, rng_now = jax.random.split(rng)
    state = self._env.initial_state(rng_now)
    timestep = types.EnvironmentTimestep(
      observation=self._env.render(state),
      # As published, the first step of a stream is not marked FIRST.
      step_type=jnp.asarray(int(dm_env.StepType.MID), jnp.int32),
      reward=jnp.zeros([], jnp.float32),
    )
    return EnvState(state=state, rng=rng), timestep

  def _step_stream(
    self, state: EnvState, action: types.Array
  ) -> tuple[EnvState, types.EnvironmentTimestep]:
    rng, rng_now = jax.random.split(state.rng)
    # The reset has the same key as in the published code. The key of the step
    # is not derived from it, so that their draws are independent.
    step_rng = jax.random.fold_in(state.rng, _STEP_KEY)
    env_state = self._env.step(step_rng, state.state, action)
    is_terminal = self._env.is_terminal(env_state)
    reward = jnp.asarray(self._env.reward(env_state))
    if not timesteps.is_real(reward.dtype):
      raise foreign.InvalidEnvironmentError(
        f'{self._class_name}.reward returned {reward.dtype}; real numbers are '
        'needed'
      )
    reset_state = self._env.episode_reset(rng_now, env_state)
    for method, own in (('step', env_state), ('episode_reset', reset_state)):
      timesteps.check_same(
        own,
        state.state,
        f'{self._class_name}.{method}',
        f'{self._class_name}.initial_state',
      )
    env_state = jax.tree.map(
      lambda new, old: jnp.where(is_terminal, new, old), reset_state, env_state
    )
    timestep = types.EnvironmentTimestep(
      observation=self._env.render(env_state),
      step_type=types.mid_or_last(is_terminal),
      reward=reward.astype(jnp.float32),
    )
    return EnvState(state=env_state, rng=rng), timestep
