"""Wraps environments to report their errors in one sentence."""

from collections.abc import Callable
import functools
from typing import Any
import warnings

import chex
import jax
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import layouts
from disco_rl.environments import timesteps

# Attributes that every environment has.
_MEMBERS = (
  *('reset', 'step', 'single_observation_spec', 'single_action_spec'),
  *('batch_size', 'is_jittable'),
)


class GuardedEnvironment(base.Environment):
  """Wraps an environment, and converts its errors to `ForeignCodeError`s.

  Timesteps are checked against the specs: on the host at every step, in JAX
  when `reset` and `step` are traced.

  Attributes:
    name: name of the environment, for messages.
  """

  def __init__(self, env: base.Environment, name: str):
    """Wraps an environment, and checks its specs.

    Args:
      env: the environment.
      name: its name, for messages.

    Raises:
      InvalidEnvironmentError: if its specs are not supported.
      ForeignCodeError: if it fails to return them.
    """
    super().__init__(env.batch_size)
    self.name = name
    self._env = env
    self._num_steps = 0
    with foreign.boundary(f'{name} failed to return its specs'):
      self._observation_spec = env.single_observation_spec()
      self._action_spec = env.single_action_spec()
      # Specs may be objects whose attributes fail.
      self.is_jittable = bool(env.is_jittable)
      self.families = tuple(getattr(env, 'families', ()))
      self._layout = layouts.make_layout(
        name, env.batch_size, self._observation_spec
      )
      layouts.check_action_spec(name, self._action_spec)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of one stream's observation."""
    return self._observation_spec

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of one stream's action."""
    return self._action_spec

  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Resets every stream."""
    self._num_steps = 0
    with foreign.boundary(f'{self.name} failed in reset'):
      result = self._env.reset(rng_key)
    return self._checked(result, 'reset')

  def reset_shard(
    self, rng_key: chex.PRNGKey, shard_key: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Resets the streams of one shard."""
    self._num_steps = 0
    with foreign.boundary(f'{self.name} failed in reset'):
      if hasattr(self._env, 'reset_shard'):
        result = self._env.reset_shard(rng_key, shard_key)
      else:  # It may have the methods of an environment, but not its base.
        result = self._env.reset(shard_key)
    return self._checked(result, 'reset')

  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Advances every stream by its action of `actions` [B]."""
    method = 'step'
    if not self.is_jittable:
      self._num_steps += 1
      method = f'step {self._num_steps}'
    with foreign.boundary(f'{self.name} failed in {method}'):
      result = self._env.step(states, actions)
    new_states, timestep = self._checked(result, method)
    if self.is_jittable:
      timesteps.check_same(
        new_states,
        states,
        f'{self.name}: the state after step',
        'the state before',
      )
    return new_states, timestep

  def task_facts(self, states: Any) -> base.TaskFacts:
    """Returns the family of the task in `states`, and its scale of rewards."""
    if not self.families:
      return super().task_facts(states)
    return self._env.task_facts(states)

  def trace(self) -> None:
    """Traces `reset` and `step` in JAX, to detect errors before a run."""
    states, _ = jax.eval_shape(self.reset, jax.random.PRNGKey(0))
    actions = types.ArraySpec((self.batch_size,), np.int32)
    jax.eval_shape(self.step, states, actions)

  def snapshot(self) -> Any:
    """Returns a snapshot of the environment."""
    with foreign.boundary(f'{self.name} failed in snapshot'):
      return self._env.snapshot()

  def restore(self, snapshot: Any) -> Any:
    """Restores the environment from a snapshot."""
    with foreign.boundary(f'{self.name} failed in restore'):
      return self._env.restore(snapshot)

  def render(self, states: Any, observation: Any) -> Any:
    """Draws the first stream."""
    if not hasattr(self._env, 'render_end'):  # Without the base class.
      return super().render(states, observation)
    with foreign.boundary(f'{self.name} failed in render'):
      return self._checked_picture(self._env.render(states, observation))

  def render_end(self, states: Any, actions: types.Array) -> Any:
    """Draws the state in which an episode of the first stream ended."""
    if not hasattr(self._env, 'render_end'):
      return None
    with foreign.boundary(f'{self.name} failed in render'):
      return self._checked_picture(self._env.render_end(states, actions))

  def _checked_picture(self, picture: Any) -> np.ndarray | None:
    """Checks the result of `render`."""
    if picture is None:
      return None
    picture = np.asarray(picture)
    is_picture = picture.dtype == np.uint8 and picture.shape[2:] == (3,)
    if not is_picture or not picture.size:
      raise foreign.InvalidEnvironmentError(
        f'{self.name}: render returned {picture.dtype} of the shape '
        f'{picture.shape}; a picture is uint8 of the shape [H, W, 3]'
      )
    return picture

  def close(self) -> None:
    """Closes the environment; warns if that fails, since nothing is lost."""
    try:
      with foreign.boundary(f'{self.name} failed in close'):
        self._env.close()
    except foreign.ForeignCodeError as error:
      warnings.warn(str(error), RuntimeWarning, stacklevel=2)

  def _checked(
    self, result: Any, method: str
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Checks the result of `reset` or `step`."""
    if not isinstance(result, tuple) or len(result) != 2:
      raise foreign.InvalidEnvironmentError(
        f'{self.name}: {method} returned {type(result).__name__}; a pair of '
        'states and a timestep is needed'
      )
    states, timestep = result
    # Timesteps may be objects whose attributes fail.
    with foreign.boundary(f'{self.name}: {method} returned a bad timestep'):
      timestep = timesteps.check(timestep, self._layout, method)
      if not self.is_jittable:
        timesteps.check_values(timestep, self._layout, method)
    return states, timestep


def make(
  build: Callable[[], Any], batch_size: int, name: str
) -> base.Environment:
  """Makes an environment, and checks its type and batch size.

  Args:
    build: makes the environment.
    batch_size: B, the number of streams that it should have.
    name: its name, for messages.

  Returns:
    The environment.

  Raises:
    InvalidEnvironmentError: if the result is not an environment of B streams.
    ForeignCodeError: if `build` raises an error.
  """
  with foreign.boundary(f'cannot make {name}', passes=ValueError):
    env = build()
    has_members = all(hasattr(env, x) for x in _MEMBERS)
  if isinstance(env, type) or not has_members:
    shown = env.__name__ if isinstance(env, type) else type(env).__name__
    kind = 'the class' if isinstance(env, type) else 'an object of the type'
    raise foreign.InvalidEnvironmentError(
      f'{name} made {kind} {shown}, which is not an environment of this '
      'library (a disco_rl.environments.base.Environment)'
    )
  if not isinstance(env.batch_size, int | np.integer):
    raise foreign.InvalidEnvironmentError(
      f'{name} made an environment with the batch_size '
      f'{fields.shorten(env.batch_size)}, which is no whole number'
    )
  if env.batch_size != batch_size:
    raise foreign.InvalidEnvironmentError(
      f'{name} made {env.batch_size} streams instead of {batch_size}'
    )
  return env


class GuardedFn:
  """A function that makes guarded environments."""

  def __init__(self, env_fn: Callable[[int, int], Any], name: str):
    """Wraps a function.

    Args:
      env_fn: makes an environment from a batch size and a seed.
      name: name of the environment, for messages.
    """
    self._env_fn = env_fn
    self._env_name = name
    self._was_traced = False
    self.__name__ = getattr(env_fn, '__name__', type(env_fn).__name__)

  def __call__(self, batch_size: int, seed: int) -> base.Environment:
    """Makes an environment; one in JAX is traced the first time."""
    build = functools.partial(self._env_fn, batch_size, seed)
    env = make(build, batch_size, self._env_name)
    try:
      guarded = GuardedEnvironment(env, self._env_name)
      if guarded.is_jittable and not self._was_traced:
        guarded.trace()
        self._was_traced = True
    except BaseException:
      env.close()
      raise
    return guarded
