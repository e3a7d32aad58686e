"""Adapts Crafter, `crafter:reward` and `crafter:no_reward`.

```python
env = registry.get_environment('crafter:reward', batch_size=8, num_workers=2)
```

To make a world takes a second, as long as hundreds of steps, and does not
depend on the game before. Therefore every process makes the next world of its
streams while it waits for actions (https://arxiv.org/abs/2109.06780).
"""

import collections
from collections.abc import Iterator, Sequence
from concurrent import futures
import functools
from typing import Any

from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.adapters import old_gym
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import replayed_stream
from disco_rl.environments.wrappers import worker_env

# Whether rewards are given, by the name of the environment.
_NAMES = {'reward': True, 'no_reward': False}


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for both environments."""
  del name
  return worker_env.get_config(
    frame_stack=1,
    size=64,  # Height and width of the images, in pixels.
    area=64,  # Height and width of the world.
    length=10_000,  # Most steps of an episode.
    prepare_worlds=True,  # Whether the next world is made in advance.
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(
    worker_env.FIELDS,
    frame_stack=fields.FRAME_STACK,
    size=fields.Field(int, low=9, limit=1024),
    area=fields.Field(int, low=9, limit=1024),
    length=fields.Field(int, low=1, limit=10**6),
  )


def known_names() -> list[str]:
  """Lists the environments."""
  return list(_NAMES)


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams.

  Args:
    name: `reward`, or `no_reward` for rewards of 0.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  utils.lookup(_NAMES, name, 'Crafter environment')
  make = functools.partial(make_streams, name, settings.to_dict())
  return worker_env.make(make, batch_size, settings, f'crafter:{name}')


def make_streams(
  name: str, settings: dict[str, Any], seeds: Sequence[int]
) -> base.Environment:
  """Makes one stream per seed, in this process; see `build`."""
  executor = None
  if settings['prepare_worlds']:
    executor = futures.ThreadPoolExecutor(1)
  streams = []
  for seed in seeds:
    game = _Crafter(
      executor,
      seed=seed,
      reward=_NAMES[name],
      size=(settings['size'],) * 2,
      area=(settings['area'],) * 2,
      length=settings['length'],
    )
    stream = replayed_stream.ReplayedStream(
      game,
      types.ArraySpec((*(settings['size'],) * 2, 3), np.dtype(np.uint8)),
      game.num_actions,
      settings['frame_stack'],
      settings['length'],
    )
    streams.append(stream)
  return batched_env.StreamBatch(streams)


class _Crafter:
  """One game of Crafter; its episodes depend only on number and actions."""

  def __init__(self, executor: futures.Executor | None, **kwargs: Any):
    self._executor = executor
    crafter = old_gym.import_quietly('crafter')
    self._make = functools.partial(crafter.Env, **kwargs)
    self._env = self._new()
    self.num_actions = int(self._env.action_space.n)
    self._spare = self._new() if executor else None
    self._prepared: tuple[int, futures.Future[Any]] | None = None

  def start(self, episode: int) -> Any:
    """Starts an episode, in a world that may have been made before."""
    prepared, self._prepared = self._prepared, None
    first = None
    if prepared is not None:
      result = prepared[1].result()  # Also if it is not used.
      if prepared[0] == episode:
        self._env, self._spare = self._spare, self._env
        first = result
    if first is None:
      first = _reset(self._env, episode)
    if self._executor is not None:
      future = self._executor.submit(_reset, self._spare, episode + 1)
      self._prepared = episode + 1, future
    return first

  def play(self, action: int) -> tuple[Any, float, bool]:
    """Takes an action."""
    observation, reward, is_last, _ = self._env.step(action)
    return observation, float(reward), bool(is_last)

  def close(self) -> None:
    """Ends the thread."""
    if self._executor is not None:
      self._executor.shutdown(wait=False, cancel_futures=True)

  def _new(self) -> Any:
    env = self._make()
    # The package stores objects of a region in a set, in the order of their
    # addresses, on which random choices depend: games would not be repeatable.
    world, reset = env._world, env._world.reset

    def reset_in_order(seed: int | None = None) -> None:
      reset(seed)
      world._chunks = collections.defaultdict(_OrderedSet)

    world.reset = reset_in_order
    return env


def _reset(env: Any, episode: int) -> Any:
  env._episode = episode  # The package draws worlds from seed and episode.
  return env.reset()


class _OrderedSet:
  """A set in the order in which its items were added."""

  def __init__(self) -> None:
    self._items: dict[Any, None] = {}

  def add(self, item: Any) -> None:
    """Adds an item."""
    self._items[item] = None

  def remove(self, item: Any) -> None:
    """Removes an item."""
    del self._items[item]

  def __iter__(self) -> Iterator[Any]:
    return iter(self._items)

  def __len__(self) -> int:
    return len(self._items)
