"""Shards work over a grid of devices.

Work consists of independent lanes (agents, or seeds of one agent), each with a
batch of environments. The devices form a grid:

```text
           batch shards
        ┌───────┬───────┐
  lane  │ dev 0 │ dev 1 │   Lanes are sharded over the rows, and each lane's
shards  ├───────┼───────┤   batch over the columns. Gradients and statistics
        │ dev 2 │ dev 3 │   of a lane are averaged along its row.
        └───────┴───────┘
```

On one device nothing is sharded, and no collective operations are compiled.
With one column, lanes need none either, and compute what they do on one device.

The devices may belong to several processes, which run the same program. Each
sees whole arrays, but can only read and make its own part of them.

On CPU, small lanes are faster sharded over one simulated device per core than
one after the other with all cores: their operations are too short to be divided
among threads.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import compat
from disco_rl import device_choice
from disco_rl import types
from disco_rl.processes import arrays
from disco_rl.processes import group as group_lib
from disco_rl.processes import runtime

_LANES, _BATCH = 'lanes', 'batch'

# How the axes of an array are sharded.
Spec = jax.sharding.PartitionSpec
REPLICATED = Spec()
BY_LANE = Spec(_LANES)  # [lanes, ...]
BY_BATCH = Spec(_LANES, _BATCH)  # [lanes, B, ...]
ROLLOUT = Spec(None, _BATCH)  # [T+1, B, ...], of one lane.
ROLLOUTS = Spec(_LANES, None, _BATCH)  # [lanes, T+1, B, ...].


class Part(NamedTuple):
  """What one of several processes has of lanes and their batches."""

  lanes: range
  streams: range  # The same of each of its lanes.


class Placement:
  """Compiles functions for a grid of devices, and maps them over lanes.

  Attributes:
    devices: the devices, row by row.
    num_lane_shards: rows of the grid.
    num_batch_shards: columns of the grid.
    batch_axis: name of the axis over which a lane's batch is sharded, for
      `Agent`; None with one column.
    num_processes: number of processes to which the devices belong.
    process_id: number of this process among them, from 0.
  """

  def __init__(
    self,
    devices: Sequence[jax.Device] | None = None,
    *,
    num_lane_shards: int = 1,
    lanes_at_once: int | None = None,
  ):
    """Arranges the devices.

    Args:
      devices: the devices; by default the first one of this process.
      num_lane_shards: rows of the grid; must divide the number of devices.
      lanes_at_once: how many lanes of a device are vmapped; groups of that size
        run sequentially, within the same program. 1 needs the least memory.
        None for the fastest: 1 on CPU, all lanes elsewhere.
    """
    if devices is None:
      devices = jax.local_devices()[:1]
    device_choice.check_devices(devices)
    if num_lane_shards < 1 or len(devices) % num_lane_shards:
      raise ValueError(
        f'lane_shards must divide the number of devices: {len(devices)} '
        f'devices cannot form {num_lane_shards} equal rows'
      )
    if lanes_at_once is not None and lanes_at_once < 1:
      raise ValueError(
        f'lanes_at_once must be at least 1 or None, got {lanes_at_once}'
      )
    self.devices = tuple(devices)
    self.num_lane_shards = num_lane_shards
    self.num_batch_shards = len(self.devices) // num_lane_shards
    if lanes_at_once is None and self.devices[0].platform == 'cpu':
      lanes_at_once = 1
    self._lanes_at_once = lanes_at_once
    self._is_sharded = len(self.devices) > 1
    self.batch_axis = _BATCH if self.num_batch_shards > 1 else None
    grid = np.asarray(self.devices).reshape(num_lane_shards, -1)
    self._mesh = jax.sharding.Mesh(grid, (_LANES, _BATCH))
    owners = sorted({device.process_index for device in self.devices})
    self.num_processes = len(owners)
    self.process_id = owners.index(jax.process_index())
    self._group: group_lib.Group | None = None
    if self.num_processes > 1:
      self._group = runtime.current()
      self._replicate = jax.jit(
        lambda tree: tree,
        out_shardings=jax.sharding.NamedSharding(self._mesh, REPLICATED),
      )

  def compile(
    self,
    function: Callable[..., Any],
    in_specs: Sequence[Any],
    out_specs: Any,
    *,
    donate: Sequence[int] = (),
    num_static: int = 0,
  ) -> Any:
    """Compiles a function for all devices.

    Args:
      function: takes one shard of each argument; it must average over
        `batch_axis` itself.
      in_specs: for each array argument, a tree of `Spec`s that is a prefix of
        the argument.
      out_specs: the same for the result.
      donate: indices of arguments that are donated.
      num_static: how many of the last arguments are static.

    Returns:
      A `jax.jit` function of whole arrays.
    """

    def call(*args: Any) -> Any:
      arrays, static = args[: len(in_specs)], args[len(in_specs) :]
      bound = lambda *shards: function(*shards, *static)
      if self._is_sharded:
        bound = compat.shard_map(bound, self._mesh, tuple(in_specs), out_specs)
      return bound(*arrays)

    static_argnums = tuple(len(in_specs) + i for i in range(num_static))
    return jax.jit(
      call, static_argnums=static_argnums, donate_argnums=tuple(donate)
    )

  def map_lanes(self, function: Callable[..., Any], *args: Any) -> Any:
    """Maps a function over axis 0 of all its arguments, inside a program.

    Args:
      function: takes one lane of each argument.
      *args: trees of [lanes, ...].

    Returns:
      Its results, stacked.
    """
    num_lanes = jax.tree.leaves(args)[0].shape[0]
    at_once = self._lanes_at_once
    apply = lambda args: function(*args)
    if at_once == 1:
      return jax.lax.map(apply, args)
    if at_once is None or at_once >= num_lanes:
      return jax.vmap(function)(*args)
    return jax.lax.map(apply, args, batch_size=at_once)

  def own_lanes(self, tree: Any) -> Any:
    """Selects the lanes of this shard from all of them, inside a program.

    Args:
      tree: leaves [lanes, ...], the lanes of all shards.

    Returns:
      Leaves [lanes / num_lane_shards, ...].
    """
    if not self._is_sharded:
      return tree

    def own(x: jax.Array) -> jax.Array:
      size = x.shape[0] // self.num_lane_shards
      first = jax.lax.axis_index(_LANES) * size
      return jax.lax.dynamic_slice_in_dim(x, first, size)

    return jax.tree.map(own, tree)

  def sum_lane_shards(self, tree: Any) -> Any:
    """Sums a tree over lane shards, inside a program."""
    return jax.lax.psum(tree, _LANES) if self._is_sharded else tree

  def put(self, tree: Any, specs: Any) -> Any:
    """Puts arrays on the devices.

    Args:
      tree: arrays, on the host or on devices.
      specs: a tree of `Spec`s, a prefix of `tree`.

    Returns:
      The same arrays, sharded.
    """
    if not self._is_sharded:
      return jax.device_put(tree, self.devices[0])
    shardings = self._shardings(specs)
    if self.num_processes == 1:
      return jax.device_put(tree, shardings)
    return arrays.put_whole(tree, shardings)

  def put_own(self, tree: Any, specs: Any) -> Any:
    """Puts this process's part of arrays on its devices.

    Args:
      tree: its part of each array, on the host or on a device; all of it if the
        devices belong to one process.
      specs: a tree of `Spec`s, a prefix of `tree`.

    Returns:
      The whole arrays.
    """
    if self.num_processes == 1:
      return self.put(tree, specs)
    return arrays.put_parts(tree, self._shardings(specs))

  def own(self, tree: Any) -> Any:
    """Returns this process's copy of arrays that are the same on all devices.

    Args:
      tree: replicated arrays.

    Returns:
      The same arrays, on one device of this process if there are several.
    """
    if self.num_processes == 1:
      return tree
    return jax.tree.map(lambda x: x.addressable_data(0), tree)

  def with_shardings(self, tree: Any, specs: Any) -> Any:
    """Adds to specs of arrays where the arrays are placed.

    Args:
      tree: arrays or specs, with whole shapes.
      specs: a tree of `Spec`s, a prefix of `tree`.

    Returns:
      The specs of arrays over several processes; otherwise `tree`.
    """
    if self.num_processes == 1:
      return tree
    return arrays.add_shardings(tree, self._shardings(specs))

  def shards(self, tree: Any, specs: Any) -> Any:
    """Returns the specs of what each device has of arrays.

    Args:
      tree: arrays or specs, with whole shapes.
      specs: a tree of `Spec`s, a prefix of `tree`.

    Returns:
      Specs of a shard or copy, which have the same shapes on all devices.
    """
    return jax.tree.map(
      lambda sharding, part: jax.tree.map(
        lambda x: types.ArraySpec(sharding.shard_shape(x.shape), x.dtype), part
      ),
      self._shardings(specs),
      tree,
    )

  def check_same(self, what: str, tree: Any) -> None:
    """Raises a `ValueError` if specs of arrays differ between processes.

    Args:
      what: words for the arrays.
      tree: arrays or specs, with whole shapes.
    """
    if self._group is not None:
      self._group.check_same(arrays.describe(what, tree))

  def fetch(self, tree: Any) -> Any:
    """Copies arrays to the host; those of other processes, too."""
    if self.num_processes > 1:
      tree = self._replicate(tree)
    return jax.device_get(tree)

  def own_part(self, num_lanes: int, batch_size: int) -> Part | None:
    """Returns which lanes and streams are on devices of this process.

    Args:
      num_lanes: number of all lanes.
      batch_size: B, the size of the batch of each.

    Returns:
      Its part; None if the devices of some process are not a block of the grid,
      so that it has other streams of one lane than of another.
    """
    part = arrays.own_part(
      self._mesh.devices, jax.process_index(), (num_lanes, batch_size)
    )
    return None if part is None else Part(*part)

  def fetch_own(self, tree: Any) -> Any:
    """Copies the lanes on devices of this process to the host.

    No other process takes part.

    Args:
      tree: arrays [lanes, ...] on the devices, sharded as `BY_LANE`.

    Returns:
      Leaves [own lanes, ...], see `own_part`.
    """
    if self.num_processes == 1:
      return jax.device_get(tree)
    grid = self._mesh.local_mesh.devices
    return jax.tree.map(lambda x: arrays.own_rows(x, grid), tree)

  def lane(self, tree: Any, index: int) -> Any:
    """Copies one lane to one device of its row, outside of programs.

    No other device takes part, so that it need not wait for their programs.

    Args:
      tree: arrays [lanes, ...] on the devices, sharded as `BY_LANE`.
      index: index of the lane; one of `own_part`.

    Returns:
      Leaves [...].
    """
    if not self._is_sharded:
      return jax.tree.map(lambda x: x[index], tree)
    grid = self._mesh.devices
    return jax.tree.map(lambda x: arrays.take_row(x, grid, index), tree)

  def stack_rollouts(self, rollouts: Sequence[Any]) -> Any:
    """Stacks the rollouts of all lanes, each on a device of its row.

    Args:
      rollouts: one tree per lane, with leaves [T+1, B, ...]; of several
        processes, each gives its lanes and streams, see `own_part`.

    Returns:
      Leaves [lanes, T+1, B, ...], sharded as `ROLLOUTS`.
    """
    if not self._is_sharded:
      stacked = jax.tree.map(lambda *lanes: jnp.stack(lanes), *rollouts)
      return self.put(stacked, ROLLOUTS)
    sharding = jax.sharding.NamedSharding(self._mesh, ROLLOUTS)
    return jax.tree.map(
      lambda *lanes: arrays.stack_rows(lanes, sharding, axis=2), *rollouts
    )

  def _shardings(self, specs: Any) -> Any:
    """Returns the sharding of each spec."""
    return jax.tree.map(
      lambda spec: jax.sharding.NamedSharding(self._mesh, spec),
      specs,
      is_leaf=lambda x: isinstance(x, Spec),
    )


def shard_key(key: chex.PRNGKey, batch_axis: Any | None) -> chex.PRNGKey:
  """Returns a key that differs between the shards of a batch.

  Args:
    key: a key, the same on all shards.
    batch_axis: axis over which the batch is sharded, or None.

  Returns:
    The key with the shard's index folded in; the key itself without an axis.
  """
  if batch_axis is None:
    return key
  return jax.random.fold_in(key, jax.lax.axis_index(batch_axis))


def mean(tree: Any, axis: Any | None) -> Any:
  """Averages a tree over the shards of an axis; unchanged if that is None."""
  return tree if axis is None else jax.lax.pmean(tree, axis)


def total(tree: Any, axis: Any | None) -> Any:
  """Sums a tree over the shards of an axis; unchanged if that is None."""
  return tree if axis is None else jax.lax.psum(tree, axis)
