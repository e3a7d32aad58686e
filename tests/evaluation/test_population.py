"""Agents that act, store, sample and learn, for several seeds."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import memory
from disco_rl.config import batching as batching_lib
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import population as population_lib
from disco_rl.learning import learner_step
from disco_rl.learning import replay
from tests.support import golden
from tests.support import small


def test_learning_waits_for_the_replay_to_fill():
  population, eta = small.make_population()
  state = population.init()
  first = jax.device_get(state.learner.params)
  # Two trajectories per iteration; eight are needed.
  state, metrics = population.run(eta, state, 3)
  assert np.isnan(metrics['total_loss']).all()
  golden.check_trees_close(jax.device_get(state.learner.params), first, 0)
  state, metrics = population.run(eta, state, 3)
  assert np.isfinite(metrics['total_loss']).all()
  assert int(state.iteration) == 6
  assert all(x.shape == (3, 1) for x in metrics.values())


@pytest.mark.parametrize('env_name', ['catch', 'catch_numpy'])
@pytest.mark.parametrize('num_envs', [8, 2])
def test_every_kind_of_environment_with_and_without_replay(env_name, num_envs):
  population, eta = small.make_population(env_name=env_name, num_envs=num_envs)
  state = population.init()
  assert (state.buffer is None) == (num_envs == population.batching.batch_size)
  state, metrics = population.run(eta, state, 6)
  assert np.isfinite(metrics['total_loss'][-1])
  assert metrics['num_episodes'].sum() > 0
  mean_length = metrics['total_length'].sum() / metrics['num_episodes'].sum()
  assert mean_length == 4


def test_chunks_make_no_difference_and_compile_once():
  population, eta = small.make_population('disco')
  one, _ = population.run(eta, population.init(), 8)
  state = population.init()
  for _ in range(4):
    state, _ = population.run(eta, state, 2)
  golden.check_trees_close(state, one, 1e-6)
  assert population._run._cache_size() == 2  # One for each chunk length.


@pytest.mark.parametrize(
  ('rule', 'env_name'),
  [
    pytest.param('disco', 'catch', marks=pytest.mark.slow),
    ('actor_critic', 'catch'),
    ('actor_critic', 'catch_numpy'),
  ],
)
def test_a_seed_among_others_is_that_seed_alone(rule, env_name):
  """It is bit-exact in programs that are compiled as for users.

  Here the larger program is not optimised (see `conftest.py`), and rounds
  differently.
  """
  compare = np.testing.assert_array_equal
  if rule == 'disco':
    compare = functools.partial(
      np.testing.assert_allclose, rtol=1e-4, atol=1e-6
    )
  alone, eta = small.make_population(rule, env_name, seeds=(7,))
  others, _ = small.make_population(rule, env_name, seeds=(3, 7, 1))
  alone_state, alone_metrics = alone.run(eta, alone.init(), 8)
  state, metrics = others.run(eta, others.init(), 8)
  jax.tree.map(
    lambda one, many: compare(many[1], one[0]),
    alone_state.learner,
    state.learner,
  )
  for name, metric in metrics.items():
    assert metric.shape == (8, 3)
    compare(metric[:, 1], alone_metrics[name][:, 0])
  assert len(set(metrics['total_loss'][-1])) == 3


def test_seeds_at_once_learn_as_one_after_another():
  in_turns, eta = small.make_population(seeds=(0, 1), lanes_at_once=1)
  at_once, _ = small.make_population(seeds=(0, 1), lanes_at_once=2)
  wanted, wanted_metrics = in_turns.run(eta, in_turns.init(), 8)
  actual, metrics = at_once.run(eta, at_once.init(), 8)
  golden.check_trees_close(actual.learner.params, wanted.learner.params, 1e-4)
  np.testing.assert_array_equal(
    metrics['total_return'], wanted_metrics['total_return']
  )


@pytest.mark.parametrize(
  ('sizes', 'message'),
  [
    (dict(batch_size=0), 'batch_size must be a whole number of at least 1'),
    (dict(rollout_length=1), 'rollout_length must be a whole .* at least 2'),
    (dict(num_envs=0), 'num_envs must be a whole number of at least 1'),
    (dict(num_envs=9), r'num_envs \(9\) must be at most batch_size \(8\)'),
    (dict(replay_capacity=15), r'replay_capacity \(15\) must be a multiple'),
    (dict(replay_capacity=4), r'min_replay_size \(8\) must be between 1 and'),
    (dict(min_replay_size=0), 'min_replay_size must be .* at least 1.*got 0'),
    (dict(min_replay_size=17), r'min_replay_size \(17\) must be between'),
  ],
)
def test_nonsense_sizes_are_refused(sizes, message):
  with pytest.raises(ValueError, match=message):
    small.make_population(**sizes)


def test_a_fraction_of_every_batch_is_fresh(monkeypatch):
  """The new rollout comes first; the rest is from the replay."""
  num_envs = batching_lib.num_fresh(8, replay_fraction=0.7)
  sizes = dict(batch_size=8, num_envs=num_envs, fresh_in_batch=True)
  batching = batching_lib.Batching(**{**small.SIZES, **sizes})
  assert (batching.num_envs, batching.num_replayed) == (2, 6)
  own = batching.per_shard(2)
  assert (own.num_envs, own.num_replayed) == (1, 3)
  population, eta = small.make_population(**sizes)
  seen, batches = [], []
  update = learner_step.LearnerStep.update

  def spy(self, eta, state, rollout, *args, **kwargs):
    seen.append(rollout.rewards.shape)
    jax.debug.callback(lambda x: batches.append(x), rollout.logits)
    return update(self, eta, state, rollout, *args, **kwargs)

  monkeypatch.setattr(learner_step.LearnerStep, 'update', spy)
  state = population.init()
  state, metrics = population.run(eta, state, 6)
  jax.effects_barrier()
  assert set(seen) == {(6, 8)}
  assert np.isfinite(metrics['total_loss'][batching.num_warm_up :]).all()
  stored = np.asarray(state.buffer.data.agent_outs['logits'])[0]
  assert stored.shape == (16, 6, small.NUM_ACTIONS)
  # The last batch begins with the two trajectories stored last.
  last = int(state.buffer.num_added)
  fresh = np.moveaxis(batches[-1][:, :2], 1, 0)
  np.testing.assert_array_equal(fresh, stored[last - 2 : last])


def _with_memory(config):
  """Makes an agent with these settings and an LSTM, on Catch."""
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  return population_lib.Population(
    registry.environment_fn('catch', rows=5, columns=4),
    config,
    batching_lib.Batching(**small.SIZES),
    devices=jax.devices()[:1],
  )


def test_replay_keeps_only_the_first_state_of_a_memory():
  population = _with_memory(small.settings('actor_critic'))
  state, metrics = population.run({}, population.init(), 6)
  assert np.isfinite(metrics['total_loss'][-1]).all()
  states = jax.tree.leaves(state.buffer.data.states)
  assert {x.shape for x in states} == {(1, 16, 1, 4)}
  # Later rollouts start from the state at the end of the one before.
  assert any(np.abs(x[0, 2:12]).max() > 0 for x in states)


def test_a_memory_continues_from_the_state_stored_with_its_trajectory():
  """Unrolling a sampled batch reproduces the outputs of acting."""
  config = small.settings('actor_critic')
  config.learning_rate = 0.0  # All trajectories have the same θ.
  population = _with_memory(config)
  state, _ = population.run({}, population.init(), 10)
  params, buffer = jax.tree.map(
    lambda x: x[0], (state.learner.params, state.buffer.data)
  )
  batch = replay.from_stored(
    replay.sample(
      replay.ReplayState(buffer, jnp.asarray(16)), jax.random.PRNGKey(0), 12
    )
  )
  outs, _ = population.agent.unroll_net(
    params, batch.first_state(time_axis=0), batch
  )
  np.testing.assert_allclose(outs['logits'], batch.logits, rtol=0, atol=1e-6)
  shuffled = jax.tree.map(lambda x: jnp.roll(x, 1, 1), batch.states)
  outs, _ = population.agent.unroll_net(
    params, batch.replace(states=shuffled).first_state(time_axis=0), batch
  )
  assert np.abs(outs['logits'] - batch.logits).max() > 1e-5


def test_a_replay_larger_than_the_memory_is_refused():
  """The replays of all seeds count, before any is allocated."""
  seeds = (0, 1)
  small_one, _ = small.make_population(seeds=seeds, replay_capacity=16)
  buffer = small_one.init().buffer
  row = sum(x.nbytes for x in jax.tree.leaves(buffer.data)) // 16
  memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  # The replay of one seed would fit.
  capacity = int(1.5 * memory / row) // 2 * 2
  large_one, _ = small.make_population(seeds=seeds, replay_capacity=capacity)
  with pytest.raises(ValueError, match=r'replay \d+\.\d GB, .* but this'):
    large_one.init()


@pytest.mark.parametrize(
  ('env_name', 'method'), [('catch', 'run'), ('catch_numpy', 'learn')]
)
def test_a_step_is_checked_before_anything_is_made(
  env_name, method, monkeypatch
):
  """The check traces the step, which is not traced again."""
  calls = []
  plain = getattr(agent_loop.AgentLoop, method)

  def counted(*args):
    calls.append(method)
    return plain(*args)

  monkeypatch.setattr(agent_loop.AgentLoop, method, counted)
  population, eta = small.make_population(env_name=env_name)
  state = population.init(eta, num_iterations=2)
  assert len(calls) == 1
  population.run(eta, state, num_iterations=2)
  assert len(calls) == 1
  monkeypatch.setattr(memory, 'available', lambda: 10**8)
  with pytest.raises(ValueError, match=r'this run needs .*a step .*this mach'):
    monkeypatch.setattr(memory, 'of_program', lambda _: 10**9)
    population.init(eta, num_iterations=2)
  population.close()


def test_overlapped_acting_lags_one_update():
  """Compared with a loop that acts with the parameters of the update before."""
  population, eta = small.make_population(
    env_name='catch_numpy', num_envs=8, overlap_acting=True
  )
  state, metrics = population.run(eta, population.init(), 4)
  other, _ = small.make_population(env_name='catch_numpy', num_envs=8)
  wanted = other.init()
  own_lanes = other._lanes
  old_params = own_lanes._params_by_agent(wanted)
  for i in range(4):
    params = own_lanes._params_by_agent(wanted)
    keys = own_lanes._split_keys(wanted.rng)
    actor_states, rollouts = own_lanes._act(
      old_params, wanted.actor, keys.act, i + 1
    )
    wanted, log = other._learn(
      eta, wanted._replace(rng=keys.carry, actor=None), rollouts, keys.learn
    )
    wanted = wanted._replace(actor=actor_states)
    np.testing.assert_array_equal(log['total_loss'], metrics['total_loss'][i])
    old_params = params
  golden.check_trees_close(
    jax.device_get(state.learner.params),
    jax.device_get(wanted.learner.params),
    0,
  )
  # Without overlap, acting sees every update.
  plain, _ = small.make_population(env_name='catch_numpy', num_envs=8)
  _, plain_metrics = plain.run(eta, plain.init(), 4)
  differs = plain_metrics['total_loss'] != metrics['total_loss']
  assert not differs[0] and differs[-1]


@pytest.mark.parametrize('env_name', ['catch', 'catch_numpy'])
def test_a_checkpoint_is_the_state(env_name):
  """Another population resumes from it bit-exact."""
  population, eta = small.make_population(env_name=env_name, seeds=(0, 1))
  state, _ = population.run(eta, population.init(), 5)
  saved = jax.device_get(population.to_checkpoint(state))
  wanted, wanted_metrics = population.run(eta, state, 3)
  other, _ = small.make_population(env_name=env_name, seeds=(0, 1))
  actual, metrics = other.run(eta, other.from_checkpoint(saved), 3)
  jax.tree.map(np.testing.assert_array_equal, metrics, wanted_metrics)
  jax.tree.map(
    np.testing.assert_array_equal,
    jax.device_get(other.to_checkpoint(actual)),
    jax.device_get(population.to_checkpoint(wanted)),
  )


def test_episodes_that_cannot_be_resumed_are_reset():
  """Network states and the returns so far are those of new episodes."""
  config = small.settings('actor_critic')
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  make = lambda: population_lib.Population(
    registry.environment_fn('gym:CartPole-v1'),
    config,
    batching_lib.Batching(**small.SIZES),
    devices=jax.devices()[:1],
  )
  population = make()
  state, _ = population.run({}, population.init(), 2)
  assert np.asarray(state.episodes.length).max() > 0
  saved = jax.device_get(population.to_checkpoint(state))
  resumed = make().from_checkpoint(saved)
  np.testing.assert_array_equal(resumed.episodes.length, -1)
  assert not np.asarray(resumed.episodes.episode_return).any()
  memory = jax.tree.leaves(resumed.actor[0].net_state)
  assert memory and not any(np.asarray(x).any() for x in memory)


def test_agents_begin_the_same_in_environments_used_before():
  population = population_lib.Population(
    registry.environment_fn('gym:CartPole-v1'),
    small.settings('actor_critic'),
    batching_lib.Batching(**small.SIZES),
    seeds=(0, 3),
    devices=jax.devices()[:1],
  )
  _, first = population.run({}, population.init(), 6)
  _, second = population.run({}, population.init(), 6)
  jax.tree.map(np.testing.assert_array_equal, first, second)
  population.close()


def test_host_environments_may_have_any_states():
  """Only the environment reads them."""

  class Objects(base.Environment):
    def __init__(self, batch_size):
      super().__init__(batch_size)
      self._inner = registry.get_environment('catch_numpy', batch_size)

    def single_observation_spec(self):
      return self._inner.single_observation_spec()

    def single_action_spec(self):
      return self._inner.single_action_spec()

    def reset(self, rng):
      return object(), self._inner.reset(rng)[1]

    def step(self, states, actions):
      return object(), self._inner.step(None, actions)[1]

  population = population_lib.Population(
    lambda batch_size, seed: Objects(batch_size),
    small.settings('actor_critic'),
    batching_lib.Batching(**small.SIZES),
    devices=jax.devices()[:1],
  )
  _, metrics = population.run({}, population.init(), 6)
  assert np.isfinite(metrics['total_loss'][-1])


@pytest.mark.parametrize('seeds', [(), (1, 1), (-1,), (2**31,)])
def test_impossible_seeds_are_refused(seeds):
  with pytest.raises(ValueError, match='seed'):
    small.make_population(seeds=seeds)


def test_default_devices_divide_environments_and_batch():
  """Ten environments and a batch of 96: two of eight devices, not five."""
  batching = batching_lib.Batching(
    batch_size=96,
    num_envs=batching_lib.num_fresh(96, replay_fraction=0.9),
    fresh_in_batch=True,
    replay_capacity=1000,
  )
  assert batching.num_envs == 10
  population = population_lib.Population(
    registry.environment_fn('catch'), small.settings('actor_critic'), batching
  )
  assert len(population.placement.devices) == 2
