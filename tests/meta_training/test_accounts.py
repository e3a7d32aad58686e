"""What a dry run says is what the run does."""

import jax
import numpy as np
import pytest

from disco_rl import arithmetic
from disco_rl import parallel
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.learning import footprint
from disco_rl.meta_training import accounts
from disco_rl.meta_training import alike
from disco_rl.meta_training import plan as plan_lib
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import documented_rule
from tests.support import small_meta

SIZES = dict(
  batch_size=6,
  num_envs=2,
  replay_capacity=8,
  adam_per_agent=True,
  num_inner_updates=2,
)


@pytest.fixture
def settings(own_rule):
  own = small_meta.with_critic(own_rule['agent_settings'])
  own.net_settings.net_args.dense = (9, 8)
  return own


def _group(settings, name, num_agents=2, **board):
  env_fn = registry.environment_fn(name, rows=5, columns=4, **board)
  return trainer_lib.Group(env_fn, settings, num_agents, name=name)


def _trainer(groups, devices=1, rows=1):
  placement = parallel.Placement(jax.devices()[:devices], num_lane_shards=rows)
  return trainer_lib.Trainer(
    groups, small_meta.config(**SIZES), placement=placement
  )


def _init(trainer):
  eta = trainer.init_params(jax.random.PRNGKey(1))
  return trainer.init(jax.random.PRNGKey(2), eta)


def test_arithmetic_is_that_of_the_program_that_runs(settings):
  trainer = _trainer([_group(settings, 'catch')])
  account = accounts.of_trainer(trainer)
  state, rng = _init(trainer), jax.random.PRNGKey(3)
  traced = trainer.trace(state, rng)
  assert account.flop == arithmetic.of_program(traced) > 0
  # The first meta-update runs this program, traced only once.
  before = trainer._update._cache_size()
  state, _ = trainer.update(state, rng)
  assert trainer._update._cache_size() == before + 1
  # XLA counts the bodies of loops once, so it finds less.
  (cost,) = [traced.lower().compile().cost_analysis()]
  cost = cost[0] if isinstance(cost, list) else cost
  assert 0 < cost['flops'] < 10 * account.flop


def test_environment_steps_are_those_acted(settings):
  trainer = _trainer([_group(settings, 'catch_numpy', num_agents=3)])
  account = accounts.of_trainer(trainer)
  state = _init(trainer)
  host = trainer.hosts.groups[0]
  agents = state.groups[0].agents
  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  _, rollouts = host.act(
    host.prepare(agents.learner.params, keys), agents.actor, 1
  )
  assert account.env_steps == rollouts.rewards.size == 3 * (2 * 7 + 14) * 2
  assert account.num_agents == 3
  trainer.close()


@pytest.mark.parametrize('names', [['catch'], ['catch', 'catch_numpy']])
def test_the_memory_is_that_of_the_check(settings, names):
  trainer = _trainer([_group(settings, name) for name in names])
  account = accounts.of_trainer(trainer)
  assert account.parts == trainer.check_memory().parts
  assert account.per_device['replay'] == account.parts['replay'] > 0
  assert account.per_device['the rule'] == account.parts['the rule'] > 0
  trainer.close()


def test_the_memory_of_a_device_is_that_of_its_shards(settings):
  trainer = _trainer([_group(settings, 'catch')], devices=4, rows=2)
  account = accounts.of_trainer(trainer)
  state = _init(trainer)
  state, _ = trainer.update(state, jax.random.PRNGKey(3))

  def on_first(tree):
    return sum(
      shard.data.nbytes
      for x in jax.tree.leaves(tree)
      for shard in x.addressable_shards
      if shard.device == jax.devices()[0]
    )

  agents = [group.agents for group in state.groups]
  of_rule = (state.eta, [group.opt_states for group in state.groups])
  wanted = {
    'replay': on_first([agent.buffer for agent in agents]),
    **{
      name: on_first([footprint.parts(agent.learner)[name] for agent in agents])
      for name in footprint.parts(agents[0].learner)
    },
    'the rule': on_first(of_rule),
  }
  for name, size in wanted.items():
    np.testing.assert_allclose(account.per_device[name], size, rtol=0.01)
  assert account.num_devices == 4


def test_groups_that_are_alike_share_their_program(settings, monkeypatch):
  names = ['catch_numpy', 'catch', 'second', 'third', 'wide']
  for name in ('second', 'third', 'wide'):
    entry = registry.ENVIRONMENTS['catch_numpy']
    monkeypatch.setitem(registry.ENVIRONMENTS, name, entry)
  groups = [_group(settings, name) for name in names[:3]]
  groups.append(_group(settings, 'third', num_agents=1))
  wide = registry.environment_fn('wide', rows=5, columns=9)
  groups.append(trainer_lib.Group(wide, settings, 2, name='wide'))
  # Those with another number of agents, or another board, are different.
  probes = {own.name: own.env_fn for own in groups if own.name != 'catch'}
  counts = alike.count(groups, probes)
  assert counts == {0: 2, 1: 1, 3: 1, 4: 1}
  whole = _trainer(groups)
  programs = whole._update._contribute
  assert programs[0] is programs[2]
  assert len({id(program) for program in programs}) == 4
  one = accounts.of_trainer(whole)
  part = _trainer([groups[i] for i in counts])
  other = accounts.of_trainer(part, list(counts.values()))
  assert (one.flop, one.env_steps, one.num_agents) == (
    *(other.flop, other.env_steps, other.num_agents),
  )
  for name, size in one.parts.items():
    assert other.parts[name] == size, name
  assert one.per_device == other.per_device
  for trainer in (whole, part):
    trainer.close()


def test_results_do_not_depend_on_shared_programs(settings, monkeypatch):
  """Two groups of the same game learn as two that are compiled apart."""
  entry = registry.ENVIRONMENTS['catch_numpy']
  monkeypatch.setitem(registry.ENVIRONMENTS, 'second', entry)
  groups = [_group(settings, name) for name in ('catch_numpy', 'second')]
  results = []
  for share in (True, False):
    if not share:
      apart = lambda groups, built: list(range(len(groups)))
      monkeypatch.setattr(alike, 'first_of_each', apart)
    trainer = _trainer(groups)
    state = _init(trainer)
    for i in range(2):
      state, log = trainer.update(state, jax.random.PRNGKey(i))
    results.append((jax.device_get(state.eta), log.averages))
    trainer.close()
  jax.tree.map(np.testing.assert_array_equal, *results)


def test_words(monkeypatch):
  account = accounts.Account(
    parts={},
    per_device=dict(replay=3 * 10**9, agents=10**9),
    num_devices=2,
    num_processes=1,
    num_agents=4,
    env_steps=12_345,
    flop=486e12,
  )
  memory, work, time = accounts.describe(account, flops=1e12)
  assert (
    '4 agents on 2 devices, each with at least 4.0 GB (replay 3.0' in memory
  )
  assert '12,345 environment steps and 486.0 TFLOP (20,000.0 units)' in work
  assert 'about 4.0 minutes at 1.0 TFLOP/s per device, as given' in time
  monkeypatch.setattr(arithmetic, 'measure_speed', lambda: 1e12)
  _, _, time = accounts.describe(account)
  # The simulated devices share this machine.
  assert 'about 8.1 minutes at 1.0 TFLOP/s, as measured here' in time
  more = account._replace(flop=86.4e18)
  assert 'about 1,000.0 days' in accounts.describe(more)[2]


def test_the_published_experiment_is_counted_from_one_trace(
  tmp_path, monkeypatch
):
  """At its size, with boards in place of the games, and another rule."""
  monkeypatch.chdir(tmp_path)
  name = documented_rule.write(tmp_path).removeprefix('--use=')
  monkeypatch.syspath_prepend(str(tmp_path))
  games = [f'game_{i}' for i in range(57)]
  for game in games:
    entry = registry.ENVIRONMENTS['catch_numpy']
    monkeypatch.setitem(registry.ENVIRONMENTS, game, entry)
  request = dict(
    preset='disco57', env=games, use=[name], rule='entropy_cost', devices=1
  )
  plan = plan_lib.Plan({**resolve.META_TRAINING, **request})
  traced = []
  original = trainer_lib.Trainer._trace
  monkeypatch.setattr(
    trainer_lib.Trainer,
    '_trace',
    lambda self: traced.append(self.group_names) or original(self),
  )
  found = plan.dry_run(flops=1e15)
  assert traced == [['game_0', 'game_14']]  # Three agents, and two.
  assert '128 agents on 1 device' in found.notes[0]
  steps = 128 * 10 * (20 * 29 + 58)
  assert f'{steps:,} environment steps' in found.notes[1]
