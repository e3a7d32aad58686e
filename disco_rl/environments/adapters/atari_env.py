"""Adapts Atari games, `atari:<Game>`, with the standard preprocessing.

```python
env = registry.get_environment('atari:Pong', batch_size=8)
```

By default, observations are greyscale 84 x 84 images of the last four frames,
every action is repeated for four frames, actions are sticky, and episodes start
with random no-ops (https://arxiv.org/abs/1709.06009). The emulators run in this
process or in workers, and their state can be saved; or, with `num_threads`, in
the emulator's own threads, without. The timesteps are the same.
"""

from collections.abc import Sequence
import functools
from typing import Any

import ale_py
from ale_py import roms
from ml_collections import config_dict

from disco_rl import fields
from disco_rl import memory
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import streams
from disco_rl.environments.adapters import atari_stream
from disco_rl.environments.adapters import atari_threads
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import worker_env


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all games."""
  del name
  return worker_env.get_config(
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
    # Of the emulator, instead of worker processes. With threads, runs are not
    # resumed bit-exact.
    num_threads=0,
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(
    worker_env.FIELDS,
    size=fields.Field(int, low=1, limit=1024),
    frame_stack=fields.FRAME_STACK,
    frame_skip=fields.Field(int, low=1, limit=1000),
    sticky_actions=fields.Field(float, low=0, high=1),
    max_noops=fields.Field(int, low=0, limit=10_000),
    max_frames=fields.Field(int, low=1, limit=fields.MAX_COUNT),
    num_threads=fields.Field(int, low=0, limit=1024),
  )


def known_names() -> list[str]:
  """Lists the games, each as `SpaceInvaders`."""
  return sorted(rom.title().replace('_', '') for rom in _games().values())


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
  base.check_batch_size(batch_size)
  game = utils.lookup(_games(), _plain(name), 'Atari game')
  pixels = batch_size * settings.size**2 * settings.frame_stack
  memory.check({'images': 2 * pixels}, {'images': 'size or frame_stack'})
  # Emulators take seeds of 31 bits.
  share = streams.own(batch_size)
  seed = int(settings.random_seed) * share.total + share.first
  seed %= fields.MAX_SEED
  if settings.num_threads:
    if settings.num_workers:
      raise ValueError(
        f'atari:{name}: num_threads={settings.num_threads} and num_workers='
        f'{settings.num_workers} exclude each other: set one of them'
      )
    return atari_threads.AtariThreads(game, batch_size, seed, settings)
  make = functools.partial(make_streams, game, settings.to_dict())
  seeds = [(seed + i) % 2**31 for i in range(batch_size)]
  return worker_env.make(make, batch_size, settings, f'atari:{name}', seeds)


def make_streams(
  game: str, settings: dict[str, Any], seeds: Sequence[int]
) -> batched_env.StreamBatch:
  """Makes one stream per seed, in this process; see `build`.

  Args:
    game: name of the game's file.
    settings: see `get_config`.
    seeds: the seeds.

  Returns:
    The streams.
  """
  rom = roms.get_rom_path(game)
  config = config_dict.ConfigDict(settings)
  return batched_env.StreamBatch(
    [atari_stream.AtariStream(rom, seed, config) for seed in seeds]
  )


def _games() -> dict[str, str]:
  """Returns the name of each game's file, by its plain name."""
  paths = {rom: roms.get_rom_path(rom) for rom in roms.get_all_rom_ids()}
  return {
    _plain(rom): rom
    for rom, path in paths.items()
    # Four games are for two players only; the emulator would end the process.
    if path is not None and ale_py.ALEInterface.isSupportedROM(path)
  }


def _plain(name: str) -> Any:
  """Normalises the spelling of a game's name."""
  return name.replace('_', '').replace('-', '').lower()
