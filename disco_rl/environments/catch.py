"""Catch in NumPy, as a stateful dm_env environment."""

from collections.abc import Mapping
from typing import Any

import dm_env
from dm_env import specs as dm_env_specs
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl.environments.wrappers import batched_env

# Types and ranges of the board's sizes.
BOARD_FIELDS: Mapping[str, fields.Field] = dict(
  rows=fields.Field(int, low=2, limit=1024),
  columns=fields.Field(int, low=1, limit=1024),
)
FIELDS: Mapping[str, fields.Field] = dict(BOARD_FIELDS, random_seed=fields.SEED)


def check_board_size(rows: int, columns: int) -> None:
  """Raises a `ValueError` for boards that are too small to play on."""
  if rows < 2 or columns < 1:
    raise ValueError(
      'Catch needs at least 2 rows and 1 column, got '
      f'rows={rows}, columns={columns}'
    )


class SingleStreamCatch(dm_env.Environment):
  """One stream of Catch; see `jittable_envs.SingleStreamCatch` for the game."""

  def __init__(self, env_settings: Mapping[str, Any]):
    """Starts the first episode.

    Args:
      env_settings: `rows` and `columns` of the board, and `random_seed` of the
        ball's starting columns; see `get_config`.
    """
    self._rows = env_settings['rows']
    self._columns = env_settings['columns']
    check_board_size(self._rows, self._columns)
    self._rng = np.random.RandomState(env_settings['random_seed'])
    self._ball_row = 0
    self._ball_column = 0
    self._paddle_column = 0
    self.reset()

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    self._ball_row = 0
    self._ball_column = self._rng.randint(self._columns)
    self._paddle_column = self._columns // 2
    return dm_env.restart(self._observation())

  def step(self, action: Any) -> dm_env.TimeStep:
    """Moves the paddle and drops the ball; resets if an episode has ended."""
    if self._ball_row == self._rows - 1:
      return self.reset()
    self._paddle_column = int(
      np.clip(self._paddle_column + int(action) - 1, 0, self._columns - 1)
    )
    self._ball_row += 1
    if self._ball_row < self._rows - 1:
      return dm_env.transition(reward=0.0, observation=self._observation())
    caught = self._ball_column == self._paddle_column
    return dm_env.termination(
      reward=1.0 if caught else -1.0, observation=self._observation()
    )

  def snapshot(self) -> dict[str, np.ndarray]:
    """Returns the positions, and the state of the random number generator."""
    _, keys, position, _, _ = self._rng.get_state(legacy=True)
    board = [self._ball_row, self._ball_column, self._paddle_column]
    return dict(
      random_keys=np.asarray(keys, np.uint32),
      random_position=np.asarray(position, np.int32),
      board=np.asarray(board, np.int32),
    )

  def restore(self, snapshot: Any) -> None:
    """Restores the state from a snapshot."""
    keys = np.asarray(snapshot['random_keys'])
    position = int(snapshot['random_position'])
    self._rng.set_state(('MT19937', keys, position, 0, 0.0))
    self._ball_row, self._ball_column, self._paddle_column = (
      int(x) for x in snapshot['board']
    )

  def observation_spec(self) -> dm_env_specs.BoundedArray:
    """Returns the spec of the board, [rows, columns], float32."""
    return dm_env_specs.BoundedArray(
      (self._rows, self._columns), np.float32, 0.0, 1.0, name='board'
    )

  def action_spec(self) -> dm_env_specs.BoundedArray:
    """Returns the spec of actions 0, 1, 2: left, stay, right."""
    return dm_env_specs.BoundedArray((), np.int32, 0, 2, name='action')

  def _observation(self) -> np.ndarray:
    board = np.zeros((self._rows, self._columns), np.float32)  # A new array.
    board[self._ball_row, self._ball_column] = 1.0
    board[self._rows - 1, self._paddle_column] = 1.0
    return board


class CatchEnvironment(batched_env.BatchedSingleStreamEnvironment):
  """A batch of Catch games on the host."""

  def __init__(self, batch_size: int, env_settings: Any):
    """Builds the environment.

    Args:
      batch_size: B, the number of streams.
      env_settings: see `get_config`.
    """
    super().__init__(SingleStreamCatch, batch_size, env_settings)


def get_config() -> config_dict.ConfigDict:
  """Makes the default settings, with a board of 8 by 8."""
  return config_dict.ConfigDict(dict(rows=8, columns=8, random_seed=1))
