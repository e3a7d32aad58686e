"""Corridors with a sparse reward at the far end.

What they demand of a rule: to keep exploring without rewards, to learn from the
first one, and to pass it on along the way. In some tasks the near end has a
smaller reward, which is found first.
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
  """A corridor."""

  length: jax.Array  # [], int32, cells; the last one is the goal.
  first: jax.Array  # [], int32, the cell in which episodes start.
  slip: jax.Array  # [], how often a move fails.
  cost: jax.Array  # [], subtracted from every reward.
  decoy: jax.Array  # [], the reward that ends an episode in cell 0; 0 for none.


class State(NamedTuple):
  """The state of a stream."""

  cell: jax.Array  # [], int32.


@dataclasses.dataclass(frozen=True)
class Corridors(family.Family):
  """Corridors with two moves, whose last cell has the reward 1.

  Attributes:
    max_length: most cells.
    max_slip: largest probability that a move fails.
    max_cost: largest cost of a step; half of the tasks have none.
    max_decoy: largest reward at the near end; half of the tasks have none.
  """

  max_length: int = 12
  max_slip: float = 0.2
  max_cost: float = 0.02
  max_decoy: float = 0.3

  num_step_draws: ClassVar[int] = 1
  setting_fields: ClassVar = dict(
    max_length=fields.Field(int, low=4, high=100),
    max_slip=fields.Field(float, low=0, high=0.9),
    max_cost=fields.Field(float, low=0, high=0.5),
    max_decoy=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """One number per cell."""
    return self.max_length

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the length, the start and the difficulties."""
    del max_actions
    u = jax.random.uniform(rng, (7,))
    length = family.pick_from(u[0], 4, self.max_length)
    decoy = self.max_decoy * u[1] * (u[2] < 0.5)
    params = Params(
      length=length,
      first=family.pick_from(u[3], 1, length // 2),
      slip=self.max_slip * u[4],
      # Numbers below a half again, to keep the draws independent.
      cost=self.max_cost * jnp.maximum(2.0 * u[5] - 1.0, 0.0),
      decoy=decoy,
    )
    horizon = length * family.pick_from(u[6], 2, 4)
    return family.Drawn(params, jnp.asarray(2, jnp.int32), horizon)

  def start(self, params: Params, noise: jax.Array) -> State:
    """Starts in the first cell of the task."""
    del noise
    return State(params.first)

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Moves towards the near end (0) or towards the goal (1)."""
    move = jnp.where(noise[0] < params.slip, 0, 2 * action - 1)
    cell = jnp.clip(state.cell + move, 0, params.length - 1)
    is_goal = cell == params.length - 1
    is_decoy = (cell == 0) & (params.decoy > 0)
    found = jnp.where(is_goal, 1.0, jnp.where(is_decoy, params.decoy, 0.0))
    return State(cell), found - params.cost, is_goal | is_decoy

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows the cell, [max_length]."""
    del params
    return family.one_hot(state.cell, self.max_length)
