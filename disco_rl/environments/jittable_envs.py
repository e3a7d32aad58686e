"""Environments in pure JAX, which run on the device together with the agent."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from ml_collections import config_dict

from disco_rl import types
from disco_rl.environments import catch
from disco_rl.environments.wrappers import batched_jittable_env


class CatchState(NamedTuple):
  """Positions of ball and paddle, int32 scalars."""

  ball_row: jax.Array
  ball_column: jax.Array
  paddle_column: jax.Array


class SingleStreamCatch:
  """Catch: move the paddle on the last row under the falling ball.

  Actions 0, 1, 2 move the paddle by -1, 0, +1. The episode ends when the ball
  reaches the last row, with reward +1 if it was caught and -1 if not.
  """

  num_actions = 3

  def __init__(self, env_settings: Mapping[str, Any]):
    """Initialises the game.

    Args:
      env_settings: `rows` and `columns` of the board.
    """
    self._rows = env_settings['rows']
    self._columns = env_settings['columns']
    catch.check_board_size(self._rows, self._columns)

  def initial_state(self, rng: chex.PRNGKey) -> CatchState:
    """Puts the ball in a random column of row 0, the paddle in the middle."""
    return CatchState(
      ball_row=jnp.zeros([], jnp.int32),
      ball_column=jax.random.randint(rng, (), 0, self._columns),
      paddle_column=jnp.asarray(self._columns // 2, jnp.int32),
    )

  def episode_reset(self, rng: chex.PRNGKey, state: CatchState) -> CatchState:
    """Starts the next episode, independently of the last one."""
    del state
    return self.initial_state(rng)

  def step(
    self, rng: chex.PRNGKey, state: CatchState, action: types.Array
  ) -> CatchState:
    """Moves the paddle and drops the ball by one row."""
    del rng
    paddle = jnp.clip(state.paddle_column + action - 1, 0, self._columns - 1)
    return state._replace(
      ball_row=state.ball_row + 1, paddle_column=paddle.astype(jnp.int32)
    )

  def is_terminal(self, state: CatchState) -> jax.Array:
    """Returns whether the ball is on the last row, []."""
    return state.ball_row == self._rows - 1

  def reward(self, state: CatchState) -> jax.Array:
    """Returns +1 or -1 at the end of an episode, else 0; []."""
    caught = state.ball_column == state.paddle_column
    return jnp.where(self.is_terminal(state), jnp.where(caught, 1.0, -1.0), 0.0)

  def render(self, state: CatchState) -> jax.Array:
    """Renders [rows, columns, 1], float32, with ones at ball and paddle."""
    board = jnp.zeros((self._rows, self._columns, 1), jnp.float32)
    board = board.at[state.ball_row, state.ball_column, 0].set(1.0)
    return board.at[self._rows - 1, state.paddle_column, 0].set(1.0)


class CatchJittableEnvironment(batched_jittable_env.BatchedJittableEnvironment):
  """A batch of Catch games on the device."""

  def __init__(self, batch_size: int, env_settings: Any):
    """Builds the environment.

    Args:
      batch_size: B, the number of streams.
      env_settings: see `get_config_catch`.
    """
    super().__init__(SingleStreamCatch, batch_size, env_settings)


def get_config_catch() -> config_dict.ConfigDict:
  """Makes the default settings, with a board of 8 by 8."""
  return config_dict.ConfigDict(dict(rows=8, columns=8))
