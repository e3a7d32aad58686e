"""Environments that violate their interface in every way, at a chosen step.

`Trouble` says what happens and when; there is one environment of each kind.
"""

import os
import time

import dm_env
from dm_env import specs as dm_env_specs
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments.wrappers import batched_jittable_env

# Names a file; if it exists, the environments of this module do not fail.
REPAIRED_BY = 'DISCO_RL_TEST_REPAIRED_BY'


class BrokenGym(gymnasium.Env):
  """For Gymnasium: counts its steps, and fails at step `at`.

  It has a snapshot only as a `BrokenDm`, which plays the same game.
  """

  observation_space = gymnasium.spaces.Dict(
    count=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
  )
  action_space = gymnasium.spaces.Discrete(3)

  def __init__(self, trouble: str = '', at: int = 1):
    if trouble == 'construct':
      raise KeyError('as asked for')
    if trouble == 'space':
      self.observation_space = gymnasium.spaces.Text(5)
    if trouble == 'huge':
      self.observation_space = gymnasium.spaces.Discrete(10**15)
    if trouble == 'actions':
      self.action_space = gymnasium.spaces.Discrete(1)
    if trouble == 'huge_actions':
      self.action_space = gymnasium.spaces.Discrete(2**40)
    self._trouble, self._at, self._count = trouble, at, 0

  def reset(self, *, seed=None, options=None):
    if self._trouble == 'reset':
      raise RuntimeError('as asked for')
    if self._trouble == 'reset_none':
      return None
    return self._observation(), {}

  def step(self, action):
    self._count += 1
    reward, observation = 1.0, self._observation()
    if self._count == self._at and not is_repaired():
      if self._trouble == 'step':
        raise RuntimeError('as asked for')
      if self._trouble == 'exit':
        raise SystemExit(3)
      if self._trouble == 'die':
        os._exit(3)
      if self._trouble == 'hang':
        time.sleep(600)
      if self._trouble == 'interrupt':
        raise KeyboardInterrupt
      if self._trouble == 'four':
        return observation, reward, False, {}
      if self._trouble == 'shape':
        observation = dict(count=np.zeros(3, np.float32))
      if self._trouble == 'dtype':
        observation = dict(count=np.asarray(['a', 'b']))
      if self._trouble == 'keys':
        observation = dict(other=np.zeros(2, np.float32))
      if self._trouble == 'reward':
        reward = None
      if self._trouble == 'rewards':
        reward = np.zeros(2)
      if self._trouble == 'nan_reward':
        reward = np.nan
      if self._trouble == 'nan':
        observation['count'][1] = np.inf
    return observation, reward, self._count % 5 == 0, False, {}

  def _observation(self):
    return dict(count=np.full(2, self._count % 5, np.float32))


class BrokenDm(dm_env.Environment):
  """The same as a dm_env, with snapshots; see `BrokenGym` for the arguments."""

  def __init__(self, trouble: str = '', at: int = 1):
    self._game = BrokenGym(trouble, at)
    self._trouble = trouble

  def reset(self):
    observation, _ = self._game.reset()
    return None if self._trouble == 'none' else dm_env.restart(observation)

  def step(self, action):
    observation, reward, is_over, _, _ = self._game.step(action)
    make = dm_env.termination if is_over else dm_env.transition
    return make(reward=reward, observation=observation)

  def snapshot(self):
    return np.asarray(self._game._count)

  def restore(self, snapshot):
    self._game._count = int(snapshot)

  def observation_spec(self):
    if self._trouble == 'space':
      return dict(text=dm_env_specs.StringArray(()))
    return dict(count=dm_env_specs.Array((2,), np.float32))

  def action_spec(self):
    if self._trouble == 'actions':
      return dm_env_specs.Array((), np.float32)
    return dm_env_specs.DiscreteArray(3, dtype=np.int32)


class BrokenJax:
  """One stream in JAX that fails when its clock is `at`."""

  num_actions = 2

  def __init__(self, trouble: str = '', at: int = 1):
    self._trouble, self._at = trouble, at
    if trouble == 'num_actions':
      self.num_actions = 2.5

  def initial_state(self, rng):
    if self._trouble == 'reset':
      raise RuntimeError('as asked for')
    return dict(clock=jnp.zeros([], jnp.int32), side=jax.random.uniform(rng))

  def episode_reset(self, rng, state):
    return dict(self.initial_state(rng), clock=state['clock'])

  def step(self, rng, state, action):
    if self._trouble == 'branch' and state['clock'] > 3:
      return state
    clock = state['clock'] + 1
    if self._trouble == 'debug_callback':
      jax.debug.callback(self._fail, clock)
    if self._trouble == 'pure_callback':
      clock = jax.pure_callback(
        self._fail, clock, clock, vmap_method='sequential'
      )
    if self._trouble == 'dtype':
      clock = clock * 1.0
    if self._trouble == 'structure':
      return dict(state, clock=clock, more=clock)
    return dict(state, clock=clock)

  def is_terminal(self, state):
    return state['clock'] % 5 == 0

  def reward(self, state):
    if self._trouble == 'rewards':
      return jnp.zeros(3)
    if self._trouble == 'complex_reward':
      return 1j * state['clock']
    return self._broken('nan_reward', state, 1.0)

  def render(self, state):
    if self._trouble == 'render_shape':
      return jnp.zeros(jnp.shape(state['side']) + (3,))
    shown = jnp.stack([state['side'], state['clock'] % 5 / 5.0])
    return dict(a=shown, b=self._broken('nan', state, shown))

  def _fail(self, clock):
    if clock == self._at and not is_repaired():
      raise KeyError('in a callback')
    return np.asarray(clock)

  def _broken(self, trouble, state, value):
    is_broken = self._trouble == trouble and not is_repaired()
    at = self._at if is_broken else -1
    return jnp.where(state['clock'] == at, jnp.nan, value)


class BrokenJaxBatch(batched_jittable_env.BatchedJittableEnvironment):
  """A batch of `BrokenJax` with an unknown step type when the clock is `at`."""

  def __init__(self, batch_size, settings):
    super().__init__(BrokenJax, batch_size, settings)
    self._settings = settings

  def step(self, state, actions):
    state, timestep = super().step(state, actions)
    is_broken = self._settings.trouble == 'step_type' and not is_repaired()
    at = self._settings.at if is_broken else -1
    step_type = jnp.where(state.state['clock'] == at, 7, timestep.step_type)
    return state, timestep.replace(step_type=step_type)


class BrokenBatch(base.Environment):
  """A batch on the host that returns given values.

  Attributes:
    timestep: replaces fields of every timestep.
    result: replaces all that `step` returns.
  """

  def __init__(self, batch_size, timestep=None, result=None, is_jittable=False):
    super().__init__(batch_size)
    self.is_jittable = is_jittable
    self.timestep, self.result = timestep or {}, result

  def reset(self, rng_key):
    return base.UnusedEnvState(), self._timestep()

  def step(self, states, actions):
    if self.result is not None:
      return self.result
    return states, self._timestep().replace(**self.timestep)

  def single_observation_spec(self):
    return types.ArraySpec((2,), np.float32)

  def single_action_spec(self):
    return types.ActionSpec((), np.int32, 0, 1)

  def _timestep(self):
    return types.EnvironmentTimestep(
      observation=np.zeros((self.batch_size, 2), np.float32),
      step_type=np.ones(self.batch_size, np.int32),
      reward=np.zeros(self.batch_size, np.float32),
    )


def is_repaired() -> bool:
  path = os.environ.get(REPAIRED_BY)
  return bool(path) and os.path.exists(path)
