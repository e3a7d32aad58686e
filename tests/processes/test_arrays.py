"""Arrays over several devices, here of one process; see also tests/cli."""

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
