"""Balancing: a marble on a hill is pushed to keep it from rolling down.

What they demand of a rule: to use a dense reward in continuous states, in which
the consequences of an action grow with time; in tasks that go on after a fall,
to learn from costs alone.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family

_STEP = 0.1  # Seconds.


class Params(NamedTuple):
  """A hill; all rates per second."""

  num_actions: jax.Array  # [], int32, pushes are equally spaced.
  slope: jax.Array  # [], acceleration away from the top, per distance.
  damping: jax.Array  # [].
  push: jax.Array  # [], largest acceleration of a push.
  shake: jax.Array  # [], largest random acceleration.
  ends: jax.Array  # [], bool, whether an episode ends with a fall.


class State(NamedTuple):
  """The state of a stream."""

  position: jax.Array  # [], between -1 and 1, the edges; 0 is the top.
  speed: jax.Array  # [].


@dataclasses.dataclass(frozen=True)
class Balances(family.Family):
  """Marbles on hills of random slopes.

  With position x, the reward of a step is 1 - x² in tasks that end with a fall,
  whose reward is -1. In other tasks it is -x², and the marble stays at the edge
  until it is pushed back.

  Attributes:
    max_steps: most steps of an episode.
    max_slope: steepest slope.
    max_shake: largest random acceleration.
    share_of_ends: probability of a task that ends with a fall.
  """

  max_steps: int = 50
  max_slope: float = 6.0
  max_shake: float = 1.0
  share_of_ends: float = 0.5

  num_start_draws: ClassVar[int] = 2
  num_step_draws: ClassVar[int] = 1
  setting_fields: ClassVar = dict(
    max_steps=fields.Field(int, low=20, high=1000),
    max_slope=fields.Field(float, low=1, high=20),
    max_shake=fields.Field(float, low=0, high=10),
    share_of_ends=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """Position and speed."""
    return 2

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the hill and the pushes."""
    u = jax.random.uniform(rng, (7,))
    num_actions = family.pick_from(u[0], 2, max_actions)
    slope = family.between(u[1], 1.0, self.max_slope)
    params = Params(
      num_actions=num_actions,
      slope=slope,
      damping=0.5 * u[2],
      # Strong enough to bring it back from anywhere.
      push=slope * family.between(u[3], 1.2, 2.0) + self.max_shake,
      shake=self.max_shake * u[4],
      ends=u[5] < self.share_of_ends,
    )
    horizon = family.pick_from(u[6], 20, self.max_steps)
    return family.Drawn(params, num_actions, horizon)

  def start(self, params: Params, noise: jax.Array) -> State:
    """Puts the marble near the top."""
    del params
    position, speed = 0.5 * (noise - 0.5)
    return State(position, speed)

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Pushes the marble, between fully left (0) and fully right (n-1)."""
    push = 2.0 * action / (params.num_actions - 1) - 1.0
    acceleration = (
      params.slope * state.position
      - params.damping * state.speed
      + params.push * push
      + params.shake * (2.0 * noise[0] - 1.0)
    )
    speed = state.speed + _STEP * acceleration
    position = jnp.clip(state.position + _STEP * speed, -1.0, 1.0)
    has_fallen = jnp.abs(position) >= 1.0
    cost = jnp.square(position)
    reward = jnp.where(params.ends, 1.0 - cost, -cost)
    is_over = has_fallen & params.ends
    new_state = State(position, jnp.where(has_fallen, 0.0, speed))
    return new_state, jnp.where(is_over, -1.0, reward), is_over

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows position and speed, [2]."""
    del params
    return jnp.stack([state.position, state.speed])
