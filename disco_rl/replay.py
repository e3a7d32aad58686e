"""A first-in-first-out store of trajectories, on the device.

  buffer = replay.init(rollout, capacity=1024)
  buffer = replay.add(buffer, rollout)
  batch = replay.sample(buffer, rng, batch_size=64)

All three are pure and can be compiled; with the buffer donated, adding changes
it in place.
"""

import os
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils


class ReplayState(NamedTuple):
  """The stored trajectories."""

  data: types.ActorRollout  # Leaves [capacity, T+1, ...]: one row each.
  num_added: jax.Array  # [], int32, all trajectories ever added.


def init(rollout: types.ActorRollout, capacity: int) -> ReplayState:
  """An empty buffer for trajectories like those of `rollout`.

  Args:
    rollout: leaves [T+1, B, ...], arrays or specs.
    capacity: how many trajectories to keep; a multiple of B, so that a batch
      of them is written in one piece.

  Returns:
    The buffer.
  """
  batch_size = rollout.rewards.shape[1]
  if capacity < batch_size or capacity % batch_size:
    raise ValueError(
      f'the replay capacity must be a multiple of the {batch_size} '
      f'trajectories of a rollout, got {capacity}'
    )
  specs = jax.tree.map(
    lambda x: types.ArraySpec((capacity, x.shape[0], *x.shape[2:]), x.dtype),
    rollout,
  )
  return ReplayState(
    data=utils.zeros_like_spec(specs),
    num_added=jnp.zeros([], jnp.int32),
  )


def split_batch(batch_size: int, replay_fraction: float) -> tuple[int, int]:
  """How much of a batch is new, and how much is replayed.

  Args:
    batch_size: trajectories in all.
    replay_fraction: how much of it is to be replayed, in [0, 1).

  Returns:
    The numbers of fresh trajectories, at least 1, and of replayed ones.
  """
  if not 0 <= replay_fraction < 1:
    raise ValueError(
      f'replay_fraction must be in [0, 1), got {replay_fraction}'
    )
  fresh = max(1, round(batch_size * (1 - replay_fraction)))
  return fresh, batch_size - fresh


def keep_first_state(rollout: types.ActorRollout) -> types.ActorRollout:
  """Drops the network's states but for the first, before which nothing was.

  A learner unrolls the network again from there, so that a buffer need not
  keep the others.

  Args:
    rollout: leaves [T+1, B, ...].

  Returns:
    The same with `states` of leaves [1, B, ...].
  """
  return rollout.replace(states=jax.tree.map(lambda x: x[:1], rollout.states))


def add(buffer: ReplayState, rollout: types.ActorRollout) -> ReplayState:
  """Stores B trajectories, over the oldest ones if the buffer is full.

  Args:
    buffer: the buffer.
    rollout: leaves [T+1, B, ...].

  Returns:
    The new buffer.
  """
  batch_size = rollout.rewards.shape[1]
  start = buffer.num_added % buffer.data.rewards.shape[0]
  data = jax.tree.map(
    lambda stored, new: jax.lax.dynamic_update_slice_in_dim(
      stored, jnp.swapaxes(new, 0, 1).astype(stored.dtype), start, axis=0
    ),
    buffer.data,
    rollout,
  )
  return ReplayState(data=data, num_added=buffer.num_added + batch_size)


def size(buffer: ReplayState) -> jax.Array:
  """How many trajectories can be sampled, [], int32."""
  return jnp.minimum(buffer.num_added, buffer.data.rewards.shape[0])


def sample(
  buffer: ReplayState, rng: chex.PRNGKey, batch_size: int
) -> types.ActorRollout:
  """Draws trajectories uniformly, with replacement.

  Args:
    buffer: a buffer that is not empty.
    rng: consumed whole.
    batch_size: B', how many to draw.

  Returns:
    A rollout with leaves [T+1, B', ...].
  """
  rows = jax.random.randint(rng, (batch_size,), 0, size(buffer))
  return jax.tree.map(
    lambda x: jnp.swapaxes(jnp.take(x, rows, axis=0), 0, 1), buffer.data
  )


def check_fits(buffers: Any) -> None:
  """Refuses what is larger than the memory of this machine.

  Accelerators tell by themselves; a host would swap, or kill the process much
  later.

  Args:
    buffers: the buffers of all agents, a tree of arrays or specs.
  """
  if jax.default_backend() != 'cpu' or not hasattr(os, 'sysconf'):
    return
  needed = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(buffers))
  available = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  if needed > available:
    raise ValueError(
      f'the replay needs {needed / 1e9:.1f} GB, but this machine has '
      f'{available / 1e9:.1f} GB: make replay_capacity smaller, or train fewer '
      'agents at once'
    )
