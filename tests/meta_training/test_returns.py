"""Returns by group, by family of tasks, and at the end of lifetimes."""

import jax
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.meta_training import pictures
from disco_rl.meta_training import returns
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import small
from tests.support import small_meta

SOURCES = [returns.Source('a', ('x', 'y', 'z')), returns.Source('b')]
LOGS = [
  dict(
    num_episodes=np.array([2.0, 3.0, 0.0]),
    total_return=np.array([4.0, -3.0, 0.0]),
    family=np.array([1, 0, 1]),
    reward_scale=np.array([0.5, 3.0, 1.0]),
    is_last=np.array([False, True, True]),
  ),
  dict(
    num_episodes=np.array([4.0]),
    total_return=np.array([2.0]),
    family=np.array([0]),
    reward_scale=np.array([1.0]),
    is_last=np.array([False]),
  ),
]


def test_averages():
  row = returns.averages(SOURCES, LOGS, lifetimes=(4,))
  assert row.pop('return/a') == pytest.approx(0.2)
  nan = [name for name in row if np.isnan(row[name])]
  assert {name.replace('return', 'episodes') for name in nan} == {
    name for name in row if 'episodes' in name and not row[name]
  }
  wanted = {
    'episodes/a': 5,
    'family_episodes/a/x': 3,
    'family_return/a/x': -1 / 3,  # -3 / 3 episodes / a scale of 3.
    'family_episodes/a/y': 2,
    'family_return/a/y': 4.0,
    'last_episodes/a': 3,
    'last_return/a': -1.0,
    'last_family_episodes/a/x': 3,
    'last_family_return/a/x': -1 / 3,
    'episodes/b': 4,
    'return/b': 0.5,
  }
  assert {k: x for k, x in row.items() if x and x == x} == pytest.approx(wanted)
  names = returns.names(SOURCES, lifetimes=(4,))
  assert sorted(names) == sorted([*row, 'return/a'])


def test_without_lifetimes_there_are_no_last_returns():
  row = returns.averages(SOURCES, LOGS, lifetimes=())
  assert row['family_return/a/y'] == 4.0
  assert not any(name.startswith('last') for name in row)


def test_pictures_have_panels_by_family():
  rows = [
    dict(iteration=i, **returns.averages(SOURCES, LOGS, (4,))) for i in (1, 2)
  ]
  figure = pictures.draw(pictures.RETURNS, rows)
  titles = [axes.get_title() for axes in figure.axes]
  assert titles == [
    'return of agents in training: a',
    'at the end of lifetimes: a',
    'by family: a',
    'by family, at the end: a',
    'return of agents in training: b',
    'at the end of lifetimes: b',
  ]
  assert len(figure.axes[2].get_lines()) == 3


def test_meta_training_in_tasks():
  """Agents keep their tasks until they are reset; families are logged."""
  name = 'tasks:all'
  group = trainer_lib.Group(
    registry.environment_fn(name, families=('bandit', 'memory')),
    small_meta.with_critic(small.settings('disco')),
    num_agents=3,
    name=name,
  )
  trainer = small_meta.make_trainer(
    group, num_inner_updates=1, lifetimes=(2,), agent_learning_rates=(1e-3, 0.1)
  )
  rng = jax.random.PRNGKey(3)
  state = trainer.init(rng, trainer.init_params(rng))
  ages, num_reset = [], 0
  for i in range(3):
    before = state.groups[0]
    is_over = np.asarray(before.updates_left) <= 0
    task = jax.tree.map(np.asarray, before.agents.actor.env_state.task)
    factor = np.asarray(before.agents.learner.opt_state.factor)
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    assert {*trainer.average_names()} == {*log.averages}
    new_task = state.groups[0].agents.actor.env_state.task
    changed = np.any(task.scale != np.asarray(new_task.scale), axis=1)
    np.testing.assert_array_equal(changed, is_over)
    num_reset += is_over.sum()
    new_factor = np.asarray(state.groups[0].agents.learner.opt_state.factor)
    np.testing.assert_array_equal(factor != new_factor, is_over)
    rates = new_factor * group.agent_settings.learning_rate
    assert (rates >= 1e-3).all() and (rates <= 0.1).all()
    assert rates.max() > 1.5 * rates.min()
    age = log.per_agent['age']
    ages.append(age)
    np.testing.assert_array_equal(age[is_over], 1)
    if i:
      np.testing.assert_array_equal(age[~is_over], ages[-2][~is_over] + 1)
    np.testing.assert_array_equal(
      log.per_agent['family'], np.asarray(new_task.family)[:, 0]
    )
    is_last = log.per_agent['is_last']
    episodes = log.per_agent['num_episodes']
    assert log.averages[f'last_episodes/{name}'] == episodes[is_last].sum()
    total = 0
    for k, family in enumerate(('bandit', 'memory')):
      own = episodes[log.per_agent['family'] == k].sum()
      assert log.averages[f'family_episodes/{name}/{family}'] == own
      total += own
    assert total == log.averages[f'episodes/{name}'] > 0
  assert num_reset >= 2
  assert trainer._update._cache_size() == trainer._reset._cache_size() == 1
