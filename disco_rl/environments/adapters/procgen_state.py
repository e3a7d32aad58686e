"""ProcGen games in threads of procgen_gym, whose state can be saved."""

from typing import Any

from ml_collections import config_dict
import numpy as np

# The largest state of a game, in bytes; most have some tens of thousands.
_MAX_BYTES = 2**17


class ProcgenGames:
  """B games of one kind."""

  def __init__(
    self,
    name: str,
    batch_size: int,
    seed: int,
    settings: config_dict.ConfigDict,
  ):
    """Starts the games.

    Args:
      name: name of the game.
      batch_size: B.
      seed: seed of the first game; those of the others are drawn from it.
      settings: see `procgen_env.get_config`.
    """
    import procgen_gym  # Not installed where envpool is used.

    self._env: Any = procgen_gym.ProcgenVecEnv(
      num_envs=batch_size,
      env_name=name,
      rand_seed=seed,
      distribution_mode=settings.distribution_mode,
      num_levels=settings.num_levels,
      start_level=settings.start_level,
      num_threads=settings.num_threads or 4,
    )

  def reset(self) -> np.ndarray:
    """Returns images [B, 64, 64, 3]; games begin when they are made."""
    return self._env.reset()[0].copy()

  def step(
    self, actions: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes actions [B]; returns images, rewards, which episodes ended.

    The image after the end of an episode is the first one of the next.
    """
    images, rewards, is_last, _, _ = self._env.step(actions)
    return images.copy(), rewards.copy(), is_last

  def snapshot(self) -> dict[str, np.ndarray]:
    """Returns the state of all games.

    Raises:
      ValueError: if a state is too large.
    """
    states = self._env.get_state()
    longest = max(map(len, states))
    if longest > _MAX_BYTES:
      raise ValueError(
        f'the state of a ProcGen game has {longest} bytes; at most '
        f'{_MAX_BYTES} are saved'
      )
    padded = np.zeros((len(states), _MAX_BYTES), np.uint8)
    for i, state in enumerate(states):
      padded[i, : len(state)] = np.frombuffer(state, np.uint8)
    lengths = np.asarray([len(state) for state in states], np.int64)
    return dict(states=padded, lengths=lengths)

  def restore(self, snapshot: dict[str, np.ndarray]) -> None:
    """Restores the state of all games."""
    lengths = [int(length) for length in snapshot['lengths']]
    self._env.set_state(
      [
        np.asarray(state, np.uint8)[:length].tobytes()
        for state, length in zip(snapshot['states'], lengths, strict=True)
      ]
    )

  def close(self) -> None:
    """Ends the threads."""
    self._env.close()
