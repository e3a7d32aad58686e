"""Environments with known steps, for every kind of adapter."""

import os

import dm_env
from dm_env import specs as dm_env_specs
import gymnasium
from gymnax.environments import environment as gymnax_environment
from gymnax.environments import spaces as gymnax_spaces
import jax.numpy as jnp
import numpy as np

# Episodes of lengths 1, 2, 3, ... `clock` counts all steps, and is the reward;
# `place` is (episode, step within it). In the library's convention:
STEP_TYPES = ['FIRST', 'LAST', 'MID', 'LAST', 'MID', 'MID', 'LAST']
REWARDS = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
PLACES = [[1, 0], [2, 0], [2, 1], [3, 0], [3, 1], [3, 2], [4, 0]]


class _Script:
  """The game of all of them."""

  def __init__(self):
    self.episode, self.moment, self.clock = 0, 0, 0

  def begin(self):
    self.episode, self.moment = self.episode + 1, 0

  def advance(self) -> bool:
    """Returns whether the episode is over."""
    self.moment += 1
    self.clock += 1
    return self.moment == self.episode

  def observation(self):
    # 64 bits, as many environments return.
    return dict(
      clock=np.asarray(self.clock, np.int64),
      place=np.asarray([self.episode, self.moment], np.float64),
    )


class Scripted(dm_env.Environment):
  """As a dm_env; every second episode ends by a time limit."""

  def __init__(self, seed: int = 0, action_dtype: type = np.int64):
    del seed
    self._action_dtype = action_dtype
    self._script = _Script()

  def reset(self):
    self._script.begin()
    return dm_env.restart(self._script.observation())

  def step(self, action):
    make = dm_env.transition
    if self._script.advance():
      by_limit = self._script.episode % 2 == 0
      make = dm_env.truncation if by_limit else dm_env.termination
    return make(
      reward=float(self._script.clock), observation=self._script.observation()
    )

  def observation_spec(self):
    return dict(
      clock=dm_env_specs.Array((), np.int64),
      place=dm_env_specs.Array((2,), np.float64),
    )

  def action_spec(self):
    return dm_env_specs.DiscreteArray(3, dtype=self._action_dtype)


class ScriptedGym(gymnasium.Env):
  """For Gymnasium; every second episode ends by a time limit.

  Actions begin at 5. `fail_at` is the step at which it raises an error, and
  `die_at` that at which its process ends.
  """

  action_space = gymnasium.spaces.Discrete(3, start=5)
  observation_space = gymnasium.spaces.Dict(
    clock=gymnasium.spaces.Box(0, 99, (), np.int64),
    place=gymnasium.spaces.Box(0, 99, (2,), np.float64),
  )

  def __init__(self, fail_at: int = -1, die_at: int = -1):
    self._script = _Script()
    self._fail_at, self._die_at = fail_at, die_at

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._script.begin()
    return self._script.observation(), {}

  def step(self, action):
    assert self.action_space.contains(action), action
    is_over = self._script.advance()
    if self._script.clock == self._fail_at:
      raise RuntimeError('as asked for')
    if self._script.clock == self._die_at:
      os._exit(3)
    by_limit = self._script.episode % 2 == 0
    return (
      self._script.observation(),
      float(self._script.clock),
      is_over and not by_limit,
      is_over and by_limit,
      {},
    )


class SpacesGym(gymnasium.Env):
  """Has one observation of every kind."""

  action_space = gymnasium.spaces.Discrete(2)
  observation_space = gymnasium.spaces.Dict(
    image=gymnasium.spaces.Box(0, 255, (4, 3, 1), np.uint8),
    number=gymnasium.spaces.Discrete(4, start=-1),
    pair=gymnasium.spaces.Tuple(
      [
        gymnasium.spaces.MultiDiscrete([2, 3]),
        gymnasium.spaces.MultiBinary(2),
      ]
    ),
  )

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._count = 0
    return self._observation(), {}

  def step(self, action):
    self._count += 1
    return self._observation(), 0.0, False, False, {}

  def _observation(self):
    return dict(
      image=np.full((4, 3, 1), 10 * self._count, np.uint8),
      number=self._count % 4 - 1,
      pair=(np.array([1, 2]), np.array([0, 1], np.int8)),
    )


class ScriptedGymnax(gymnax_environment.Environment):
  """For gymnax: a counter with episodes of three steps."""

  def reset_env(self, key, params):
    state = gymnax_environment.EnvState(time=0)
    return self._observe(state), state

  def step_env(self, key, state, action, params):
    state = state.replace(time=state.time + 1)
    reward = jnp.asarray(state.time, jnp.float32)
    return self._observe(state), state, reward, state.time == 3, {}

  def _observe(self, state):
    return jnp.asarray([state.time], jnp.float32)

  def action_space(self, params):
    return gymnax_spaces.Discrete(3)

  def observation_space(self, params):
    return gymnax_spaces.Box(0, 3, (1,), jnp.float32)
