"""A first-in-first-out replay buffer of trajectories, on the device.

```python
fresh = replay.to_stored(rollout)
buffer = replay.init(fresh, capacity=1024)
buffer = replay.add(buffer, fresh)
batch = replay.next_batch(buffer, fresh, rng, batching)
```

All functions are pure and can be compiled; if the buffer is donated, `add`
changes it in place.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.config import batching as batching_lib


class ReplayState(NamedTuple):
  """The stored trajectories."""

  data: types.ActorRollout  # Leaves [capacity, T+1, ...]: one row each.
  num_added: jax.Array  # [], int32, all trajectories ever added.


def init(rollout: types.ActorRollout, capacity: int) -> ReplayState:
  """Makes an empty buffer for trajectories like those of `rollout`.

  Args:
    rollout: leaves [T+1, B, ...], arrays or specs.
    capacity: how many trajectories to keep; a multiple of B, so that B
      trajectories are written in one slice.

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


def init_for(
  spec: types.ActorRollout, batching: batching_lib.Batching
) -> ReplayState | None:
  """Makes the empty buffer that `next_batch` needs.

  Args:
    spec: specs of a rollout, leaves [T+1, B, ...].
    batching: the sizes.

  Returns:
    The buffer; None without replay.
  """
  if batching.on_policy:
    return None
  return init(jax.eval_shape(to_stored, spec), batching.replay_capacity)


def to_stored(rollout: types.ActorRollout) -> types.ActorRollout:
  """Drops the parts of a rollout that a learner does not need.

  These are the network's states after the first, since a learner unrolls the
  network again, and the second copy of the logits.

  Args:
    rollout: leaves [T+1, B, ...], with logits in its `agent_outs`.

  Returns:
    The rollout with `states` of leaves [1, B, ...] and `logits` None.
  """
  return rollout.replace(
    states=jax.tree.map(lambda x: x[:1], rollout.states), logits=None
  )


def from_stored(stored: types.ActorRollout) -> types.ActorRollout:
  """Undoes `to_stored`, but for the dropped states."""
  return stored.replace(logits=stored.agent_outs['logits'])


def next_batch(
  buffer: ReplayState | None,
  fresh: types.ActorRollout,
  rng: chex.PRNGKey,
  batching: batching_lib.Batching,
) -> types.ActorRollout:
  """Makes the next batch to learn from.

  Args:
    buffer: a buffer that contains `fresh` already; None without replay.
    fresh: the new rollout, from `to_stored`.
    rng: key to sample with; it is not split.
    batching: the sizes.

  Returns:
    A rollout with leaves [T+1, batch_size, ...], fresh trajectories first.
  """
  if buffer is None:
    return from_stored(fresh)
  batch = sample(buffer, rng, batching.num_replayed)
  if batching.fresh_in_batch:
    batch = jax.tree.map(lambda *xs: jnp.concatenate(xs, axis=1), fresh, batch)
  return from_stored(batch)


def add(buffer: ReplayState, rollout: types.ActorRollout) -> ReplayState:
  """Stores B trajectories, replacing the oldest if the buffer is full.

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
  """Returns how many trajectories can be sampled, [], int32."""
  return jnp.minimum(buffer.num_added, buffer.data.rewards.shape[0])


def sample(
  buffer: ReplayState, rng: chex.PRNGKey, batch_size: int
) -> types.ActorRollout:
  """Draws trajectories uniformly, with replacement.

  Args:
    buffer: a buffer that is not empty.
    rng: key to sample with; it is not split.
    batch_size: B', how many to draw.

  Returns:
    A rollout with leaves [T+1, B', ...].
  """
  rows = jax.random.randint(rng, (batch_size,), 0, size(buffer))
  return jax.tree.map(
    lambda x: jnp.swapaxes(jnp.take(x, rows, axis=0), 0, 1), buffer.data
  )
