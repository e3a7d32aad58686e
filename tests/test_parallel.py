"""Lanes and batches on a grid of devices; many devices learn as one does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import agent
from disco_rl import device_choice
from disco_rl import parallel
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import population
from disco_rl.learning import actors
from tests.support import golden
from tests.support import small


@pytest.mark.parametrize(('num_devices', 'rows'), [(1, 1), (4, 1), (4, 2)])
def test_lanes_and_rollouts_on_the_devices_of_their_row(num_devices, rows):
  devices = jax.devices()[:num_devices]
  placement = parallel.Placement(devices, num_lane_shards=rows)
  values = np.arange(4 * 5 * 8.0).reshape(4, 5, 8)  # [lanes, T+1, B]
  tree = dict(a=values, b=(values[..., None],))
  params = placement.put(tree, parallel.BY_LANE)
  lanes = []
  for i in range(4):
    own = placement.lane(params, i)
    jax.tree.map(
      lambda x, y, i=i: np.testing.assert_array_equal(x, y[i]), own, tree
    )
    first = devices[i * rows // 4 * (num_devices // rows)]
    assert all(x.devices() == {first} for x in jax.tree.leaves(own))
    lanes.append(own)
  stacked = placement.stack_rollouts(lanes)
  wanted = placement.put(tree, parallel.ROLLOUTS)
  for x, y in zip(*map(jax.tree.leaves, (stacked, wanted)), strict=True):
    np.testing.assert_array_equal(x, y)
    assert x.sharding.is_equivalent_to(y.sharding, x.ndim)


@pytest.mark.slow
def test_eight_devices_learn_as_one_on_the_same_data():
  """Acting on the host gives the same experience, including masked steps."""
  states = []
  for num_devices in (1, 8):
    many, eta = small.make_population(
      'disco',
      'catch_numpy',
      num_devices=num_devices,
      batch_size=16,
      num_envs=16,
    )
    state, metrics = many.run(eta, many.init(), 4)
    states.append((state.learner, metrics))
  (one, one_metrics), (eight, eight_metrics) = states
  # The same actions were taken: the policies did not drift apart.
  for name in ('num_episodes', 'total_return'):
    np.testing.assert_array_equal(one_metrics[name], eight_metrics[name])
  for name in ('total_loss', 'global_gradient_norm'):
    np.testing.assert_allclose(one_metrics[name], eight_metrics[name], 2e-4)
  golden.check_trees_close(
    jax.device_get(eight.params), jax.device_get(one.params), 2e-4
  )
  golden.check_trees_close(
    jax.device_get(eight.meta_state), jax.device_get(one.meta_state), 2e-4
  )


@pytest.mark.slow
def test_eight_devices_are_eight_shards_of_one():
  """The whole loop with replay, compared with shards mapped on one device."""
  sizes = dict(
    batch_size=64, num_envs=16, rollout_length=6, replay_capacity=128
  )
  many, eta = small.make_population('disco', num_devices=8, **sizes)
  state, metrics = many.run(eta, many.init(), 8)

  own = batching_lib.Batching(**sizes).per_shard(8)
  env = registry.get_environment('catch', own.num_envs, rows=5, columns=4)
  an_agent = agent.Agent.for_environment(env, small.settings('disco'), 'batch')
  shard = agent_loop.AgentLoop(
    an_agent, actors.make(an_agent, env), own, 'batch'
  )

  def run_shard(key):
    return shard.run(eta, shard.init(key), 8)

  keys = np.broadcast_to(np.asarray(jax.random.PRNGKey(0)), (8, 2))
  shards, shard_metrics = jax.jit(jax.vmap(run_shard, axis_name='batch'))(keys)
  np.testing.assert_array_equal(
    np.concatenate(jax.device_get(shards.buffer.data.actions)),
    jax.device_get(state.buffer.data.actions)[0],
  )
  golden.check_trees_close(
    jax.tree.map(lambda x: np.asarray(x[0]), state.learner),
    jax.tree.map(lambda x: np.asarray(x[0]), shards.learner),
    2e-4,
  )
  for name, metric in metrics.items():
    np.testing.assert_allclose(
      metric[:, 0], shard_metrics[name][0], 2e-4, 1e-6, err_msg=name
    )
  # The experience of the devices differs.
  assert len(np.unique(shards.buffer.data.actions, axis=0)) == 8


def test_devices_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match=r'2 environments .* over 8 devices'):
    small.make_population(num_devices=8)


def test_one_device_that_is_not_the_first():
  device = jax.devices()[3]
  one = population.Population(
    registry.environment_fn('catch', rows=5, columns=4),
    small.settings('actor_critic'),
    batching_lib.Batching(**small.SIZES),
    devices=[device],
  )
  state, _ = one.run({}, one.init(), 1)
  leaves = jax.tree.leaves(state)
  assert leaves and all(leaf.devices() == {device} for leaf in leaves)


def test_by_default_as_many_devices_as_fit():
  def make(num_envs):
    return population.Population(
      registry.environment_fn('catch'),
      small.settings('actor_critic'),
      batching_lib.Batching(batch_size=num_envs, num_envs=num_envs),
    )

  assert [len(make(n).placement.devices) for n in (1, 6, 12, 16)] == [
    1,
    6,
    6,
    8,
  ]


def _grid(num_devices, num_lane_shards=1, lanes_at_once=None):
  return parallel.Placement(
    jax.devices()[:num_devices],
    num_lane_shards=num_lane_shards,
    lanes_at_once=lanes_at_once,
  )


@pytest.mark.parametrize('lanes_at_once', [1, 2, 4, 5, None])
def test_lanes_are_mapped_in_any_number_at_once(lanes_at_once):
  """Also if the last of several groups is smaller, such as 5 lanes by 2."""
  xs, keys = jnp.arange(15.0).reshape(5, 3), jnp.arange(5)

  def function(x, key):
    noise = jax.random.normal(jax.random.PRNGKey(key), x.shape)
    return dict(sum=jnp.sum(x + noise), x=x * key), key + 1

  wanted = [function(x, key) for x, key in zip(xs, keys, strict=True)]
  wanted = jax.tree.map(lambda *leaves: np.stack(leaves), *wanted)
  placement = _grid(1, lanes_at_once=lanes_at_once)
  map_lanes = functools.partial(placement.map_lanes, function)
  golden.check_trees_close(jax.jit(map_lanes)(xs, keys), wanted, 1e-6)
  # The program has at most that many lanes in memory.
  shapes = str(jax.make_jaxpr(map_lanes)(xs, keys))
  assert ('scan' in shapes) == (lanes_at_once in (1, 2, 4, None))


def test_lanes_are_sequential_on_cpu_by_default():
  assert parallel.Placement()._lanes_at_once == 1
  assert _grid(1, lanes_at_once=3)._lanes_at_once == 3


@pytest.mark.parametrize(('rows', 'columns'), [(1, 1), (4, 1), (1, 4), (2, 2)])
def test_lanes_are_sharded_over_rows_and_batches_over_columns(rows, columns):
  placement = _grid(rows * columns, num_lane_shards=rows)
  assert placement.num_lane_shards == rows
  assert placement.num_batch_shards == columns
  assert (placement.batch_axis is None) == (columns == 1)
  shapes = []

  def function(lanes, batch, every):
    shapes.append((lanes.shape, batch.shape, every.shape))
    assert placement.own_lanes(every).shape == lanes.shape
    average = parallel.mean(jnp.mean(batch, axis=1), placement.batch_axis)
    total = parallel.total(jnp.sum(batch, axis=1), placement.batch_axis)
    of_all_lanes = placement.sum_lane_shards(jnp.sum(lanes))
    same = placement.own_lanes(every) - lanes
    return average, total, same, of_all_lanes

  specs = (parallel.BY_LANE, parallel.BY_BATCH, parallel.REPLICATED)
  by_lane, whole = parallel.BY_LANE, parallel.REPLICATED
  call = placement.compile(function, specs, (by_lane, by_lane, by_lane, whole))
  lanes = np.arange(4.0)
  batch = np.arange(32.0).reshape(4, 8)
  arguments = (lanes, batch, lanes)
  average, total, same, of_all_lanes = call(*arguments)
  assert shapes[0] == ((4 // rows,), (4 // rows, 8 // columns), (4,))
  np.testing.assert_allclose(average, batch.mean(axis=1))
  np.testing.assert_allclose(total, batch.sum(axis=1))
  np.testing.assert_array_equal(same, np.zeros(4))
  assert float(of_all_lanes) == 6
  # Arrays can be put on the devices beforehand.
  placed = [placement.put(x, s) for x, s in zip(arguments, specs, strict=True)]
  shard_shapes = [x.addressable_shards[0].data.shape for x in placed]
  assert tuple(shard_shapes) == shapes[0]
  np.testing.assert_allclose(placement.fetch(call(*placed))[0], average)


def test_each_batch_shard_has_a_key_of_its_own():
  """It is the same in every row: lanes differ by their own keys."""
  key = jax.random.PRNGKey(3)
  placement = _grid(8, num_lane_shards=2)
  keys = placement.compile(
    lambda key: parallel.shard_key(key, placement.batch_axis)[None, None],
    (parallel.REPLICATED,),
    parallel.BY_BATCH,
  )(key)
  assert keys.shape == (2, 4, 2)
  np.testing.assert_array_equal(keys[0], keys[1])
  assert len(np.unique(np.asarray(keys[0]), axis=0)) == 4
  for i, own in enumerate(keys[0]):
    np.testing.assert_array_equal(own, jax.random.fold_in(key, i))
  # On one device it is the key itself.
  assert parallel.shard_key(key, None) is key


@pytest.mark.parametrize(
  ('kwargs', 'message'),
  [
    (dict(num_devices=8, num_lane_shards=3), '8 devices cannot form 3 equal'),
    (dict(num_devices=2, num_lane_shards=4), '2 devices cannot form 4 equal'),
    (dict(num_devices=2, num_lane_shards=0), '2 devices cannot form 0 equal'),
    (dict(num_devices=0), 'devices must be one or more'),
    (dict(num_devices=1, lanes_at_once=0), 'lanes_at_once must be at least 1'),
  ],
)
def test_uneven_grids_are_refused(kwargs, message):
  with pytest.raises(ValueError, match=message):
    _grid(**kwargs)


def test_a_number_of_devices_that_there_is_not_is_refused():
  assert device_choice.first_devices(3) == jax.devices()[:3]
  for number in (0, 9):
    with pytest.raises(ValueError, match=f'between 1 and 8, got {number}'):
      device_choice.first_devices(number)
  assert device_choice.most_devices(lambda n: 6 % n == 0) == jax.devices()[:6]


def test_static_and_donated_arguments():
  placement = _grid(2)
  call = placement.compile(
    lambda x, n: n * x,
    (parallel.BY_BATCH,),
    parallel.BY_BATCH,
    donate=[0],
    num_static=1,
  )
  x = placement.put(np.ones((1, 4)), parallel.BY_BATCH)
  assert call(x, 3).tolist() == [[3] * 4]
  assert x.is_deleted()
