"""Acting, replay, episode returns, and the experiment made of them."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop as experiment
from disco_rl.evaluation import evaluate as evaluation
from disco_rl.evaluation import population as population_lib
from disco_rl.learning import actors as acting
from disco_rl.learning import episodes
from disco_rl.learning import replay
from tests.support import golden
from tests.support import small


def _rollout(values, num_steps=3):
  """One trajectory per value, which is everywhere in it."""
  x = jnp.broadcast_to(
    jnp.asarray(values, jnp.float32), (num_steps, len(values))
  )
  return types.ActorRollout(
    observations={'o': x[..., None]},
    actions=x.astype(jnp.int32),
    rewards=x,
    discounts=x > 0,
    agent_outs=dict(logits=x[..., None]),
    states={},
    logits=x[..., None],
  )


def test_replay_is_first_in_first_out():
  buffer = replay.init(_rollout([0, 0]), capacity=6)
  add = jax.jit(replay.add)
  for i in range(5):
    buffer = add(buffer, _rollout([2 * i, 2 * i + 1]))
    newest = range(max(0, 2 * i - 4), 2 * i + 2)
    stored = buffer.data.rewards[: int(replay.size(buffer)), 0]
    assert sorted(stored.tolist()) == list(newest)
  assert add._cache_size() == 1
  assert buffer.data.observations['o'].shape == (6, 3, 1)
  assert buffer.data.actions.dtype == jnp.int32


def test_replay_samples_whole_trajectories_uniformly():
  buffer = replay.init(_rollout([0, 0]), capacity=8)
  for i in range(2):  # Half full: the other half must not be sampled.
    buffer = replay.add(buffer, _rollout([1 + 2 * i, 2 + 2 * i]))
  batch = jax.jit(replay.sample, static_argnums=2)(
    buffer, jax.random.PRNGKey(0), 4000
  )
  assert batch.rewards.shape == (3, 4000)
  for leaf in (batch.rewards, batch.actions, batch.logits[..., 0]):
    np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[0], leaf.shape))
  np.testing.assert_array_equal(batch.rewards, batch.actions)
  counts = np.bincount(np.asarray(batch.actions[0]), minlength=5)
  assert counts[0] == 0
  np.testing.assert_allclose(counts[1:], 1000, atol=4 * np.sqrt(750))


@pytest.mark.parametrize('capacity', [0, 1, 7])
def test_replay_of_an_odd_size_is_refused(capacity):
  with pytest.raises(ValueError, match=f'multiple of the 2 .* got {capacity}'):
    replay.init(_rollout([0, 0]), capacity)


def test_episode_returns_do_not_depend_on_the_cuts():
  rng = np.random.RandomState(0)
  rewards = rng.normal(size=(24, 3)).astype(np.float32)
  discounts = rng.rand(24, 3) > 0.2
  wanted_returns, wanted_lengths = [], []
  for b in range(3):
    total, length = 0.0, -1  # The first step is no transition.
    for t in range(24):
      total, length = total + rewards[t, b], length + 1
      if not discounts[t, b]:
        wanted_returns.append(total)
        wanted_lengths.append(length)
        total, length = 0.0, 0
  for cut in (24, 8, 3):
    running = episodes.init(3)
    totals = np.zeros(3)
    for start in range(0, 24, cut):
      part = slice(start, start + cut)
      running, finished = episodes.update(
        running, rewards[part], discounts[part]
      )
      totals += np.array(finished)
    np.testing.assert_allclose(
      totals,
      [len(wanted_returns), sum(wanted_returns), sum(wanted_lengths)],
      1e-4,
    )


def test_host_acting_is_device_acting():
  an_agent, env = small.make_agent('actor_critic'), small.environment()
  rng = jax.random.PRNGKey(0)
  params = an_agent.initial_learner_state(rng).params
  state = acting.initial_actor_state(an_agent, env, rng)
  host = acting.HostUnroll(an_agent, num_steps=6)
  device = jax.jit(
    lambda state, rng: acting.unroll_jittable(
      an_agent, env, params, state, rng, 6
    )
  )
  host_state = state
  for key in jax.random.split(rng, 2):
    state, rollout = device(state, key)
    host_state, host_rollout = host(env, params, host_state, key)
    golden.check_trees_close(
      jax.tree.map(np.asarray, rollout), host_rollout, 1e-5
    )
    golden.check_trees_close(host_state, state, 1e-5)
  assert set(rollout.agent_outs) == {'logits'}


def test_learning_waits_for_the_replay_to_fill():
  population, eta = small.make_population()
  state = population.init()
  first = jax.device_get(state.learner.params)
  # Two trajectories an iteration, eight needed.
  state, metrics = population.run(eta, state, 3)
  assert np.isnan(metrics['total_loss']).all()
  golden.check_trees_close(jax.device_get(state.learner.params), first, 0)
  state, metrics = population.run(eta, state, 3)
  assert np.isfinite(metrics['total_loss']).all()
  assert int(state.iteration) == 6
  assert all(x.shape == (3, 1) for x in metrics.values())


@pytest.mark.parametrize('env_name', ['catch', 'catch_numpy'])
@pytest.mark.parametrize('replay_ratio', [1, 4])
def test_every_kind_of_environment_with_and_without_replay(
  env_name, replay_ratio
):
  population, eta = small.make_population(
    env_name=env_name, replay_ratio=replay_ratio
  )
  state = population.init()
  assert (state.buffer is None) == (replay_ratio == 1)
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
  """To the bit as users compile it.

  Here, see `conftest.py`, the larger program is not optimised and rounds
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


def test_seeds_in_lockstep_learn_as_in_turns():
  in_turns, eta = small.make_population(seeds=(0, 1), vectorize=False)
  lockstep, _ = small.make_population(seeds=(0, 1), vectorize=True)
  wanted, wanted_metrics = in_turns.run(eta, in_turns.init(), 8)
  actual, metrics = lockstep.run(eta, lockstep.init(), 8)
  golden.check_trees_close(actual.learner.params, wanted.learner.params, 1e-4)
  np.testing.assert_array_equal(
    metrics['total_return'], wanted_metrics['total_return']
  )


@pytest.mark.parametrize(
  ('sizes', 'message'),
  [
    (dict(batch_size=0), 'batch_size must be at least 1'),
    (dict(rollout_length=1), 'rollout_length must be at least 2'),
    (dict(batch_size=10), r'batch_size \(10\) must be a multiple of'),
    (dict(replay_capacity=15), r'replay_capacity \(15\) must be a multiple'),
    (dict(replay_capacity=4), r'min_replay_size \(8\) must be between 1 and'),
    (dict(min_replay_size=0), r'min_replay_size \(0\) must be between'),
  ],
)
def test_nonsense_sizes_are_refused(sizes, message):
  with pytest.raises(ValueError, match=message):
    small.make_population(**sizes)


def test_environment_of_another_size_is_refused():
  env = registry.get_environment('catch', 3, rows=5, columns=4)
  an_agent = small.make_agent('actor_critic')
  with pytest.raises(ValueError, match='has 3 streams'):
    experiment.Experiment(an_agent, env, experiment.Config())


def test_a_fraction_of_every_batch_is_fresh(monkeypatch):
  """The rollout just made comes first, the rest from the replay."""
  sizes = dict(batch_size=8, replay_fraction=0.7, replay_capacity=16)
  config = experiment.Config(**{**small.SIZES, **sizes})
  assert (config.num_envs, config.num_replayed) == (2, 6)
  own = config.per_device(2)
  assert (own.num_envs, own.num_replayed) == (1, 3)
  population, eta = small.make_population(**sizes)
  seen = []
  learner_step = type(population.agent).learner_step

  def spy(self, rng, rollout, *args, **kwargs):
    seen.append(rollout.rewards.shape)
    jax.debug.callback(
      lambda x, y: batches.append((x, y)), rollout.logits, rollout.rewards
    )
    return learner_step(self, rng, rollout, *args, **kwargs)

  batches = []
  monkeypatch.setattr(type(population.agent), 'learner_step', spy)
  state = population.init()
  state, metrics = population.run(eta, state, 6)
  jax.effects_barrier()
  assert set(seen) == {(6, 8)}
  assert np.isfinite(metrics['total_loss'][config.num_warm_up :]).all()
  stored = np.asarray(state.buffer.data.logits)[0]  # [capacity, T+1, A]
  # The last batch begins with the two trajectories stored last.
  last = int(state.buffer.num_added)
  fresh = np.moveaxis(batches[-1][0][:, :2], 1, 0)
  np.testing.assert_array_equal(fresh, stored[last - 2 : last])


def _with_memory(config):
  """An agent with these settings and an LSTM, on Catch."""
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  return population_lib.Population(
    registry.environment_fn('catch', rows=5, columns=4),
    config,
    experiment.Config(**small.SIZES),
    devices=jax.devices()[:1],
  )


def test_replay_keeps_only_the_first_state_of_a_memory():
  population = _with_memory(small.settings('actor_critic'))
  state, metrics = population.run({}, population.init(), 6)
  assert np.isfinite(metrics['total_loss'][-1]).all()
  states = jax.tree.leaves(state.buffer.data.states)
  assert {x.shape for x in states} == {(1, 16, 1, 4)}
  # Those of later rollouts are not zero: they go on where the last one ended.
  assert any(np.abs(x[0, 2:12]).max() > 0 for x in states)


def test_a_memory_goes_on_from_the_state_stored_with_its_trajectory():
  """What was acted is what the unroll of a sampled batch computes."""
  config = small.settings('actor_critic')
  config.learning_rate = 0.0  # So that old trajectories are this network's.
  population = _with_memory(config)
  state, _ = population.run({}, population.init(), 10)
  params, buffer = jax.tree.map(
    lambda x: x[0], (state.learner.params, state.buffer.data)
  )
  batch = replay.sample(
    replay.ReplayState(buffer, jnp.asarray(16)), jax.random.PRNGKey(0), 12
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
  """That of all seeds together, before any of it is there."""
  seeds = (0, 1)
  small_one, _ = small.make_population(seeds=seeds, replay_capacity=16)
  buffer = small_one.init().buffer
  row = sum(x.nbytes for x in jax.tree.leaves(buffer.data)) // 16
  memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  # Of one seed it would fit.
  capacity = int(1.5 * memory / row) // 2 * 2
  large_one, _ = small.make_population(seeds=seeds, replay_capacity=capacity)
  with pytest.raises(ValueError, match=r'needs \d+\.\d GB, but this machine'):
    large_one.init()


def test_overlapped_acting_lags_one_update():
  """Against a loop that acts with the parameters of one update before."""
  population, eta = small.make_population(
    env_name='catch_numpy', replay_ratio=1, overlap_acting=True
  )
  state, metrics = population.run(eta, population.init(), 4)
  other, _ = small.make_population(env_name='catch_numpy', replay_ratio=1)
  wanted = other.init()
  old_params = wanted.learner.params
  for i in range(4):
    params = jax.tree.map(jnp.copy, wanted.learner.params)
    keys = population_lib._next_keys(wanted.rng)
    actors, rollouts = other._act_on_host(old_params, wanted.actor, keys[:, 1])
    wanted, log = other._learn(
      eta, wanted._replace(rng=keys[:, 0], actor=None), rollouts, keys[:, 2]
    )
    wanted = wanted._replace(actor=actors)
    np.testing.assert_array_equal(log['total_loss'], metrics['total_loss'][i])
    old_params = params
  golden.check_trees_close(
    jax.device_get(state.learner.params),
    jax.device_get(wanted.learner.params),
    0,
  )


def test_episodes_that_cannot_be_resumed_begin_anew():
  """Their memory and what they had earned are those of a beginning."""
  config = small.settings('actor_critic')
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  make = lambda: population_lib.Population(
    registry.environment_fn('gym:CartPole-v1'),
    config,
    experiment.Config(**small.SIZES),
    devices=jax.devices()[:1],
  )
  population = make()
  state, _ = population.run({}, population.init(), 2)
  assert np.asarray(state.episodes.length).max() > 0
  resumed = make().restored(jax.device_get(population.to_save(state)))
  np.testing.assert_array_equal(resumed.episodes.length, -1)
  assert not np.asarray(resumed.episodes.episode_return).any()
  memory = jax.tree.leaves(resumed.actor[0].net_state)
  assert memory and not any(np.asarray(x).any() for x in memory)


def test_agents_begin_the_same_in_environments_used_before():
  population = population_lib.Population(
    registry.environment_fn('gym:CartPole-v1'),
    small.settings('actor_critic'),
    experiment.Config(**small.SIZES),
    seeds=(0, 3),
    devices=jax.devices()[:1],
  )
  _, first = population.run({}, population.init(), 6)
  _, second = population.run({}, population.init(), 6)
  jax.tree.map(np.testing.assert_array_equal, first, second)
  population.close()


def test_host_environments_may_have_any_states():
  """They are nobody's business but the environment's."""

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
    experiment.Config(**small.SIZES),
    devices=jax.devices()[:1],
  )
  _, metrics = population.run({}, population.init(), 6)
  assert np.isfinite(metrics['total_loss'][-1])


def test_default_settings_have_the_network_that_suits_the_environment():
  names = {
    env: evaluation.default_agent_settings('disco', env).net_settings.name
    for env in (None, 'catch', 'gymnax:Breakout-MinAtar')
  }
  assert list(names.values()) == ['mlp', 'mlp', 'conv']


def test_default_devices_divide_environments_and_batch():
  """Ten environments and a batch of 96: two of eight devices, not five."""
  config = experiment.Config(
    batch_size=96, replay_fraction=0.9, replay_capacity=1000
  )
  assert config.num_envs == 10
  assert len(population_lib._choose_devices(None, config)) == 2
