"""Registers a custom environment in JAX, in some twenty lines.

  python examples/jax_environment.py
  disco-rl eval --env corridor --use examples.jax_environment

A corridor with the reward at its right end. The class is one stream; the
library runs many of them at once, on the device, together with the agent.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import config_dict

import disco_rl


class State(NamedTuple):
  position: jax.Array
  time: jax.Array


class Corridor:
  num_actions = 2  # Left, right.

  def __init__(self, env_settings):
    self._length = env_settings['length']

  def initial_state(self, rng):
    start = jax.random.randint(rng, (), 0, self._length - 1)
    return State(start, jnp.zeros([], jnp.int32))

  def episode_reset(self, rng, state):
    return self.initial_state(rng)

  def step(self, rng, state, action):
    position = jnp.clip(state.position + 2 * action - 1, 0, self._length - 1)
    return State(position, state.time + 1)

  def is_terminal(self, state):
    at_end = state.position == self._length - 1
    return at_end | (state.time == 2 * self._length)

  def reward(self, state):
    return jnp.where(state.position == self._length - 1, 1.0, 0.0)

  def render(self, state):  # The observation.
    return jax.nn.one_hot(state.position, self._length)


disco_rl.register_environment(
  'corridor', Corridor, lambda: config_dict.ConfigDict(dict(length=6))
)


if __name__ == '__main__':
  result = disco_rl.evaluate('corridor', 'actor_critic', num_iterations=200)
  print('average return by seed:', result.final_returns())
