"""Many devices learn as one does."""

import jax
import numpy as np
import pytest

from disco_rl import agent
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop as experiment
from disco_rl.evaluation import population
from tests.support import golden
from tests.support import small


@pytest.mark.slow
def test_eight_devices_learn_as_one_on_the_same_data():
  """Acting on the host, all see the same experience, masked steps included."""
  states = []
  for num_devices in (1, 8):
    many, eta = small.make_population(
      'disco',
      'catch_numpy',
      num_devices=num_devices,
      batch_size=16,
      replay_ratio=1,
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
  """The whole loop, with replay, against a map over shards on one device."""
  sizes = dict(batch_size=64, rollout_length=6, replay_capacity=128)
  many, eta = small.make_population('disco', num_devices=8, **sizes)
  state, metrics = many.run(eta, many.init(), 8)

  own = experiment.Config(replay_ratio=4, **sizes).per_device(8)
  env = registry.get_environment('catch', own.num_envs, rows=5, columns=4)
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=small.settings('disco'),
    batch_axis_name='batch',
  )
  shard = experiment.Experiment(an_agent, env, own, 'batch')

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
  # Each device made experience of its own.
  assert len(np.unique(shards.buffer.data.actions, axis=0)) == 8


def test_devices_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match=r'2 environments .* over 8 devices'):
    small.make_population(num_devices=8)


def test_one_device_that_is_not_the_first():
  device = jax.devices()[3]
  one = population.Population(
    registry.environment_fn('catch', rows=5, columns=4),
    small.settings('actor_critic'),
    experiment.Config(**small.SIZES),
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
      experiment.Config(batch_size=num_envs, replay_ratio=1),
    )

  assert [len(make(n).devices) for n in (1, 6, 12, 16)] == [1, 6, 6, 8]
