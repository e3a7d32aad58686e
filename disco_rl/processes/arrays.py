"""Makes arrays over many devices, also over those of several processes."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def put_whole(tree: Any, shardings: Any) -> Any:
  """Makes arrays of which all processes have the whole.

  Args:
    tree: whole arrays, on the host or on devices.
    shardings: a tree of shardings, a prefix of `tree`.

  Returns:
    The arrays, sharded.
  """

  def put(sharding: jax.sharding.Sharding, part: Any) -> Any:
    return jax.tree.map(lambda x: _from_whole(x, sharding), part)

  return jax.tree.map(put, shardings, tree)


def put_parts(tree: Any, shardings: Any) -> Any:
  """Makes arrays of which every process has its part.

  Args:
    tree: the parts of this process, on the host or on devices.
    shardings: a tree of shardings, a prefix of `tree`.

  Returns:
    The whole arrays, sharded.
  """

  def put(sharding: jax.sharding.NamedSharding, part: Any) -> Any:
    local = jax.sharding.NamedSharding(sharding.mesh.local_mesh, sharding.spec)
    return jax.tree.map(lambda x: _from_part(x, local, sharding), part)

  return jax.tree.map(put, shardings, tree)


def add_shardings(tree: Any, shardings: Any) -> Any:
  """Returns the specs of arrays with their shardings.

  Args:
    tree: arrays or specs, with whole shapes.
    shardings: a tree of shardings, a prefix of `tree`.
  """

  def add(sharding: jax.sharding.Sharding, part: Any) -> Any:
    return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), part
    )

  return jax.tree.map(add, shardings, tree)


def describe(what: str, tree: Any) -> dict[str, str]:
  """Returns words for the types and shapes of arrays.

  Args:
    what: words for the tree.
    tree: arrays or specs.

  Returns:
    The words by name.
  """
  return {
    f'{what}/{jax.tree_util.keystr(path, simple=True, separator="/")}': (
      f'{x.dtype}{list(x.shape)}'
    )
    for path, x in jax.tree_util.tree_leaves_with_path(tree)
  }


def take_row(x: jax.Array, grid: np.ndarray, index: int) -> jax.Array:
  """Copies one row of an array from a device that has it.

  Args:
    x: [n, ...], sharded over the rows of the grid.
    grid: the devices, [rows, columns].
    index: index into axis 0; this process must have devices of that row.

  Returns:
    [...], on the first of these devices.
  """
  row, own = divmod(index, x.shape[0] // len(grid))
  shards = {shard.device: shard for shard in x.addressable_shards}
  first = next(device for device in grid[row] if device in shards)
  return shards[first].data[own]


def own_rows(x: jax.Array, grid: np.ndarray) -> np.ndarray:
  """Copies the rows of an array that this process has to the host.

  Args:
    x: [n, ...], sharded over the rows of a grid.
    grid: the devices of this process, [own rows, own columns].

  Returns:
    [own n, ...].
  """
  shards = {shard.device: shard for shard in x.addressable_shards}
  return np.concatenate([np.asarray(shards[row[0]].data) for row in grid])


def own_part(
  grid: np.ndarray, process_index: int, sizes: tuple[int, int]
) -> tuple[range, range] | None:
  """Returns which part of an array is on the devices of a process.

  Args:
    grid: devices, [rows, columns].
    process_index: number of the process, see `jax.process_index`.
    sizes: those of the axes that are sharded over rows and over columns.

  Returns:
    Its indices of both axes; None if the devices of any process are not a block
    of the grid.
  """
  parts = {}
  (num_rows, num_columns), (n, b) = grid.shape, sizes
  for owner in {device.process_index for device in grid.flat}:
    is_own = np.vectorize(lambda x, i=owner: x.process_index == i)(grid)
    rows, columns = (np.flatnonzero(is_own.any(axis)) for axis in (1, 0))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    left, right = int(columns[0]), int(columns[-1]) + 1
    if not is_own[top:bottom, left:right].all():
      return None
    parts[owner] = (
      range(top * n // num_rows, bottom * n // num_rows),
      range(left * b // num_columns, right * b // num_columns),
    )
  return parts[process_index]


def stack_rows(
  parts: Sequence[jax.Array],
  sharding: jax.sharding.NamedSharding,
  axis: int,
) -> jax.Array:
  """Stacks arrays, each on the devices of its row of a grid.

  Args:
    parts: arrays, [...]; those of this process's rows and columns.
    sharding: of the result: axis 0 over the rows of a grid of devices, and
      another axis over its columns.
    axis: that other axis.

  Returns:
    [n, ...].
  """
  grid = sharding.mesh.local_mesh.devices
  size = len(parts) // len(grid)
  shards: list[jax.Array] = []
  for i, devices in enumerate(grid):
    row = jnp.stack(parts[i * size : (i + 1) * size])
    columns = jnp.split(row, len(devices), axis=axis)
    shards += map(jax.device_put, columns, devices)
  return _from_shards(shards, sharding)


def _from_whole(x: Any, sharding: jax.sharding.Sharding) -> jax.Array:
  """Makes an array over several processes, all of which have the whole of it.

  Args:
    x: the whole array, on the host or on devices.
    sharding: how it is sharded.

  Returns:
    The array.
  """
  if isinstance(x, jax.Array) and not x.is_fully_addressable:
    return jax.device_put(x, sharding)
  whole = np.asarray(x)
  return jax.make_array_from_callback(
    whole.shape, sharding, lambda index: whole[index]
  )


def _from_part(
  x: Any, local: jax.sharding.Sharding, sharding: jax.sharding.NamedSharding
) -> jax.Array:
  """Makes an array over several processes from the part of this one.

  Args:
    x: the part, on the host or on devices.
    local: how the part is sharded over the devices of this process.
    sharding: how the whole is sharded.

  Returns:
    The whole array.
  """
  part = jax.device_put(x, local)
  return _from_shards([x.data for x in part.addressable_shards], sharding)


def _from_shards(
  shards: Sequence[jax.Array], sharding: jax.sharding.NamedSharding
) -> jax.Array:
  """Makes an array of its shards, those on devices of this process."""
  sizes = shards[0].shape
  counts = _shards_by_axis(sharding, len(sizes))
  shape = tuple(n * size for n, size in zip(counts, sizes, strict=True))
  return jax.make_array_from_single_device_arrays(shape, sharding, shards)


def _shards_by_axis(
  sharding: jax.sharding.NamedSharding, ndim: int
) -> list[int]:
  """Returns the number of shards along each axis of an array."""
  names = (*sharding.spec, *(None,) * (ndim - len(sharding.spec)))
  return [1 if name is None else sharding.mesh.shape[name] for name in names]
