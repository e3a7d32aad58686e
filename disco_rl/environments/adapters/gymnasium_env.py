"""Adapts Gymnasium environments, `gym:<id>`, to this library's convention.

```python
env = registry.get_environment('gym:CartPole-v1', batch_size=8)
```

Any environment with discrete actions is supported. Each stream is reset within
the step that ends an episode, so there are no dummy steps. Truncation by a time
limit is treated like termination, as in the published code. With the setting
`action_mask`, legal actions are those of `info['action_mask']`.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import inspect
from typing import Any

import chex
import dm_env
import gymnasium
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import factories
from disco_rl.environments import foreign
from disco_rl.environments import legal_actions
from disco_rl.environments.adapters import gymnasium_spaces
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import frame_stacks
from disco_rl.environments.wrappers import worker_env


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all Gymnasium environments."""
  del name
  return worker_env.get_config(
    kwargs=dict(),  # Keyword arguments of `gymnasium.make` or the factory.
    frame_stack=1,  # Number of observations stacked along the last axis.
    action_mask=False,  # Whether to read `info['action_mask']`.
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return {**worker_env.FIELDS, 'frame_stack': fields.FRAME_STACK}


def render_settings(name: str) -> dict[str, Any]:
  """Returns the settings with which an environment can be drawn, if it can."""
  factory = factories.find(name)
  if factory is not None:
    try:
      can_draw = 'render_mode' in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # Some built-in functions have none.
      can_draw = False
  else:
    _env_maker(name, {})  # Registers the id.
    creator: Any = gymnasium.spec(name.rpartition(':')[2]).entry_point
    if isinstance(creator, str):
      with foreign.boundary(f'cannot import gym:{name}'):
        creator = gymnasium.envs.registration.load_env_creator(creator)
    metadata = getattr(creator, 'metadata', None) or {}
    can_draw = 'rgb_array' in metadata.get('render_modes', ())
  return dict(kwargs=dict(render_mode='rgb_array')) if can_draw else {}


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: an id of Gymnasium's registry, `module:id` of one that a module
      registers, or `module:factory`, a function that returns a Gymnasium
      environment.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  _env_maker(name, {})  # Raises for a wrong name, before processes are started.
  make = functools.partial(
    make_streams,
    name,
    settings.kwargs.to_dict(),
    settings.frame_stack,
    action_mask=settings.action_mask,
  )
  return worker_env.make(make, batch_size, settings, f'gym:{name}')


def make_streams(
  name: str,
  kwargs: dict[str, Any],
  frame_stack: int,
  seeds: Sequence[int],
  action_mask: bool = False,
) -> batched_env.StreamBatch:
  """Makes one stream per seed, in this process; see `build`."""
  make_env = _env_maker(name, kwargs)
  streams = []
  for seed in seeds:
    env = factories.make(
      make_env,
      f'gym:{name}',
      'Gymnasium environment (gymnasium.Env)',
      ('reset', 'step', 'action_space', 'observation_space'),
    )
    streams.append(GymStream(env, int(seed), frame_stack, action_mask))
  return batched_env.StreamBatch(streams)


class GymStream:
  """One Gymnasium environment as a stream that resets automatically."""

  def __init__(
    self,
    env: gymnasium.Env,
    seed: int,
    frame_stack: int = 1,
    action_mask: bool = False,
  ):
    """Wraps an environment.

    Args:
      env: an environment with discrete actions.
      seed: seed of the first reset; later resets are not seeded.
      frame_stack: how many observations are stacked.
      action_mask: whether `info['action_mask']` has the legal actions.

    Raises:
      ValueError: if `frame_stack` is less than 1.
      InvalidEnvironmentError: if the spaces are not supported.
    """
    if frame_stack < 1:
      raise ValueError(f'frame_stack must be at least 1, got {frame_stack}')
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
      raise foreign.InvalidEnvironmentError(
        f'{_describe(env)} has actions {space}: only discrete '
        'actions (gymnasium.spaces.Discrete) are supported'
      )
    if int(space.n) > np.iinfo(np.int32).max:
      raise foreign.InvalidEnvironmentError(
        f'{_describe(env)} has {space.n} actions; at most 2**31 - 1 are '
        'supported'
      )
    self._env = env
    self.has_action_mask = action_mask
    self._mask: np.ndarray | None = None
    self._num_actions = int(space.n)
    self._first_action = int(space.start)
    self._seed: int | None = seed
    self._end: Any = None  # Picture of the end of the last episode.
    self._spec, self._encode = gymnasium_spaces.encoder(
      env.observation_space, _describe(env)
    )
    self._frame_stack = frame_stack
    self._stack: Any = None  # Of this episode; None before its first frame.

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of the stacked observations."""
    return frame_stacks.stack_specs(self._spec, self._frame_stack)

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1, also if `space.start` is not 0."""
    return types.ActionSpec((), np.int32, 0, self._num_actions - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey | None = None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode; seeded by the constructor, not by `rng_key`."""
    del rng_key
    first, shown = dm_env.StepType.FIRST, self._start_episode()
    return base.UnusedEnvState(), _timestep(first, 0.0, shown, self._mask)

  def step(
    self, state: Any, action: Any
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Takes an action, and starts the next episode if this one ends."""
    del state
    result = self._env.step(int(action) + self._first_action)
    observation, reward, terminated, truncated, info = self._unpack(
      result, 'step', 'observation, reward, terminated, truncated and info'
    )
    self._check_number('reward', reward)
    self._check_number('terminated', terminated)
    self._check_number('truncated', truncated)
    if terminated or truncated:
      self._end = self.render_stream()
      step_type, shown = dm_env.StepType.LAST, self._start_episode()
    else:
      step_type, shown = dm_env.StepType.MID, self._show(observation)
      self._mask = self._read_mask(info)
    timestep = _timestep(step_type, float(reward), shown, self._mask)
    return base.UnusedEnvState(), timestep

  def render_stream(self) -> Any:
    """Returns the simulator's picture; None without `render_mode=rgb_array`."""
    if getattr(self._env, 'render_mode', None) != 'rgb_array':
      return None
    return self._env.render()

  def render_end_of_stream(self) -> Any:
    """Returns the picture of the end of the last episode, or None."""
    return self._end

  def snapshot(self) -> None:
    """Returns None: Gymnasium has no interface for an environment's state."""

  def restore(self, snapshot: Any) -> None:
    """Raises a `NotImplementedError`: there are no snapshots."""
    raise NotImplementedError(f'{_describe(self._env)} cannot make snapshots')

  def close(self) -> None:
    """Closes the environment."""
    self._env.close()

  def _start_episode(self) -> Any:
    result = self._env.reset(seed=self._seed)
    observation, info = self._unpack(result, 'reset', 'observation and info')
    self._seed = None
    self._mask = self._read_mask(info)
    self._stack = None
    return self._show(observation)

  def _read_mask(self, info: Any) -> np.ndarray | None:
    """Returns the legal actions, [A], or None without the setting."""
    if not self.has_action_mask:
      return None
    if not isinstance(info, Mapping) or 'action_mask' not in info:
      raise foreign.InvalidEnvironmentError(
        f"{_describe(self._env)} has no info['action_mask'], which the setting "
        'action_mask=True needs'
      )
    return legal_actions.to_mask(
      info['action_mask'], self._num_actions, _describe(self._env)
    )

  def _unpack(self, result: Any, method: str, wanted: str) -> tuple[Any, ...]:
    """Checks the number of values that a method of the environment returned."""
    number = 2 if method == 'reset' else 5
    if isinstance(result, tuple) and len(result) == number:
      return result
    given = type(result).__name__
    if isinstance(result, tuple):
      given = f'{len(result)} values'
    raise foreign.InvalidEnvironmentError(
      f'{_describe(self._env)}: {method} returned {given}; Gymnasium needs '
      f'{wanted}'
    )

  def _check_number(self, name: str, value: Any) -> None:
    """Checks that one of the values of `step` is a number or a boolean."""
    if isinstance(value, bool | int | float | np.bool_ | np.number):
      return  # The common types, without the slower checks.
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in 'biuf':
      shown = type(value).__name__
      if array.dtype.kind in 'biuf':
        shown = f'an array of the shape {array.shape}'
      raise foreign.InvalidEnvironmentError(
        f'{_describe(self._env)}: step returned {shown} as {name}; one number '
        'is needed'
      )

  def _show(self, observation: Any) -> Any:
    """Encodes and stacks observations, padded with an episode's first one."""
    frame, number = self._encode(observation), self._frame_stack
    if self._stack is None:
      self._stack = frame_stacks.first(frame, number)
    else:
      self._stack = frame_stacks.add(self._stack, frame, number)
    return self._stack


def _env_maker(
  name: str, kwargs: dict[str, Any]
) -> Callable[[], gymnasium.Env]:
  """Returns a function that makes environments; `name` as in `build`."""
  factory = factories.find(name)
  if factory is not None:
    return functools.partial(factory, **kwargs)
  module, _, env_id = name.rpartition(':')
  if module:
    factories.import_modules([module])  # Registers the id.
  try:
    with foreign.boundary(f'cannot make gym:{name}', passes=ValueError):
      gymnasium.spec(env_id)
  except foreign.ForeignCodeError as error:
    if not isinstance(error.__cause__, gymnasium.error.Error | ImportError):
      raise
    near = utils.did_you_mean(env_id, gymnasium.registry)
    if module and env_id.isidentifier():  # Ids have a version.
      raise ValueError(
        f'cannot make gym:{name}: the module {module} has no function {env_id}'
        f'{factories.nearest(module, env_id)}'
      ) from None
    raise ValueError(
      f'gym:{name} is neither a registered id of Gymnasium nor module:factory'
      f'{near}: {error.__cause__}'
    ) from None
  return functools.partial(gymnasium.make, env_id, **kwargs)


def _describe(env: gymnasium.Env) -> str:
  # Objects of other classes than `gymnasium.Env` lack both.
  spec = getattr(env, 'spec', None)
  if isinstance(spec, gymnasium.envs.registration.EnvSpec):
    return f'gym:{spec.id}'
  return type(getattr(env, 'unwrapped', env)).__name__


def _timestep(
  step_type: dm_env.StepType, reward: float, observation: Any, mask: Any
) -> types.EnvironmentTimestep:
  return types.EnvironmentTimestep(
    observation=observation,
    step_type=np.asarray(step_type, np.int32),
    reward=np.asarray(reward, np.float32),
    action_mask=mask,
  )
