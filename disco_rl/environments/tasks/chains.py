"""Delayed chains: the first action decides about the reward at the end.

What they demand of a rule: to assign credit over a delay, through rewards that
do not depend on any action. In some tasks later observations show the choice,
so that values of later states tell it; in others only returns do.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family


class Params(NamedTuple):
  """A chain."""

  delay: jax.Array  # [], int32, steps between the choice and its reward.
  values: jax.Array  # [A], the reward of each choice.
  noise: jax.Array  # [], rewards in between are up to this size.
  is_visible: jax.Array  # [], bool, whether the choice is shown.


class State(NamedTuple):
  """The state of a stream."""

  position: jax.Array  # [], int32.
  choice: jax.Array  # [], int32; -1 before it is made.


@dataclasses.dataclass(frozen=True)
class Chains(family.Family):
  """Chains in which only the first action matters.

  Attributes:
    max_delay: most steps between the choice and its reward.
    max_noise: largest reward in between; these average to zero.
  """

  max_delay: int = 10
  max_noise: float = 0.5

  num_step_draws: ClassVar[int] = 1
  setting_fields: ClassVar = dict(
    max_delay=fields.Field(int, low=1, high=100),
    max_noise=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """One number per position and per choice."""
    return self.max_delay + 1 + family.MAX_ACTIONS

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the delay, and the reward of each choice."""
    scalar_rng, value_rng = jax.random.split(rng)
    u = jax.random.uniform(scalar_rng, (4,))
    delay = family.pick_from(u[0], 1, self.max_delay)
    params = Params(
      delay=delay,
      values=jax.random.uniform(value_rng, (max_actions,), minval=-1.0),
      noise=self.max_noise * u[1],
      is_visible=u[2] < 0.5,
    )
    num_actions = family.pick_from(u[3], 2, max_actions)
    return family.Drawn(params, num_actions, horizon=delay + 1)

  def start(self, params: Params, noise: jax.Array) -> State:
    """Starts at the first position."""
    del params, noise
    return State(jnp.zeros([], jnp.int32), -jnp.ones([], jnp.int32))

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Moves to the next position."""
    choice = jnp.where(state.position == 0, action, state.choice)
    is_over = state.position == params.delay
    distraction = params.noise * (2.0 * noise[0] - 1.0)
    reward = jnp.where(is_over, params.values[choice], distraction)
    return State(state.position + 1, choice), reward, is_over

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows the position, and perhaps the choice, [D]."""
    shown = jnp.where(params.is_visible, state.choice, -1)
    return jnp.concatenate(
      [
        family.one_hot(state.position, self.max_delay + 1),
        family.one_hot(shown, family.MAX_ACTIONS),
      ]
    )
