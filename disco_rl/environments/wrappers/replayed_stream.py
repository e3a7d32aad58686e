"""A stream that is restored by playing the actions of its episode again.

For games without an interface to their state, whose episodes depend only on
their number and on the actions.
"""

from typing import Any, Protocol

import chex
import dm_env
import jax
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments.wrappers import frame_stacks


class Game(Protocol):
  """A game in episodes."""

  def start(self, episode: int) -> Any:
    """Starts an episode; returns its first observation, a tree of arrays.

    Args:
      episode: its number, from 0.
    """

  def play(self, action: int) -> tuple[Any, float, bool]:
    """Takes an action; returns observation, reward, whether the episode ends.

    The arrays of the observation may be used again in the next call.
    """

  def close(self) -> None:
    """Frees the game's resources."""


class ReplayedStream:
  """One game as a stream that resets automatically."""

  def __init__(
    self,
    game: Game,
    observation_spec: types.SpecsTree,
    num_actions: int,
    frame_stack: int = 1,
    max_steps: int | None = None,
  ):
    """Wraps a game.

    Args:
      game: the game.
      observation_spec: specs of its observations.
      num_actions: number of its actions, at most 256.
      frame_stack: how many observations are stacked, along the last axis.
      max_steps: most steps of an episode; None if episodes cannot be repeated,
        so that there are no snapshots.
    """
    assert num_actions <= 256  # One byte each in snapshots.
    self._game = game
    self._spec = frame_stacks.stack_specs(observation_spec, frame_stack)
    self._action_spec = types.ActionSpec(
      (), np.int32, 0, num_actions - 1, 'action'
    )
    self._frame_stack = frame_stack
    self._observation: Any = None
    self._episode = -1
    self._num_steps = 0
    self._actions = None
    if max_steps is not None:
      self._actions = np.zeros(max_steps, np.uint8)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of the stacked observations."""
    return self._spec

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1."""
    return self._action_spec

  def reset(
    self, rng_key: chex.PRNGKey | None = None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts the next episode; `rng_key` is not used."""
    del rng_key
    self._start(self._episode + 1)
    return self._timestep(dm_env.StepType.FIRST, 0.0)

  def step(
    self, state: Any, action: Any
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Takes an action, and starts the next episode if this one ends."""
    del state
    reward, is_last = self._play(int(action))
    if is_last:
      self._start(self._episode + 1)
    step_type = dm_env.StepType.LAST if is_last else dm_env.StepType.MID
    return self._timestep(step_type, reward)

  def snapshot(self) -> dict[str, np.ndarray] | None:
    """Returns the number of the episode and its actions; None without them."""
    if self._actions is None:
      return None
    numbers = np.asarray([self._episode, self._num_steps], np.int64)
    return dict(numbers=numbers, actions=self._actions.copy())

  def restore(self, snapshot: dict[str, np.ndarray]) -> None:
    """Plays the actions of the episode again."""
    episode, num_steps = (int(x) for x in snapshot['numbers'])
    if episode < 0:  # Saved before the first reset.
      return
    self._start(episode)
    for action in np.asarray(snapshot['actions'])[:num_steps].tolist():
      self._play(action)

  def close(self) -> None:
    """Closes the game."""
    self._game.close()

  def _start(self, episode: int) -> None:
    self._episode, self._num_steps = episode, 0
    first = jax.tree.map(np.array, self._game.start(episode))
    self._observation = frame_stacks.first(first, self._frame_stack)

  def _play(self, action: int) -> tuple[float, bool]:
    observation, reward, is_last = self._game.play(action)
    if self._actions is not None:
      self._actions[self._num_steps] = action
    self._num_steps += 1
    if not is_last:
      observation = jax.tree.map(np.array, observation)
      self._observation = frame_stacks.add(
        self._observation, observation, self._frame_stack
      )
    return reward, is_last

  def _timestep(
    self, step_type: dm_env.StepType, reward: float
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    return base.UnusedEnvState(), types.EnvironmentTimestep(
      observation=self._observation,
      step_type=np.asarray(step_type, np.int32),
      reward=np.asarray(reward, np.float32),
    )
