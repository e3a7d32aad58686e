"""Groups on the host that are alike are joined, and learn as they do alone."""

import types

import jax
import numpy as np
import pytest

from disco_rl import memory
from disco_rl import parallel
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.meta_training import alike
from disco_rl.meta_training import groups as groups_lib
from disco_rl.meta_training import plan as plan_lib
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import golden
from tests.support import small_meta

BOARD = dict(rows=5, columns=4)
NAMES = ('a', 'b', 'c', 'd', 'e')


@pytest.fixture
def settings(own_rule, monkeypatch):
  """Settings of agents; `NAMES` are names of Catch on the host."""
  for name in NAMES:
    entry = registry.ENVIRONMENTS['catch_numpy']
    monkeypatch.setitem(registry.ENVIRONMENTS, name, entry)
  own = small_meta.with_critic(own_rule['agent_settings'])
  own.net_settings.net_args.dense = (9, 8)
  return own


def _group(settings, name, num_agents=1, env='catch_numpy', **board):
  env_fn = registry.environment_fn(env, **{**BOARD, **board})
  return trainer_lib.Group(env_fn, settings, num_agents, name=name)


def _sizes(groups):
  return [[own.num_agents for own in group.parts] for group in groups]


def _place(groups, num_devices, rows=None, num_envs=1, processes=1):
  """Arranges groups on devices of some processes, without making arrays."""
  config = small_meta.config(
    num_envs=num_envs, batch_size=num_envs, num_inner_updates=1
  )
  probes = {own.name: own.env_fn for own in groups if own.name != 'in_jax'}
  devices = [
    types.SimpleNamespace(process_index=i * processes // num_devices)
    for i in range(num_devices)
  ]
  joined, rows = alike.place(groups, probes, config, devices, rows)
  return [[own.num_agents for own in group.parts] for group in joined], rows


def test_neighbours_are_joined_until_rows_divide_them(settings):
  numbers = (3, 3, 2, 2, 2)
  groups = [_group(settings, *own) for own in zip(NAMES, numbers, strict=True)]
  alone = [[n] for n in numbers]
  assert _place(groups, 1) == (alone, 1)
  assert _place(groups, 1, 1) == (alone, 1)
  assert _place(groups, 6) == ([[3, 3], [2, 2, 2]], 6)
  assert _place(groups, 4) == ([[3, 3, 2], [2, 2]], 4)
  assert _place(groups, 8, 2) == ([[3, 3], [2], [2], [2]], 2)
  # No more than needed: batches can be sharded instead.
  assert _place(groups, 6, num_envs=6) == (alone, 1)
  # No more rows than agents; the columns divide the batches.
  assert _place(groups, 24, num_envs=2) == ([[3, 3, 2, 2, 2]], 12)
  # Nothing fits.
  assert _place(groups, 24) == (alone, 1)
  # Rows of several processes consist of whole ones: not 3 rows of 2 devices.
  three = groups[:1]
  three += [_group(settings, 'b', 3)]
  assert _place(three, 6, num_envs=2, processes=2) == ([[3, 3]], 6)
  nine = [_group(settings, name, 3) for name in NAMES[:3]]
  assert _place(nine, 6, num_envs=2) == ([[3]] * 3, 3)
  assert _place(nine, 6, num_envs=2, processes=2) == ([[3]] * 3, 3)


def test_names_and_errors_of_joint_groups(settings):
  groups = [_group(settings, 'a', 3), _group(settings, 'b', 2)]
  joined = groups_lib.join(groups)
  assert (joined.name, joined.num_agents) == ('a, b', 5)
  placement = parallel.Placement(jax.devices()[:3], num_lane_shards=3)
  with pytest.raises(
    ValueError, match=r"5 agents of a group \('a, b'\) .* 3 rows"
  ):
    trainer_lib.Trainer([joined], small_meta.config(), placement=placement)
  with pytest.raises(ValueError, match='different names'):
    trainer_lib.Trainer([joined, _group(settings, 'b')], small_meta.config())


def test_groups_that_differ_are_not_joined(settings):
  other = settings.copy_and_resolve_references()
  other.learning_rate = 0.5
  groups = [
    _group(settings, 'a'),
    _group(settings, 'b', columns=9),
    _group(other, 'c'),
    _group(settings, 'in_jax', env='catch'),
    _group(settings, 'e'),
  ]
  assert _place(groups, 2) == ([[1]] * 5, 1)


@pytest.mark.parametrize('lifetimes', [(), (1, 2)])
def test_joined_groups_learn_as_they_do_alone(settings, lifetimes):
  groups = [_group(settings, 'a', 1), _group(settings, 'b', 3)]
  joined = groups_lib.join(groups)
  results = []
  for own, num_devices in ((groups, 1), ([joined], 2)):
    trainer = trainer_lib.Trainer(
      own,
      small_meta.config(num_inner_updates=1, lifetimes=lifetimes),
      placement=parallel.Placement(
        jax.devices()[:num_devices], num_lane_shards=num_devices
      ),
      env_seed=5,
    )
    eta = trainer.init_params(jax.random.PRNGKey(1))
    state = trainer.init(jax.random.PRNGKey(2), eta)
    logs = []
    for i in range(3):
      state, log = trainer.update(state, jax.random.PRNGKey(10 + i))
      logs.append(tuple(log))
    assert {*logs[0][0]} == {*trainer.average_names()}
    results.append(logs)
    trainer.close()
  golden.check_trees_close(results[1], results[0], 1e-4)
  averages = results[1][-1][0]
  assert averages['episodes/a'] > 0 and averages['episodes/b'] > 0
  assert np.isfinite(averages['return/b'])


# Two names of one environment.
_CART_POLES = (
  'gym:gymnasium.envs.classic_control:CartPoleEnv',
  'gym:gymnasium.envs.classic_control.cartpole:CartPoleEnv',
)


def _plan(**settings):
  sizes = {
    'batching.num_envs': 3,
    'batching.batch_size': 3,
    'batching.rollout_length': 4,
  }
  request = dict(
    env=list(_CART_POLES),
    num_agents=1,
    devices=2,
    settings={**sizes, **settings},
  )
  return plan_lib.Plan({**resolve.META_TRAINING, **request})


def test_a_plan_joins_environments_that_have_workers():
  workers = {f'env.{name}.num_workers': 3 for name in _CART_POLES}
  (joined,), rows = _plan(**workers)._groups()
  assert [own.name for own in joined.parts] == list(_CART_POLES)
  assert (joined.num_agents, rows) == (2, 2)


def test_a_dry_run_counts_joint_groups_that_do_not_fit(monkeypatch):
  """Their observations do not fit either, and a start says so first."""
  plan = _plan()
  monkeypatch.setattr(memory, 'available', lambda: 1000)
  found = plan.dry_run(flops=1e12)
  assert '2 agents on 2 devices' in found.notes[0]
  assert 'this run needs' in str(found.error)
  trainer = plan.make_trainer()
  with pytest.raises(ValueError, match='observations of one meta-update'):
    trainer.check_memory()
  trainer.close()
