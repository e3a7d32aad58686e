"""Shards work over a grid of devices.

Work consists of independent lanes (agents, or seeds of one agent), each with a
batch of environments. The devices form a grid:

              batch shards
           ┌───────┬───────┐
     lane  │ dev 0 │ dev 1 │   Lanes are sharded over the rows, and each lane's
   shards  ├───────┼───────┤   batch over the columns. Gradients and statistics
           │ dev 2 │ dev 3 │   of a lane are averaged along its row.
           └───────┴───────┘

On one device nothing is sharded, and no collective operations are compiled.
With one column, lanes need none either, and compute what they do on one device.

On CPU, small lanes are faster sharded over one simulated device per core than
one after the other with all cores: their operations are too short to be divided
among threads.
"""

from collections.abc import Callable, Sequence
import contextlib
import os
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import compat

_LANES, _BATCH = 'lanes', 'batch'

# How the axes of an array are sharded.
Spec = jax.sharding.PartitionSpec
REPLICATED = Spec()
BY_LANE = Spec(_LANES)  # [lanes, ...]
BY_BATCH = Spec(_LANES, _BATCH)  # [lanes, B, ...]
ROLLOUT = Spec(None, _BATCH)  # [T+1, B, ...], of one lane.
ROLLOUTS = Spec(_LANES, None, _BATCH)  # [lanes, T+1, B, ...].


class Placement:
  """Compiles functions for a grid of devices, and maps them over lanes.

  Attributes:
    devices: the devices, row by row.
    num_lane_shards: rows of the grid.
    num_batch_shards: columns of the grid.
    batch_axis: name of the axis over which a lane's batch is sharded, for
      `Agent`; None with one column.
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
    check_devices(devices)
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
    shardings = jax.tree.map(
      lambda spec: jax.sharding.NamedSharding(self._mesh, spec),
      specs,
      is_leaf=lambda x: isinstance(x, Spec),
    )
    return jax.device_put(tree, shardings)

  def lane(self, tree: Any, index: int) -> Any:
    """Copies one lane to one device of its row, outside of programs.

    No other device takes part, so that it need not wait for their programs.

    Args:
      tree: arrays [lanes, ...] on the devices, sharded as `BY_LANE`.
      index: index of the lane.

    Returns:
      Leaves [...].
    """
    if not self._is_sharded:
      return jax.tree.map(lambda x: x[index], tree)

    def of_row(x: jax.Array) -> jax.Array:
      row, own = divmod(index, x.shape[0] // self.num_lane_shards)
      device = self._mesh.devices[row, 0]
      shards = {shard.device: shard for shard in x.addressable_shards}
      return shards[device].data[own]

    return jax.tree.map(of_row, tree)

  def stack_rollouts(self, rollouts: Sequence[Any]) -> Any:
    """Stacks the rollouts of all lanes, each on a device of its row.

    Args:
      rollouts: one tree per lane, with leaves [T+1, B, ...].

    Returns:
      Leaves [lanes, T+1, B, ...], sharded as `ROLLOUTS`.
    """
    if not self._is_sharded:
      stacked = jax.tree.map(lambda *lanes: jnp.stack(lanes), *rollouts)
      return self.put(stacked, ROLLOUTS)
    grid = self._mesh.devices
    sharding = jax.sharding.NamedSharding(self._mesh, ROLLOUTS)

    def join(*lanes: jax.Array) -> jax.Array:
      shards: list[jax.Array] = []
      size = len(lanes) // len(grid)
      for i, devices in enumerate(grid):
        row = jnp.stack(lanes[i * size : (i + 1) * size])
        columns = jnp.split(row, len(devices), axis=2)
        shards += map(jax.device_put, columns, devices)
      return jax.make_array_from_single_device_arrays(
        (len(lanes), *lanes[0].shape), sharding, shards
      )

    return jax.tree.map(join, *rollouts)

  def fetch(self, tree: Any) -> Any:
    """Copies arrays to the host."""
    return jax.device_get(tree)


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


def check_devices(devices: Any) -> None:
  """Raises a `ValueError` unless all are different devices of JAX.

  Args:
    devices: one or more, or None.
  """
  if devices is None:
    return
  is_list = isinstance(devices, Sequence | np.ndarray)
  if not is_list or not all(isinstance(x, jax.Device) for x in devices):
    raise ValueError(
      f'devices must be a list of devices of JAX, got {str(devices)[:60]}'
    )
  if not len(devices):
    raise ValueError('devices must be one or more, or None for the default')
  if len(set(devices)) < len(devices):
    raise ValueError('devices must be different, but one is given twice')


def first_devices(number: int) -> list[jax.Device]:
  """Returns the first devices of this process.

  Args:
    number: how many devices; a `ValueError` if there are fewer.
  """
  devices = jax.local_devices()
  if not 1 <= number <= len(devices):
    raise ValueError(
      f'devices must be between 1 and {len(devices)}, got {number}; there are '
      f'{", ".join(map(str, devices))}'
    )
  return devices[:number]


def most_devices(fits: Callable[[int], bool]) -> list[jax.Device]:
  """Returns as many devices of this process as the work can be divided over.

  Args:
    fits: whether the work can be divided over a number of devices; true for 1.
  """
  devices = jax.local_devices()
  return devices[: max(filter(fits, range(1, len(devices) + 1)))]


def simulate_cpu_devices(number: int) -> None:
  """Makes JAX simulate several devices on CPU, unless the user chose a number.

  To be called before any operation of JAX. No effect on other platforms, nor
  for numbers beyond those that are of use: `first_devices` refuses them.

  Args:
    number: how many devices are needed.
  """
  is_chosen = (
    'JAX_NUM_CPU_DEVICES' in os.environ
    or 'device_count' in os.environ.get('XLA_FLAGS', '')
  )
  if not is_chosen and 1 < number <= max(8, os.cpu_count() or 1):
    # JAX has started already in programs that call a command as a function.
    with contextlib.suppress(RuntimeError):
      jax.config.update('jax_num_cpu_devices', number)


def mean(tree: Any, axis: Any | None) -> Any:
  """Averages a tree over the shards of an axis; unchanged if that is None."""
  return tree if axis is None else jax.lax.pmean(tree, axis)


def total(tree: Any, axis: Any | None) -> Any:
  """Sums a tree over the shards of an axis; unchanged if that is None."""
  return tree if axis is None else jax.lax.psum(tree, axis)
