"""Scores of cells, and files of anchors and tuned settings."""

import json

import numpy as np
import pytest

from disco_rl.benchmarking import anchors as anchors_lib
from disco_rl.benchmarking import random_policy
from disco_rl.benchmarking import rows as rows_lib
from disco_rl.benchmarking import scores
from disco_rl.benchmarking import suites
from disco_rl.benchmarking import tuning
from disco_rl.environments import registry

TINY = suites.get_suite('tiny')
TASK = TINY.tasks[0]


def _row(iteration, seed, value, episodes=1):
  return dict(
    iteration=iteration, seed=seed, average_return=value, episodes=episodes
  )


def _anchors(**more):
  own = dict(random=-1.0, best=3.0, is_told_apart=True)
  return dict(
    kind='anchors',
    suite_tasks={task.name: task.to_plain() for task in TINY.tasks},
    tasks={TASK.name: own, TINY.tasks[1].name: {**own, **more}},
  )


def test_returns_of_runs_that_diverged_are_missing():
  outcome = scores.Outcome(
    [_row(4, 0, 1.0), _row(8, 0, 2.0, 3), _row(8, 2, np.nan, 0)],
    {1: 'why'},
    steps=8,
  )
  returns = outcome.returns((0, 1, 2))
  np.testing.assert_allclose(returns, [(1 + 3 * 2) / 4, np.nan, np.nan])
  normalized = scores.normalize(returns, TASK, _anchors())
  np.testing.assert_allclose(normalized, [(1.75 + 1) / 4, 0.0, 0.0])


def test_returns_over_the_budget():
  rows = [_row(2, 0, np.nan, 0), _row(4, 0, 1.0), _row(8, 0, 2.0)]
  rows += [_row(10, 0, np.nan, 0)]
  outcome = scores.Outcome(rows, {}, steps=10)
  found = outcome.returns_at((0, 1), np.asarray([0.2, 0.4, 0.8, 1.0]))
  np.testing.assert_allclose(found[:, 0], [np.nan, 1.0, 2.0, 2.0])
  assert np.isnan(found[:, 1]).all()


def test_tasks_without_a_difference_are_left_out():
  kept, left_out = scores.kept_tasks(TINY, _anchors(is_told_apart=False))
  assert kept == [TASK]
  assert 'cannot be told apart' in left_out[TINY.tasks[1].name]


def test_anchors_of_one_task():
  random = np.asarray([0.0, 1.0, 0.0, 1.0])
  returns = dict(
    good=np.asarray([5.0, 6.0]),
    fails_once=np.asarray([99.0, np.nan]),
    bad=np.asarray([1.0, 1.0]),
  )
  # Student's t with one degree of freedom: 12.7 standard errors.
  assert not anchors_lib.anchor(random, returns)['is_told_apart']
  returns['good'] = np.asarray([5.4, 5.5, 5.6])
  found = anchors_lib.anchor(random, returns)
  assert (found['random'], found['best']) == (0.5, 5.5)
  assert found['best_rule'] == 'good' and found['is_told_apart']
  assert found['returns']['fails_once'] == [99.0, None]
  only_bad = anchors_lib.anchor(random, dict(fails=np.asarray([np.nan])))
  assert only_bad['best'] is None and not only_bad['is_told_apart']
  assert json.dumps(only_bad)


@pytest.mark.parametrize('name', ['catch', 'catch_numpy'])
def test_a_random_policy_in_catch(name):
  """The paddle of 1 in 3 columns is at the right place by 1/3 of the time."""
  env = registry.environment_fn(name, rows=6, columns=3)
  num = 400 if name == 'catch' else 100
  returns = random_policy.returns(env, num_streams=num)
  assert set(returns) == {-1.0, 1.0} and returns.shape == (num,)
  assert abs(returns.mean() - (-1 / 3)) < 4 / np.sqrt(num)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (dict(kind='tuned'), 'has no anchors of a suite'),
    (dict(suite_tasks={}), 'anchors of another setting of the task catch_3x3'),
    (dict(suite_tasks=5), 'anchors of another setting of the task catch_3x3'),
    (dict(tasks={}), 'not complete: it was changed'),
    (dict(tasks=5), 'not complete: it was changed'),
    (dict(tasks={TASK.name: dict(random=1.0)}), 'not complete'),
  ],
)
def test_wrong_anchors_are_refused(tmp_path, change, message):
  path = tmp_path / 'anchors.json'
  path.write_text(json.dumps({**_anchors(), **change}))
  with pytest.raises(ValueError, match=message):
    scores.read('anchors', TINY, path)


def test_anchors_are_read(tmp_path):
  assert scores.read('anchors', TINY, None) is None  # None are shipped.
  path = tmp_path / 'anchors.json'
  with pytest.raises(ValueError, match='cannot read anchors from'):
    scores.read('anchors', TINY, path)
  with pytest.raises(ValueError, match='anchors must be a path'):
    scores.read('anchors', TINY, 5)
  path.write_text(json.dumps(_anchors()))
  assert scores.read('anchors', TINY, path) == _anchors()
  assert scores.read('anchors', TINY, _anchors()) == _anchors()


def test_shipped_suites_have_budgets_and_known_environments():
  for suite in suites.SUITES.values():
    assert len({task.name for task in suite.tasks}) == len(suite.tasks)
    for task in suite.tasks:
      assert task.name not in suite.removed
      registry.default_settings(task.env)
      assert task.env_steps == task.steps * task.batching.env_steps
      json.dumps(task.to_plain())
  assert len(suites.get_suite('small').tasks) >= 8


def test_rows_are_parsed():
  assert rows_lib.parse('ppo') == ('ppo', None)
  assert rows_lib.parse('a@b/ppo@tuned') == ('a@b/ppo', 'tuned')
  assert rows_lib.parse('a@b') == ('a@b', None)


def test_random_rules_differ_by_seed_and_have_the_size_of_a_rule():
  rules = [rows_lib.load(name) for name in ('random:0', 'random:1')]
  like = rows_lib.load('catch_small')
  assert [rule.name for rule in rules] == ['random:0', 'random:1']
  shapes = [
    {k: {n: x.shape for n, x in v.items()} for k, v in rule.eta.items()}
    for rule in (*rules, like)
  ]
  assert shapes[0] == shapes[1] == shapes[2]
  assert rules[0].settings == like.settings
  a, b = (np.concatenate([np.ravel(x) for v in r.eta.values()
                          for x in v.values()]) for r in rules)  # fmt: skip
  assert np.any(a != b)


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('random:x', 'written random:SEED or'),
    ('random:1:', 'written random:SEED or'),
    ('random:1:ppo', 'no parameters that could be random'),
    ('random:99999999999', 'seed of random:99999999999 must be'),
    ('ppoo', 'unknown rule'),
  ],
)
def test_wrong_rows_are_refused(name, message):
  with pytest.raises(ValueError, match=message):
    rows_lib.make(name, TINY, None)


def test_rows_have_settings_by_task():
  tuned = dict(
    rules=dict(
      ppo=dict(
        one=dict(settings={'a': 1}),
        tasks={
          TASK.name: dict(settings={'a': 2}),
          TINY.tasks[1].name: dict(settings={'a': 3}),
        },
      )
    )
  )
  values = lambda name: [
    own.get('a') for own in rows_lib.make(name, TINY, tuned).settings.values()
  ]
  assert values('ppo') == [None, None]
  assert values('ppo@one') == [1, 1]
  assert values('ppo@tuned') == [2, 3]
  recorded = rows_lib.make('ppo@tuned', TINY, tuned).to_plain()
  again = rows_lib.make('ppo@tuned', TINY, None, recorded)
  assert again.to_plain() == recorded
  with pytest.raises(ValueError, match='needs tuned settings of ppo'):
    rows_lib.make('ppo@tuned', TINY, None)


def test_grids_have_the_same_number_of_trials_for_every_rule():
  for trials in (1, 2, 6, 7, 12):
    grids = {
      name: tuning.grid(rows_lib.load(name), trials)
      for name in ('ppo', 'actor_critic', 'policy_gradient', 'catch_small')
    }
    assert {len(settings) for settings in grids.values()} == {trials}
    for settings in grids.values():
      assert len({tuple(x.items()) for x in settings}) == trials
    assert set(grids['catch_small'][0]) == {'agent.learning_rate'}
    paths = set(grids['policy_gradient'][0])
    assert 'agent.update_rule.entropy_cost' in paths
  twelve = tuning.grid(rows_lib.load('ppo'), 12)
  rates = sorted({x['agent.learning_rate'] for x in twelve})
  costs = sorted({x['agent.hyper_params.entropy_cost'] for x in twelve})
  assert (rates[0], rates[-1], len(rates)) == (3e-4, 3e-2, 4)
  assert costs == [1e-3, 1e-2, 1e-1]


@pytest.mark.parametrize(
  ('seeds', 'message'),
  [
    (0, r'seeds \(--seeds\) must be a whole number'),
    ('x', 'seeds must be a list'),
    ([], 'one or more different'),
    ([1, 1], 'one or more different'),
    ([1000], 'seeds must be below 1000'),
    (None, r'seeds \(--seeds\) must be a whole number'),
  ],
)
def test_wrong_seeds_are_refused(seeds, message):
  with pytest.raises(ValueError, match=message):
    tuning.reported_seeds(seeds)
  assert tuning.reported_seeds(2) == (0, 1)
  assert tuning.reported_seeds(np.asarray([3, 5])) == (3, 5)
