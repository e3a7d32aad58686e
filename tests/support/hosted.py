"""Environments in JAX, wrapped as environments on the host."""

import jax
import numpy as np

from disco_rl.environments import base
from disco_rl.environments import registry


class Hosted(base.Environment):
  """Does what an environment in JAX does, with its keys, on the host."""

  def __init__(self, env: base.Environment, has_snapshots: bool = True):
    super().__init__(env.batch_size)
    self._env = env
    self.has_action_mask = env.has_action_mask
    self._has_snapshots = has_snapshots
    self._states = None
    self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
    self.is_closed = False

  def reset(self, rng_key):
    self._states, timestep = self._reset(rng_key)
    return base.UnusedEnvState(), jax.device_get(timestep)

  def step(self, states, actions):
    self._states, timestep = self._step(self._states, actions)
    return base.UnusedEnvState(), jax.device_get(timestep)

  def snapshot(self):
    return jax.device_get(self._states) if self._has_snapshots else None

  def restore(self, snapshot):
    self._states = jax.tree.map(np.asarray, snapshot)
    return base.UnusedEnvState()

  def single_observation_spec(self):
    return self._env.single_observation_spec()

  def single_action_spec(self):
    return self._env.single_action_spec()

  def close(self):
    self.is_closed = True


def environment_fn(name='catch', made=None, has_snapshots=True, **settings):
  """Returns a function that makes `Hosted` ones, and appends them to `made`."""
  env_fn = registry.environment_fn(name, **settings)

  def hosted(batch_size, seed):
    # Not guarded: the wrapper is.
    env = Hosted(env_fn(batch_size, seed), has_snapshots)
    if made is not None:
      made.append((seed, env))
    return env

  return hosted
