"""Groups on the host that are alike are joined, and learn as they do alone."""

import jax
import numpy as np
import pytest

from disco_rl import parallel
from disco_rl.environments import registry
from disco_rl.meta_training import alike
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


def test_neighbours_are_joined_until_rows_divide_them(settings):
  numbers = (3, 3, 2, 2, 2)
  groups = [_group(settings, *own) for own in zip(NAMES, numbers, strict=True)]
  place = lambda num_devices, rows=None: alike.place(
    groups, NAMES, num_devices, rows
  )
  assert place(1) == (groups, 1)
  assert place(1, 1) == (groups, 1)
  joined, rows = place(6)
  assert (_sizes(joined), rows) == ([[3, 3], [2, 2, 2]], 6)
  assert [group.num_agents for group in joined] == [6, 6]
  assert [group.name for group in joined] == ['a, b', 'c, d, e']
  joined, rows = place(4)
  assert (_sizes(joined), rows) == ([[3, 3, 2], [2, 2]], 4)
  joined, rows = place(8, 2)
  assert (_sizes(joined), rows) == ([[3, 3], [2], [2], [2]], 2)
  # 12 agents: no more than 12 rows.
  joined, rows = place(24)
  assert (_sizes(joined), rows) == ([[3, 3, 2, 2, 2]], 12)
  # What cannot be joined stays as it is, for an error that names the rows.
  joined, rows = place(5, 5)
  assert (_sizes(joined), rows) == ([[3, 3, 2, 2], [2]], 5)
  with pytest.raises(ValueError, match=r'2 agents .* 5 rows'):
    trainer_lib.Trainer(
      joined,
      small_meta.config(),
      placement=parallel.Placement(jax.devices()[:5], num_lane_shards=5),
    )


def test_groups_that_differ_are_not_joined(settings):
  wide = _group(settings, 'b', columns=9)
  other = settings.copy_and_resolve_references()
  other.learning_rate = 0.5
  in_jax = _group(settings, 'd', env='catch')
  groups = [
    _group(settings, 'a'),
    wide,
    _group(other, 'c'),
    in_jax,
    _group(settings, 'e'),
  ]
  joined, rows = alike.place(groups, set(NAMES) - {'d'}, 2, None)
  assert (joined, rows) == (groups, 1)


@pytest.mark.parametrize('lifetimes', [(), (1, 2)])
def test_joined_groups_learn_as_they_do_alone(settings, lifetimes):
  groups = [_group(settings, 'a', 1), _group(settings, 'b', 3)]
  (joined,), rows = alike.place(groups, NAMES, 2, None)
  assert rows == 2
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


def test_names_of_members_must_differ(settings):
  joined, _ = alike.place(
    [_group(settings, 'a'), _group(settings, 'b')], NAMES, 2, None
  )
  with pytest.raises(ValueError, match='different names'):
    trainer_lib.Trainer(
      [*joined, _group(settings, 'b', 2)], small_meta.config()
    )
