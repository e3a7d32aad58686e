"""Adapts Atari games, `atari:<Game>`, with the standard preprocessing.

```python
env = registry.get_environment('atari:Pong', batch_size=8)
```

By default, observations are greyscale 84 x 84 images of the last four frames,
every action is repeated for four frames, actions are sticky, and episodes start
with random no-ops (https://arxiv.org/abs/1709.06009). The games run in threads
of the emulator.
"""

from typing import Any

from ale_py import roms
from ale_py import vector_env
import chex
import dm_env
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import memory
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import streams

# The 18 actions of the emulator in a game without a button (Skiing), which has
# nine: none and eight directions. Those with the button do what they do
# without.
_NUM_ACTIONS = 18
_WITHOUT_BUTTON = np.asarray([0, 0, *range(1, 9), *range(1, 9)])


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all games."""
  del name
  return config_dict.ConfigDict(
    dict(
      random_seed=0,
      size=84,  # Height and width of the images, in pixels.
      frame_stack=4,
      frame_skip=4,
      sticky_actions=0.25,  # Probability of repeating the last action.
      max_noops=30,  # At most, at the start of an episode.
      # Whether a lost life ends an episode; the game itself continues.
      life_is_episode=False,
      full_action_space=False,  # True for all 18, not only the game's own.
      clip_rewards=False,  # Whether rewards are replaced by their signs.
      fire_on_reset=False,
      max_frames=108_000,  # Per episode: half an hour of play.
      num_threads=0,  # 0: as many as there are cores.
    )
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(
    random_seed=fields.SEED,
    size=fields.Field(int, low=1, limit=1024),
    frame_stack=fields.FRAME_STACK,
    frame_skip=fields.Field(int, low=1, limit=1000),
    sticky_actions=fields.Field(float, low=0, high=1),
    max_noops=fields.Field(int, low=0, limit=10_000),
    max_frames=fields.Field(int, low=1, limit=fields.MAX_COUNT),
    num_threads=fields.Field(int, low=0, limit=1024),
  )


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of a game.

  Args:
    name: name of the game, e.g. `SpaceInvaders` or `space_invaders`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  return AtariEnvironment(name, batch_size, settings)


class AtariEnvironment(base.Environment):
  """B streams of one game; observations are uint8, [size, size, frames]."""

  def __init__(
    self, game: str, batch_size: int, settings: config_dict.ConfigDict
  ):
    """Starts the emulators.

    Args:
      game: name of the game, see `build`.
      batch_size: B.
      settings: see `get_config`.
    """
    super().__init__(batch_size)
    names = {_plain(rom): rom for rom in roms.get_all_rom_ids()}
    rom = utils.lookup(names, _plain(game), 'Atari game')
    # The emulator allocates all images at once.
    pixels = batch_size * settings.size**2 * settings.frame_stack
    memory.check({'images': 2 * pixels}, {'images': 'size or frame_stack'})
    self._env = vector_env.AtariVectorEnv(
      rom,
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
    # The emulator takes seeds of 31 bits.
    share = streams.own(batch_size)
    seed = int(settings.random_seed) * share.total + share.first
    self._seed: int | None = seed % fields.MAX_SEED
    self._shape = (settings.size, settings.size, settings.frame_stack)
    space: Any = self._env.single_action_space
    self._num_actions = int(space.n)
    # The emulator's action of each action; None if they are the same.
    self._actions: np.ndarray | None = None
    if settings.full_action_space and self._num_actions < _NUM_ACTIONS:
      self._num_actions, self._actions = _NUM_ACTIONS, _WITHOUT_BUTTON

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


def _plain(name: str) -> Any:
  """Normalises the spelling of a game's name."""
  return name.replace('_', '').replace('-', '').lower()
