"""Arrays over several devices, here of one process; see also tests/cli."""

import types

import jax
import numpy as np
import pytest

from disco_rl.processes import arrays

Spec = jax.sharding.PartitionSpec


@pytest.fixture
def placed():
  """Returns arrays on the host, and how they are sharded."""
  grid = np.asarray(jax.devices()[:4]).reshape(2, 2)
  mesh = jax.sharding.Mesh(grid, ('lanes', 'batch'))
  tree = {
    'agent': {'w': np.arange(12.0).reshape(4, 3), 'step': np.arange(4)},
    'rollout': np.arange(40).reshape(5, 4, 2),
    'eta': np.float32(3.0),
    'none': None,
  }
  specs = {
    'agent': Spec('lanes'),
    'rollout': Spec(None, 'batch'),
    'eta': Spec(),
    'none': Spec('lanes', 'batch'),
  }
  shardings = {
    name: jax.sharding.NamedSharding(mesh, spec) for name, spec in specs.items()
  }
  return tree, shardings


@pytest.mark.parametrize('put', [arrays.put_whole, arrays.put_parts])
def test_the_part_of_the_only_process_is_the_whole(put, placed):
  tree, shardings = placed
  result = put(tree, shardings)
  wanted = jax.device_put(tree, shardings)
  assert jax.tree.structure(result) == jax.tree.structure(wanted)
  for one, other in zip(
    jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True
  ):
    assert one.sharding == other.sharding and one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


def test_specs_get_shardings(placed):
  tree, shardings = placed
  result = arrays.add_shardings(tree, shardings)
  assert result['agent']['w'].shape == (4, 3)
  assert result['agent']['step'].sharding == shardings['agent']
  assert result['none'] is None


def test_descriptions_have_names_types_and_shapes(placed):
  assert arrays.describe('state', placed[0]) == {
    'state/agent/w': 'float64[4, 3]',
    'state/agent/step': 'int64[4]',
    'state/rollout': 'int64[5, 4, 2]',
    'state/eta': 'float32[]',
  }


def _grid(*rows):
  """Returns a grid of devices, given the numbers of their processes."""
  device = lambda i: types.SimpleNamespace(process_index=i)
  grid = np.empty((len(rows), len(rows[0])), object)
  for index in np.ndindex(grid.shape):
    grid[index] = device(rows[index[0]][index[1]])
  return grid


@pytest.mark.parametrize(
  'rows, wanted',
  [
    # Whole rows of a process.
    (([0, 0], [0, 0], [1, 1], [1, 1]), [((0, 4), (0, 6)), ((4, 8), (0, 6))]),
    # A row is of several processes.
    (
      ([0, 1], [2, 3]),
      [((0, 4), (0, 3)), ((0, 4), (3, 6)), ((4, 8), (0, 3)), ((4, 8), (3, 6))],
    ),
    (([3, 3],), [None, None, None, ((0, 8), (0, 6))]),
    # A process has more streams of one lane than of another.
    (([0, 0], [0, 1], [1, 1]), [None, None]),
    (([0, 0, 1], [1, 2, 2]), [None, None, None]),
    (([0, 1, 0],), [None, None]),
  ],
)
def test_the_part_of_each_process(rows, wanted):
  grid = _grid(*rows)
  for i in {device.process_index for device in grid.flat}:
    part = arrays.own_part(grid, i, (8, 6))
    wanted_part = wanted[i] and tuple(range(*x) for x in wanted[i])
    assert part == wanted_part


def test_own_rows_are_those_of_the_devices(placed):
  tree, shardings = placed
  x = jax.device_put(tree['agent']['w'], shardings['agent'])
  grid = shardings['agent'].mesh.devices
  np.testing.assert_array_equal(arrays.own_rows(x, grid), tree['agent']['w'])
  below = arrays.own_rows(x, grid[1:])
  np.testing.assert_array_equal(below, tree['agent']['w'][2:])
  np.testing.assert_array_equal(arrays.take_row(x, grid, 3), [9.0, 10.0, 11.0])
