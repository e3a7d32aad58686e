"""The streams of an environment that one of several processes steps.

Each process makes an environment of its own streams. They are seeded as the
same streams are if one process makes all of them.
"""

from collections.abc import Callable, Iterator
import contextlib
import contextvars
import dataclasses
from typing import Any

import chex
import distrax
import jax.numpy as jnp

from disco_rl import types

# Between the seeds of the processes, for environments without a seed by stream.
_SEEDS_OF_A_PROCESS = 1_000_003


@dataclasses.dataclass
class Share:
  """Some successive streams of an environment.

  Attributes:
    first: the first of them, from 0.
    size: how many they are.
    total: how many streams there are in all.
    was_used: whether the environment was made from its share.
  """

  first: int
  size: int
  total: int
  was_used: bool = False

  @classmethod
  def of_process(
    cls, total: int, process_id: int, num_processes: int
  ) -> 'Share':
    """Makes the share of a process.

    Args:
      total: number of streams in all, a multiple of the number of processes.
      process_id: number of the process.
      num_processes: number of processes.

    Returns:
      The share.
    """
    size = total // num_processes
    return cls(process_id * size, size, total)

  def select(self, of_streams: Any) -> Any:
    """Selects these streams.

    Args:
      of_streams: [total, ...].

    Returns:
      [size, ...].
    """
    return of_streams[self.first : self.first + self.size]

  def sample(self, rng: chex.PRNGKey, logits: types.Array) -> types.Array:
    """Samples the actions that one process with all streams samples here.

    Args:
      rng: key.
      logits: [size, A], of these streams.

    Returns:
      [size].
    """
    whole = jnp.zeros((self.total, *logits.shape[1:]), logits.dtype)
    whole = whole.at[self.first : self.first + self.size].set(logits)
    return self.select(distrax.Softmax(whole).sample(seed=rng))


_share: contextvars.ContextVar[Share | None] = contextvars.ContextVar(
  'disco_rl_share', default=None
)


def own(batch_size: int) -> Share:
  """Returns the share of the environment that is being made.

  To be called by what makes an environment from a seed, which has to seed the
  streams by their place among all.

  Args:
    batch_size: B, the number of streams to make.

  Returns:
    The share, of `size` B.
  """
  share = _share.get()
  if share is None or share.size != batch_size:
    return Share(0, batch_size, batch_size)
  share.was_used = True
  return share


def make(env_fn: Callable[[int, int], Any], seed: int, share: Share) -> Any:
  """Makes an environment of some streams.

  Args:
    env_fn: makes an environment from a batch size and a seed.
    seed: the seed of all streams.
    share: the streams.

  Returns:
    The environment. If it does not call `own`, its streams have other seeds
    than in one process.
  """
  with _making(share):
    env = env_fn(share.size, seed)
  if share.was_used or not share.first or env.is_jittable:
    return env
  env.close()
  process_id = share.first // share.size
  return env_fn(share.size, seed + _SEEDS_OF_A_PROCESS * process_id)


@contextlib.contextmanager
def _making(share: Share) -> Iterator[None]:
  token = _share.set(share)
  try:
    yield
  finally:
    _share.reset(token)
