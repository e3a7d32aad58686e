"""Small utilities."""

from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils


def test_sharding_round_trip():
  devices = jax.devices()[:4]
  data = {'x': np.arange(24.0).reshape(8, 3), 'y': np.arange(8)}
  shards = utils.shard_across_devices(data, devices)
  assert shards['x'].shape == (4, 2, 3)
  for shard in shards['x'].addressable_shards:
    row = devices.index(shard.device)
    np.testing.assert_array_equal(
      np.asarray(shard.data)[0], data['x'][2 * row : 2 * row + 2]
    )
  back = utils.gather_from_devices(shards)
  jax.tree.map(np.testing.assert_array_equal, back, data)
  doubled = jax.pmap(lambda x: 2 * x, devices=devices)(shards['y'])
  np.testing.assert_array_equal(
    utils.gather_from_devices(doubled), 2 * data['y']
  )


def test_one_number_per_device_is_gathered_as_it_is():
  data = {'loss': np.arange(4.0), 'x': np.zeros((4, 2, 3))}
  gathered = utils.gather_from_devices(data)
  np.testing.assert_array_equal(gathered['loss'], data['loss'])
  assert gathered['x'].shape == (8, 3)


def test_uneven_shards_are_refused():
  with pytest.raises(ValueError, match=r'\(7,\) into 4 equal shards'):
    utils.shard_across_devices(np.zeros(7), jax.devices()[:4])
  with pytest.raises(ValueError, match='at least one device'):
    utils.shard_across_devices(np.zeros(8), [])


@pytest.mark.parametrize('num_dims', [1, 2])
def test_batch_lookup_is_a_loop(num_dims):
  rng = np.random.RandomState(0)
  table = rng.normal(size=(4, 3, 5, 2)[2 - num_dims :])
  index = rng.randint(5, size=table.shape[:num_dims])
  out = utils.batch_lookup(table, index, num_dims)
  for place in np.ndindex(index.shape):
    np.testing.assert_allclose(out[place], table[place][index[place]], 1e-6)
  with pytest.raises(ValueError, match='does not match'):
    utils.batch_lookup(table, index[:-1], num_dims)


def test_gradient_of_batch_lookup():
  """The same as that of a gather, negative indices included."""
  table = jax.random.normal(jax.random.PRNGKey(0), (4, 3, 5, 2))
  index = jnp.arange(12).reshape(4, 3) % 7 - 2

  def gather(table):
    taken = jnp.take_along_axis(table, index[..., None, None], axis=2)
    return jnp.sum(jnp.sin(taken))

  lookup = lambda table: jnp.sum(jnp.sin(utils.batch_lookup(table, index)))
  np.testing.assert_allclose(jax.grad(lookup)(table), jax.grad(gather)(table))
  # Rows that are not taken do not matter, whatever they are.
  is_taken = jax.nn.one_hot(index % 5, 5)[..., None] * jnp.ones(2) > 0
  tangent = jnp.where(is_taken, 1.0, jnp.inf)
  _, out = jax.jvp(lambda x: utils.batch_lookup(x, index), (table,), (tangent,))
  np.testing.assert_array_equal(out, np.ones((4, 3, 2)))


def test_broadcast_specs():
  specs = {
    'x': types.ArraySpec((2, 3), np.float32),
    'a': dm_env_specs.BoundedArray((), np.int32, 0, 4),
  }
  more = utils.broadcast_specs(specs, 7)
  assert more['x'].shape == (7, 2, 3) and more['a'].shape == (7,)
  assert isinstance(more['a'], dm_env_specs.BoundedArray)
  assert more['a'].maximum == 4
  replaced = utils.broadcast_specs(more, 5, replace=True)
  assert replaced['x'].shape == (5, 2, 3) and replaced['a'].shape == (5,)


def test_logits_and_zeros_specs():
  spec = dm_env_specs.BoundedArray((), np.int32, 0, 4)
  assert utils.get_num_actions_from_spec(spec) == 5
  assert utils.get_logits_specs(spec).shape == (5,)
  batched = utils.broadcast_specs(spec, 3)
  assert utils.get_logits_specs(batched, with_batch_dim=True).shape == (3, 5)
  zeros = utils.zeros_like_spec({'l': utils.get_logits_specs(spec)}, (2, 1))
  assert zeros['l'].shape == (2, 1, 5) and zeros['l'].dtype == jnp.float32


@pytest.mark.parametrize('host_data', [False, True])
@pytest.mark.parametrize('cast_ints', [False, True])
def test_cast_to_single_precision(cast_ints, host_data):
  tree = {
    'f': np.zeros(2, np.float64),
    'h': np.zeros(2, np.float16),
    'b': np.zeros(2, bool),
    'u': np.zeros(2, np.uint8),
  }
  if host_data or cast_ints:  # JAX has no int64 by default.
    tree['i'] = np.zeros(2, np.int64)
  out = utils.cast_to_single_precision(tree, cast_ints, host_data)
  assert isinstance(out['f'], np.ndarray if host_data else jax.Array)
  dtypes = {name: x.dtype for name, x in out.items()}
  assert dtypes['f'] == np.float32
  assert (dtypes['h'], dtypes['b']) == (np.float16, bool)
  assert dtypes['u'] == np.uint8
  if 'i' in tree:
    assert dtypes['i'] == (np.int32 if cast_ints else np.int64)


def test_tree_stack():
  elems = [{'x': jnp.full(3, i)} for i in range(2)]
  assert utils.tree_stack(elems)['x'].shape == (2, 3)
  assert utils.tree_stack(elems, axis=1)['x'].shape == (3, 2)


def test_moving_average_over_an_axis_is_over_everything():
  average = utils.MovingAverage(0.0, decay=0.9)
  x = jax.random.normal(jax.random.PRNGKey(0), (4, 5))
  whole = average.update_state(x, average.init_state(), None)
  parts = jax.vmap(
    lambda x: average.update_state(x, average.init_state(), 'i'), axis_name='i'
  )(x)
  np.testing.assert_allclose(parts.moment2, whole.moment2, 1e-6)
  np.testing.assert_allclose(parts.moment1, whole.moment1, 1e-5, 1e-7)


def test_reset_masks():
  rollout = types.UpdateRuleInputs(
    observations=None,
    actions=None,
    rewards=None,
    is_terminal=jnp.array([[False], [True], [False]]),
    agent_out=None,
  )
  assert rollout.should_reset_mask_fwd[:, 0].tolist() == [0, 0, 1, 0]
  assert rollout.should_reset_mask_bwd[:, 0].tolist() == [0, 1, 0, 0]
