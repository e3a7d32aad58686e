"""Atari games in threads of the emulator, which cannot be saved."""

from typing import Any

from ale_py import vector_env
import chex
import dm_env
from ml_collections import config_dict
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments.adapters import atari_stream


class AtariThreads(base.Environment):
  """B streams of one game; observations are uint8, [size, size, frames]."""

  def __init__(
    self,
    game: str,
    batch_size: int,
    seed: int,
    settings: config_dict.ConfigDict,
  ):
    """Starts the emulators.

    Args:
      game: name of the game's file.
      batch_size: B.
      seed: seed of the first stream; those of the others follow it.
      settings: see `atari_env.get_config`.
    """
    super().__init__(batch_size)
    self._env = vector_env.AtariVectorEnv(
      game,
      batch_size,
      num_threads=settings.num_threads,
      max_num_frames_per_episode=settings.max_frames,
      repeat_action_probability=settings.sticky_actions,
      full_action_space=settings.full_action_space,
      # The last step of an episode returns the next one's first observation.
      autoreset_mode=vector_env.AutoresetMode.SAME_STEP,
      img_height=settings.size,
      img_width=settings.size,
      stack_num=settings.frame_stack,
      frameskip=settings.frame_skip,
      noop_max=settings.max_noops,
      # Not `episodic_life`, which restarts the game after every lost life.
      life_loss_info=settings.life_is_episode,
      reward_clipping=settings.clip_rewards,
      use_fire_reset=settings.fire_on_reset,
    )
    self._seed: int | None = seed
    self._shape = (settings.size, settings.size, settings.frame_stack)
    space: Any = self._env.single_action_space
    self._num_actions = int(space.n)
    # The emulator's action of each action; None if they are the same.
    self._actions: np.ndarray | None = None
    most = atari_stream.NUM_ACTIONS
    if settings.full_action_space and self._num_actions < most:
      self._num_actions = most
      self._actions = atari_stream.WITHOUT_BUTTON

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the spec of an image, uint8 [size, size, frames], newest last."""
    return types.ArraySpec(self._shape, np.dtype(np.uint8))

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1."""
    return types.ActionSpec((), np.int32, 0, self._num_actions - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey | None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode in every stream.

    `rng_key` is not used: the seed comes from the settings.
    """
    del rng_key
    observations: Any
    observations, _ = self._env.reset(seed=self._seed)
    self._seed = None
    rewards = np.zeros(self.batch_size, np.float32)
    first = np.full(self.batch_size, dm_env.StepType.FIRST, np.int32)
    return base.UnusedEnvState(), _timestep(observations, rewards, first)

  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Advances every stream by its action of `actions` [B]."""
    del states
    actions = base.check_actions(actions, self.batch_size)
    if self._actions is not None:
      actions = self._actions[actions]
    observations, rewards, terminated, truncated, _ = self._env.step(
      actions.astype(np.int64)
    )
    step_type = np.asarray(types.mid_or_last(terminated | truncated))
    return base.UnusedEnvState(), _timestep(observations, rewards, step_type)

  def close(self) -> None:
    """Closes the emulators."""
    self._env.close()


def _timestep(
  observations: np.ndarray, rewards: np.ndarray, step_type: np.ndarray
) -> types.EnvironmentTimestep:
  return types.EnvironmentTimestep(
    # [B, frames, size, size] to [B, size, size, frames]; a copy, since the
    # emulator may reuse its memory.
    observation=np.array(np.moveaxis(observations, 1, -1), order='C'),
    step_type=step_type.astype(np.int32),
    reward=rewards.astype(np.float32),
  )
