"""Sokoban in JAX: push every box onto a target.

Rewards are those of other implementations: -0.1 for every step, +1 for a box
that is pushed onto a target, -1 for one that is pushed off, and +10 when all
boxes are on targets, which ends the episode, as does the time limit.

The levels are generated when the environment is made (`sokoban_levels`), or
read from a folder. The published levels of Boxoban are not included.
"""

from collections.abc import Mapping
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from ml_collections import config_dict

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import sokoban_levels
from disco_rl.environments.wrappers import batched_jittable_env

FIELDS: Mapping[str, fields.Field] = dict(
  size=fields.Field(int, low=5, limit=50),
  boxes=fields.Field(int, low=1, limit=50),
  time_limit=fields.Field(int, low=1, limit=fields.MAX_COUNT),
  # They are constants of the compiled program.
  num_levels=fields.Field(int, low=1, limit=100_000),
  level_seed=fields.SEED,
)


class SokobanState(NamedTuple):
  """The state of a game."""

  level: jax.Array  # [], int32, index of the level.
  boxes: jax.Array  # [S, S], bool.
  player: jax.Array  # [2], int32, row and column.
  time: jax.Array  # [], int32, steps since the start of the episode.
  reward: jax.Array  # [], of the last step.


class SingleStreamSokoban:
  """One game; actions 0, 1, 2, 3 move up, down, left, right.

  A move against a wall, or against a box that cannot be pushed, does nothing.
  Every episode draws one of the levels.
  """

  num_actions = 4

  def __init__(self, env_settings: Mapping[str, Any]):
    """Makes or reads the levels.

    Args:
      env_settings: see `get_config`.
    """
    size, num_levels = env_settings['size'], env_settings['num_levels']
    if env_settings['levels']:
      self._levels = sokoban_levels.read(
        env_settings['levels'], size, num_levels
      )
    else:
      self._levels = _generate(
        num_levels, size, env_settings['boxes'], env_settings['level_seed']
      )
    self._time_limit = env_settings['time_limit']

  def initial_state(self, rng: chex.PRNGKey) -> SokobanState:
    """Draws a level."""
    level = jax.random.randint(rng, (), 0, len(self._levels.walls))
    return SokobanState(
      level=level,
      boxes=jnp.asarray(self._levels.boxes)[level],
      player=jnp.asarray(self._levels.players)[level],
      time=jnp.zeros([], jnp.int32),
      reward=jnp.zeros([], jnp.float32),
    )

  def episode_reset(
    self, rng: chex.PRNGKey, state: SokobanState
  ) -> SokobanState:
    """Draws a level, independently of the last one."""
    del state
    return self.initial_state(rng)

  def step(
    self, rng: chex.PRNGKey, state: SokobanState, action: types.Array
  ) -> SokobanState:
    """Moves the player, and the box in front of it."""
    del rng
    walls, targets = self._board(state)
    boxes = state.boxes
    move = jnp.asarray(sokoban_levels.MOVES, jnp.int32)[action]
    # Walls surround the board, so that only a wall can be at its edge.
    ahead = tuple(state.player + move)
    beyond = tuple(state.player + 2 * move)
    pushes = boxes[ahead] & ~walls[beyond] & ~boxes[beyond]
    moves = ~walls[ahead] & (~boxes[ahead] | pushes)
    pushed = boxes.at[ahead].set(False).at[beyond].set(True)
    new = jnp.where(pushes, pushed, boxes)
    gained = jnp.sum(new & targets) - jnp.sum(boxes & targets)
    is_solved = jnp.all(new == targets)
    reward = -0.1 + gained.astype(jnp.float32) + 10.0 * is_solved
    return SokobanState(
      level=state.level,
      boxes=new,
      player=jnp.where(moves, state.player + move, state.player),
      time=state.time + 1,
      reward=reward.astype(jnp.float32),
    )

  def is_terminal(self, state: SokobanState) -> jax.Array:
    """Returns whether all boxes are on targets or the time is over, []."""
    _, targets = self._board(state)
    is_solved = jnp.all(state.boxes == targets)
    return is_solved | (state.time >= self._time_limit)

  def reward(self, state: SokobanState) -> jax.Array:
    """Returns the reward of the step that led to a state, []."""
    return state.reward

  def render(self, state: SokobanState) -> jax.Array:
    """Renders walls, targets, boxes and player: [S, S, 4], bool."""
    walls, targets = self._board(state)
    player = jnp.zeros_like(walls).at[tuple(state.player)].set(True)
    return jnp.stack([walls, targets, state.boxes, player], axis=-1)

  def _board(self, state: SokobanState) -> tuple[jax.Array, jax.Array]:
    """Returns walls and targets of the level, each [S, S]."""
    return (
      jnp.asarray(self._levels.walls)[state.level],
      jnp.asarray(self._levels.targets)[state.level],
    )


class SokobanEnvironment(batched_jittable_env.BatchedJittableEnvironment):
  """A batch of games on the device."""

  def __init__(self, batch_size: int, env_settings: Any):
    """Builds the environment.

    Args:
      batch_size: B, the number of streams.
      env_settings: see `get_config`.
    """
    super().__init__(SingleStreamSokoban, batch_size, env_settings)


def get_config() -> config_dict.ConfigDict:
  """Makes the default settings, with boards of 10 by 10 and four boxes."""
  return config_dict.ConfigDict(
    dict(
      size=10,  # Rows and columns, with the walls around the board.
      boxes=4,  # Of generated levels.
      time_limit=120,  # Steps.
      num_levels=1000,  # So many are generated, or at most so many are read.
      level_seed=0,  # Other seeds generate other levels.
      levels='',  # Folder with levels in the format of Boxoban.
    )
  )


@functools.lru_cache(maxsize=4)
def _generate(*args: int) -> sokoban_levels.Levels:
  """Generates levels, once for all environments with the same settings."""
  return sokoban_levels.generate(*args)[0]
