"""Adapts ProcGen, `procgen:<game>`, the 16 games of the benchmark.

```python
env = registry.get_environment('procgen:coinrun', batch_size=8)
```

Observations are colour images, uint8 [64, 64, 3 * frame_stack], and all games
have 15 actions (https://arxiv.org/abs/1912.01588). The games run in threads of
envpool; or of procgen_gym (Python 3.13), whose state can be saved.
"""

import importlib.util
from typing import Any

import chex
import dm_env
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import installation
from disco_rl import memory
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import streams
from disco_rl.environments.adapters import old_gym
from disco_rl.environments.adapters import procgen_state
from disco_rl.environments.wrappers import frame_stacks

GAMES = (
  *('bigfish', 'bossfight', 'caveflyer', 'chaser', 'climber', 'coinrun'),
  *('dodgeball', 'fruitbot', 'heist', 'jumper', 'leaper', 'maze', 'miner'),
  *('ninja', 'plunder', 'starpilot'),
)
_NUM_ACTIONS = 15
_SHAPE = (64, 64, 3)
# The games that have modes besides easy and hard.
_MODES = {
  'extreme': ('chaser', 'dodgeball', 'leaper', 'starpilot'),
  'memory': ('caveflyer', 'dodgeball', 'heist', 'jumper', 'maze', 'miner'),
}
_BACKENDS = ('envpool', 'procgen_gym')


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all games."""
  del name
  return config_dict.ConfigDict(
    dict(
      random_seed=0,
      distribution_mode='hard',
      num_levels=0,  # Levels that are played; 0 for all.
      start_level=0,  # Seed of the first level.
      frame_stack=1,
      num_threads=0,  # 0: as many as there are cores.
      backend='envpool',  # With procgen_gym, runs are resumed bit-exact.
    )
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  modes = [mode for mode, games in _MODES.items() if name in games]
  return dict(
    random_seed=fields.SEED,
    distribution_mode=fields.Field(str, choices=('easy', 'hard', *modes)),
    num_levels=fields.Field(int, low=0, high=fields.MAX_SEED),
    start_level=fields.Field(int, low=0, high=fields.MAX_SEED),
    frame_stack=fields.FRAME_STACK,
    num_threads=fields.Field(int, low=0, limit=1024),
    backend=fields.Field(str, choices=_BACKENDS),
  )


def known_names() -> list[str]:
  """Lists the games."""
  return list(GAMES)


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of a game.

  Args:
    name: name of the game.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  utils.lookup({game: game for game in GAMES}, name, 'ProcGen game')
  base.check_batch_size(batch_size)
  size = 2 * batch_size * settings.frame_stack * int(np.prod(_SHAPE))
  memory.check({'images': size}, {'images': 'frame_stack'})
  share = streams.own(batch_size)
  seed = int(settings.random_seed) * share.total + share.first
  seed %= fields.MAX_SEED - batch_size
  games: Any
  if settings.backend == 'procgen_gym':
    if importlib.util.find_spec('procgen_gym') is None:
      raise ValueError(
        f'procgen:{name} with backend=procgen_gym needs the package '
        'procgen_gym (for Python 3.13 and newer), which is not installed: '
        f'{installation.install_hint("procgen-states")}'
      )
    games = procgen_state.ProcgenGames(name, batch_size, seed, settings)
  else:
    games = _EnvpoolGames(name, batch_size, seed, settings)
  return ProcgenEnvironment(games, batch_size, settings.frame_stack)


class ProcgenEnvironment(base.Environment):
  """B streams of one game, with stacked frames."""

  def __init__(self, games: Any, batch_size: int, frame_stack: int):
    """Wraps the games.

    Args:
      games: with the methods of `procgen_state.ProcgenGames`.
      batch_size: B.
      frame_stack: number of frames that are stacked.
    """
    super().__init__(batch_size)
    self._games = games
    self._frame_stack = frame_stack
    self._observations = np.zeros(0, np.uint8)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the spec of an image, uint8 [64, 64, 3 * frames]."""
    spec = types.ArraySpec(_SHAPE, np.dtype(np.uint8))
    return frame_stacks.stack_specs(spec, self._frame_stack)

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..14."""
    return types.ActionSpec((), np.int32, 0, _NUM_ACTIONS - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey | None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode in every stream; seeded by the settings."""
    del rng_key
    images = self._games.reset()
    self._observations = frame_stacks.first(images, self._frame_stack)
    first = np.full(self.batch_size, dm_env.StepType.FIRST, np.int32)
    rewards = np.zeros(self.batch_size, np.float32)
    return base.UnusedEnvState(), self._timestep(first, rewards)

  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Advances every stream by its action of `actions` [B]."""
    del states
    actions = base.check_actions(actions, self.batch_size).astype(np.int32)
    images, rewards, is_last = self._games.step(actions)
    stacks = frame_stacks.add(self._observations, images, self._frame_stack)
    if is_last.any() and self._frame_stack > 1:
      stacks[is_last] = frame_stacks.first(images[is_last], self._frame_stack)
    self._observations = stacks
    step_type = np.asarray(types.mid_or_last(is_last))
    return base.UnusedEnvState(), self._timestep(step_type, rewards)

  def snapshot(self) -> Any:
    """Returns the state of the games and the frames; None with envpool."""
    games = self._games.snapshot()
    if games is None:
      return None
    return dict(games=games, observations=self._observations.copy())

  def restore(self, snapshot: Any) -> base.UnusedEnvState:
    """Restores a snapshot."""
    self._games.restore(snapshot['games'])
    self._observations = np.array(snapshot['observations'], np.uint8)
    return base.UnusedEnvState()

  def close(self) -> None:
    """Ends the games."""
    self._games.close()

  def _timestep(
    self, step_type: np.ndarray, rewards: np.ndarray
  ) -> types.EnvironmentTimestep:
    return types.EnvironmentTimestep(
      observation=self._observations,
      step_type=step_type.astype(np.int32),
      reward=rewards.astype(np.float32),
    )


class _EnvpoolGames:
  """B games in threads of envpool, whose state cannot be saved."""

  def __init__(
    self,
    name: str,
    batch_size: int,
    seed: int,
    settings: config_dict.ConfigDict,
  ):
    envpool = old_gym.import_quietly('envpool')
    mode = settings.distribution_mode.capitalize()
    self._env: Any = envpool.make(
      f'{name.capitalize()}{mode}-v0',
      'gymnasium',
      num_envs=batch_size,
      seed=seed,  # Of the first game; those of the others follow it.
      num_threads=settings.num_threads,
      num_levels=settings.num_levels,
      start_level=settings.start_level,
      channel_first=False,
    )

  def reset(self) -> np.ndarray:
    """Starts an episode in every game; returns images [B, 64, 64, 3]."""
    return self._env.reset()[0].copy()

  def step(
    self, actions: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes actions [B]; returns images, rewards, which episodes ended.

    The image after the end of an episode is the first one of the next.
    """
    images, rewards, terminated, truncated, _ = self._env.step(actions)
    is_last = terminated | truncated
    images = images.copy()
    if is_last.any():  # Otherwise the next step would be without an action.
      ended = np.flatnonzero(is_last).astype(np.int32)
      first, info = self._env.reset(ended)
      images[info['env_id']] = first
    return images, rewards, is_last

  def snapshot(self) -> None:
    """Returns None: there is no interface to the state."""

  def restore(self, snapshot: Any) -> None:
    """Raises a `NotImplementedError`: there are no snapshots."""
    raise NotImplementedError('envpool cannot make snapshots')

  def close(self) -> None:
    """Ends the threads."""
    self._env.close()
