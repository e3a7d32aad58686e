"""Environments with action masks, whose illegal actions are a catastrophe."""

import dm_env
from dm_env import specs as dm_env_specs
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.environments.wrappers import batched_jittable_env

NUM_DOORS = 4
STEPS = 3  # Of an episode.
CATASTROPHE = -100.0


class Doors:
  """Go through the door that is shown; another one is locked.

  Every step shows a door and a locked one. The right door gives 1, any other 0,
  and the locked one, which is illegal, `CATASTROPHE`.
  """

  num_actions = NUM_DOORS

  def initial_state(self, rng):
    return self._next(rng, jnp.zeros([], jnp.int32), 0.0)

  def episode_reset(self, rng, state):
    del state
    return self.initial_state(rng)

  def step(self, rng, state, action):
    reward = jnp.where(action == state['door'], 1.0, 0.0)
    reward = jnp.where(action == state['locked'], CATASTROPHE, reward)
    return self._next(rng, state['step'] + 1, reward)

  def is_terminal(self, state):
    return state['step'] == STEPS

  def reward(self, state):
    return state['reward']

  def render(self, state):
    doors = jnp.stack([state['door'], state['locked']])
    return jax.nn.one_hot(doors, NUM_DOORS).reshape(-1)

  def legal_actions(self, state):
    return jnp.arange(NUM_DOORS) != state['locked']

  def _next(self, rng, step, reward):
    door, locked = jax.random.choice(rng, NUM_DOORS, (2,), replace=False)
    return dict(
      door=door.astype(jnp.int32),
      locked=locked.astype(jnp.int32),
      step=step,
      reward=jnp.asarray(reward, jnp.float32),
    )


class UnmaskedDoors(Doors):
  """The same without masks."""

  legal_actions = property()  # `hasattr` is False.


class AllLegalDoors(Doors):
  """With masks that are always True."""

  def legal_actions(self, state):
    del state
    return jnp.ones(NUM_DOORS, bool)


class NoLegalDoors(Doors):
  """Without a legal action after the first step."""

  def legal_actions(self, state):
    return jnp.full(NUM_DOORS, state['step'] == 0)


def environment(batch_size, kind=Doors):
  return batched_jittable_env.BatchedJittableEnvironment(kind, batch_size, {})


class _Doors:
  """The same on the host: the k-th step locks door k mod 4."""

  def __init__(self):
    self.clock, self.step = 0, 0

  def restart(self):
    self.step = 0

  def advance(self, action):
    """Returns the reward, and whether the episode is over."""
    is_illegal = not self.mask()[action]
    self.clock, self.step = self.clock + 1, self.step + 1
    return CATASTROPHE if is_illegal else 1.0, self.step == STEPS

  def mask(self):
    return np.arange(NUM_DOORS) != self.clock % NUM_DOORS

  def observation(self):
    return np.eye(NUM_DOORS, dtype=np.float32)[self.clock % NUM_DOORS]


class GymDoors(gymnasium.Env):
  """For Gymnasium, with integers in `info['action_mask']`."""

  action_space = gymnasium.spaces.Discrete(NUM_DOORS)
  observation_space = gymnasium.spaces.Box(0, 1, (NUM_DOORS,), np.float32)

  def __init__(self, mask_of='integers'):
    self._doors, self._mask_of = _Doors(), mask_of

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._doors.restart()
    return self._doors.observation(), self._info()

  def step(self, action):
    reward, is_over = self._doors.advance(action)
    return self._doors.observation(), reward, is_over, False, self._info()

  def _info(self):
    mask = self._doors.mask()
    if self._mask_of == 'nothing':
      return {}
    if self._mask_of == 'fewer':
      return {'action_mask': mask[1:]}
    if self._mask_of == 'fractions':
      return {'action_mask': 0.5 * mask}
    if self._mask_of == 'none_legal':
      return {'action_mask': mask & (self._doors.clock < 2)}
    return {'action_mask': mask.astype(np.int8)}


class DmDoors(dm_env.Environment):
  """As a dm_env, with the method `legal_actions`."""

  def __init__(self):
    self._doors = _Doors()

  def reset(self):
    self._doors.restart()
    return dm_env.restart(self._doors.observation())

  def step(self, action):
    reward, is_over = self._doors.advance(action)
    make = dm_env.termination if is_over else dm_env.transition
    return make(reward, self._doors.observation())

  def legal_actions(self):
    return self._doors.mask()

  def observation_spec(self):
    return dm_env_specs.Array((NUM_DOORS,), np.float32)

  def action_spec(self):
    return dm_env_specs.DiscreteArray(NUM_DOORS, dtype=np.int32)
