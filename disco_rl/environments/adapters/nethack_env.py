"""Adapts the NetHack Learning Environment, `nethack:<Task>`.

```python
env = registry.get_environment('nethack:Score', batch_size=8)
```

By default, observations are the map as numbers of glyphs, the statistics of the
bottom line and the message (https://arxiv.org/abs/2006.13760).
"""

from collections.abc import Sequence
import functools
import importlib
from typing import Any

import gymnasium
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import replayed_stream
from disco_rl.environments.wrappers import worker_env

_PREFIX, _SUFFIX = 'NetHack', '-v0'


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings of a task."""
  # The challenge has episodes of up to a million steps.
  steps = 1_000_000 if 'challenge' in name.lower() else 5000
  return worker_env.get_config(
    observation_keys=('glyphs', 'blstats', 'message'),
    frame_stack=1,
    max_episode_steps=steps,
    kwargs=dict(),  # Further keyword arguments of the task.
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(
    worker_env.FIELDS,
    observation_keys=fields.Field(
      tuple, items=fields.Field(str, choices=_observation_keys)
    ),
    frame_stack=fields.FRAME_STACK,
    max_episode_steps=fields.Field(int, low=1, limit=10**7),
  )


def known_names() -> list[str]:
  """Lists the tasks; the plain game, whose id is `NetHack-v0`, is `NetHack`."""
  return list(_tasks())


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of a task.

  Args:
    name: e.g. `Score`, or its id in Gymnasium's registry, `NetHackScore-v0`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  task = name.removeprefix(_PREFIX).removesuffix(_SUFFIX) or _PREFIX
  env_id = utils.lookup(_tasks(), task, 'NetHack task')
  if not settings.observation_keys:
    raise ValueError(f'nethack:{name}: observation_keys is empty')
  make = functools.partial(make_streams, env_id, settings.to_dict())
  return worker_env.make(make, batch_size, settings, f'nethack:{name}')


def make_streams(
  env_id: str, settings: dict[str, Any], seeds: Sequence[int]
) -> base.Environment:
  """Makes one stream per seed, in this process; see `build`."""
  _tasks()  # Registers the ids, in workers, too.
  streams = []
  for seed in seeds:
    env = gymnasium.make(
      env_id,
      disable_env_checker=True,
      render_mode='ansi',  # Otherwise it may print.
      observation_keys=tuple(settings['observation_keys']),
      max_episode_steps=None,  # Of Gymnasium, which would count again.
      # Games must not depend on the day on which they are played.
      **{'fix_moon_phase': True, **settings['kwargs']},
    ).unwrapped
    streams.append(_stream(env, seed, settings))
  return batched_env.StreamBatch(streams)


def _stream(
  env: Any, seed: int, settings: dict[str, Any]
) -> replayed_stream.ReplayedStream:
  most_steps = settings['max_episode_steps']
  env._max_episode_steps = most_steps
  game = _NetHack(env, seed)
  specs = {
    key: types.ArraySpec(
      tuple(space.shape),
      np.dtype(np.int32) if space.dtype == np.int64 else space.dtype,
    )
    for key, space in env.observation_space.items()
  }
  return replayed_stream.ReplayedStream(
    game,
    specs,
    int(env.action_space.n),
    settings['frame_stack'],
    most_steps if game.is_repeatable else None,
  )


class _NetHack:
  """One game; its episodes depend only on number and actions.

  Attributes:
    is_repeatable: False for the challenge, which forbids seeds.
  """

  def __init__(self, env: Any, seed: int):
    self._env = env
    self._seed = seed
    self.is_repeatable = True
    try:
      env.seed(0, 0, reseed=False)
    except RuntimeError:
      self.is_repeatable = False

  def start(self, episode: int) -> Any:
    """Starts an episode with seeds of its own."""
    if self.is_repeatable:
      sequence = np.random.SeedSequence([self._seed, episode])
      core, display = (int(x) for x in sequence.generate_state(2))
      self._env.seed(core, display, reseed=False)
    return _narrow(self._env.reset()[0])

  def play(self, action: int) -> tuple[Any, float, bool]:
    """Takes an action."""
    observation, reward, terminated, truncated, _ = self._env.step(action)
    return _narrow(observation), float(reward), bool(terminated or truncated)

  def close(self) -> None:
    """Ends the game."""
    self._env.close()


def _narrow(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Converts integers of 64 bits to 32, cut off at their range."""
  limits = np.iinfo(np.int32)
  return {
    key: np.clip(x, limits.min, limits.max).astype(np.int32)
    if x.dtype == np.int64
    else x
    for key, x in observation.items()
  }


def _observation_keys() -> list[str]:
  base_module = importlib.import_module('nle.env.base')
  return [key for key, _ in base_module.NLE_SPACE_ITEMS]


def _tasks() -> dict[str, str]:
  """Returns the ids of the tasks by their short names."""
  importlib.import_module('nle.env')  # Registers them.
  ids = [i for i in gymnasium.registry if _is_task(i)]
  return {
    i.removeprefix(_PREFIX).removesuffix(_SUFFIX) or _PREFIX: i for i in ids
  }


def _is_task(env_id: str) -> bool:
  return env_id.startswith(_PREFIX) and env_id.endswith(_SUFFIX)
