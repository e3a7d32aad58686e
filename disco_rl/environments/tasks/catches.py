"""Catch on boards of random sizes, with wind.

What they demand of a rule: to assign a reward at the end of a short episode to
the moves that led to it, from an image; in tasks with wind, to aim at where the
ball will be; and in tasks that reward misses, to avoid it.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family

_NUM_MOVES = 3


class Params(NamedTuple):
  """A game."""

  rows: jax.Array  # [], int32.
  columns: jax.Array  # [], int32.
  wind: jax.Array  # [], int32, -1, 0 or 1 columns per step.
  gust: jax.Array  # [], how often the wind blows.
  sign: jax.Array  # [], the reward for a catch; a miss has the opposite.


class State(NamedTuple):
  """The state of a stream."""

  ball_row: jax.Array  # [], int32.
  ball_column: jax.Array  # [], int32.
  paddle: jax.Array  # [], int32.


@dataclasses.dataclass(frozen=True)
class Catches(family.Family):
  """Games of Catch, smaller than the usual one.

  Attributes:
    max_rows: most rows.
    max_columns: most columns.
    share_of_avoid: probability of a task in which a miss is rewarded.
  """

  max_rows: int = 7
  max_columns: int = 7
  share_of_avoid: float = 0.2

  min_actions: ClassVar[int] = _NUM_MOVES
  num_start_draws: ClassVar[int] = 1
  num_step_draws: ClassVar[int] = 1
  # Catch on 8 by 8 is a benchmark.
  setting_fields: ClassVar = dict(
    max_rows=fields.Field(int, low=3, high=7),
    max_columns=fields.Field(int, low=3, high=7),
    share_of_avoid=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """The cells of the largest board."""
    return self.max_rows * self.max_columns

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the board, the wind and the sign of rewards."""
    del max_actions
    u = jax.random.uniform(rng, (5,))
    params = Params(
      rows=family.pick_from(u[0], 3, self.max_rows),
      columns=family.pick_from(u[1], 3, self.max_columns),
      wind=family.pick_from(u[2], -1, 1),
      gust=u[3],
      sign=jnp.where(u[4] < self.share_of_avoid, -1.0, 1.0),
    )
    return family.Drawn(
      params, jnp.asarray(_NUM_MOVES, jnp.int32), horizon=params.rows - 1
    )

  def start(self, params: Params, noise: jax.Array) -> State:
    """Drops the ball in a random column; the paddle is in the middle."""
    return State(
      ball_row=jnp.zeros([], jnp.int32),
      ball_column=family.pick(noise[0], params.columns),
      paddle=params.columns // 2,
    )

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Moves the paddle by -1, 0 or 1, and drops the ball by one row."""
    last = params.columns - 1
    drift = jnp.where(noise[0] < params.gust, params.wind, 0)
    state = State(
      ball_row=state.ball_row + 1,
      ball_column=jnp.clip(state.ball_column + drift, 0, last),
      paddle=jnp.clip(state.paddle + action - 1, 0, last),
    )
    is_over = state.ball_row == params.rows - 1
    is_caught = state.ball_column == state.paddle
    reward = jnp.where(is_caught, params.sign, -params.sign)
    return state, jnp.where(is_over, reward, 0.0), is_over

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows ball and paddle on the board, [max_rows · max_columns]."""
    ball = state.ball_row * self.max_columns + state.ball_column
    paddle = (params.rows - 1) * self.max_columns + state.paddle
    size = self.observation_size
    return jnp.maximum(family.one_hot(ball, size), family.one_hot(paddle, size))
