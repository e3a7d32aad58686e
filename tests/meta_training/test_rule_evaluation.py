"""Evaluations during meta-training, and the best rule."""

import contextlib
import re
from types import SimpleNamespace

from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import memory
from disco_rl.config import agents
from disco_rl.config import resolve
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import objects as objects_lib
from disco_rl.meta_training import plan as plan_lib
from disco_rl.meta_training import rule_evaluation
from disco_rl.runs import hooks
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import run_files

NAN = float('nan')


def _write(path, returns):
  metrics.append_csv(
    path,
    [dict(iteration=i, seed=0, final_return=x) for i, x in returns.items()],
  )


class FakeEvaluation:
  """The return of fresh agents is η, that of the baseline is 1."""

  def __init__(self):
    self.calls = []

  def __call__(self, eta, env):
    self.calls.append((float(eta), env))
    return [dict(seed=k, final_return=float(eta)) for k in (0, 1)]

  def baseline(self, env):
    self.calls.append(('baseline', env))
    return [dict(seed=k, final_return=1.0) for k in (0, 1)]


class Schedule:
  """A trainable whose η is a given number after every meta-update."""

  def __init__(self, values):
    self._values = values

  def state(self, done):
    return SimpleNamespace(step=done, eta=self._values[done])

  def done(self, state):
    return state.step

  def advance(self, state, total):
    del total
    return self.state(state.step + 1), []


def _run(folder, evaluation, values, first=0):
  """Trains to the last value; returns the rules that were saved as the best."""
  saved = []

  def save_rule(path, eta, **facts):
    assert path == folder / run_files.BEST_RULE_FILE
    saved.append((eta, facts['step'], facts['score']))

  settings = config_dict.ConfigDict(
    dict(eval=dict(every=2, env=None, baseline='x'), env=dict(a={}))
  )
  hook = rule_evaluation.Hook(
    evaluation, settings, folder, save_rule, before_print=lambda: None
  )
  assert isinstance(hook, hooks.Periodic)
  trainable = Schedule(values)
  total = len(values) - 1
  loop.run(trainable, trainable.state(first), total, hooks=[hook])
  return saved


def test_the_best_rule_is_kept(tmp_path, capsys):
  evaluation = FakeEvaluation()
  values = [-1.0, 0.0, 0.5, 0.9, 0.8, 0.9, 0.2, 0.9]
  saved = _run(tmp_path, evaluation, values)
  # Before the first and after every second meta-update; not at the end.
  assert evaluation.calls == [
    ('baseline', 'a'),
    (-1.0, 'a'),
    (0.5, 'a'),
    (0.8, 'a'),
    (0.2, 'a'),
  ]
  # 0 is the initial rule, 1 the baseline.
  assert saved == [
    (-1.0, 0, 0.0),
    (0.5, 2, pytest.approx(0.75)),
    (0.8, 4, pytest.approx(0.9)),
  ]
  rows, baseline = evaluation_tables.read(tmp_path, 'a')
  assert baseline == 1.0
  assert [(row['iteration'], row['seed']) for row in rows] == [
    (done, seed) for done in (0, 2, 4, 6) for seed in (0, 1)
  ]
  assert (tmp_path / 'evaluations.png').exists()
  shown = capsys.readouterr().out
  assert 'baseline x: 1.000 in a' in shown
  assert 'meta-update 4, fresh agents: 0.800 in a' in shown


def test_what_was_evaluated_before_a_kill_is_not_evaluated_again(tmp_path):
  values = [-1.0, 0.0, 0.5, 0.9, 0.8]
  first = _run(tmp_path, FakeEvaluation(), values[:3])
  assert [step for _, step, _ in first] == [0, 2]
  # Killed after the evaluation; the state is that of meta-update 1.
  again = FakeEvaluation()
  assert [step for _, step, _ in _run(tmp_path, again, values, 1)] == [2, 4]
  assert again.calls == [(0.8, 'a')]


def test_an_evaluation_that_is_interrupted_is_made_again(tmp_path):
  """It is discarded; the checkpoint of its meta-update is saved before it."""

  class Interrupted(FakeEvaluation):
    def __call__(self, eta, env):
      return None if eta == 0.5 else super().__call__(eta, env)

  values = [-1.0, 0.0, 0.5, 0.9, 0.8]
  first = _run(tmp_path, Interrupted(), values[:3])
  assert [step for _, step, _ in first] == [0]
  again = FakeEvaluation()
  assert [step for _, step, _ in _run(tmp_path, again, values, 2)] == [2, 4]
  assert again.calls == [(0.5, 'a'), (0.8, 'a')]


def test_a_damaged_table_is_an_error_for_users(tmp_path):
  for text in ('nonsense\n', 'iteration,seed\n0,0\n'):
    (tmp_path / 'evaluations_a.csv').write_text(text)
    with pytest.raises(ValueError, match=r'evaluations_a\.csv') as caught:
      _run(tmp_path, FakeEvaluation(), [0.0, 0.0, 0.0])
    assert caught.value.is_user_facing


def test_agents_that_cannot_be_built_are_refused_at_the_start(own_rule):
  request = {**resolve.META_TRAINING, 'eval_every': 1}
  layers = resolve.meta_training(
    request, None, agent=own_rule['agent_settings']
  )
  layers.settings.eval.batching.num_envs = 1000
  with pytest.raises(ValueError, match=r'eval\.batching'):
    rule_evaluation.RuleEvaluation(layers.settings)


def test_a_rule_without_any_return_is_not_the_best(tmp_path):
  saved = _run(tmp_path, FakeEvaluation(), [0.0, 0.0, NAN, 0.0, 0.5])
  assert [step for _, step, _ in saved] == [0, 4]


def test_only_agents_that_ended_an_episode_count():
  assert evaluation_tables.mean_return([1.0, NAN, 2.0]) == 1.5
  assert np.isnan(evaluation_tables.mean_return([NAN]))


@pytest.mark.parametrize(
  ('value', 'initial', 'baseline', 'score'),
  [
    (0.5, -0.5, 1.5, 0.5),
    (1.5, -0.5, 1.5, 1.0),
    (1.0, 0.5, -0.5, 0.5),  # A worse baseline does not change the sign.
    (10.5, 10.0, 10.1, 0.5 / 1.01),  # The scale is a tenth of the larger.
    (3.0, 0.0, 0.0, 3.0),
    (3.0, 2.0, NAN, 5.0),
    (3.0, NAN, 2.0, 5.0),
    (3.0, NAN, NAN, 3.0),
  ],
)
def test_scores_are_normalized(value, initial, baseline, score):
  actual = evaluation_tables.normalized_score(value, initial, baseline)
  np.testing.assert_allclose(actual, score, 1e-6)


def test_no_environment_outweighs_another(tmp_path):
  """In plain averages, the largest returns would dominate."""
  _write(tmp_path / 'evaluations_small.csv', {0: 0.0, 1: 1.0, 2: 0.1})
  _write(tmp_path / 'baseline_small.csv', {0: 1.0})
  _write(tmp_path / 'evaluations_gym_large.csv', {0: 10.0, 1: 50.0, 2: 90.0})
  _write(tmp_path / 'baseline_gym_large.csv', {0: 110.0})
  never = tmp_path / 'evaluations_never.csv'
  _write(never, {0: NAN, 1: NAN, 2: NAN})
  envs = ['small', 'gym:large', 'never']
  wanted = {0: 0.0, 1: (1.0 + 0.4) / 2, 2: (0.1 + 0.8) / 2}
  assert evaluation_tables.scores(tmp_path, envs) == pytest.approx(wanted)
  # An evaluation without a return in one of the environments has no score.
  never.unlink()
  _write(never, {0: 1.0, 1: NAN, 2: 1.0})
  assert evaluation_tables.scores(tmp_path, envs).keys() == {0, 2}


def test_fresh_agents_have_a_critic_only_if_the_rule_asks_for_one(own_rule):
  """In meta-training every agent has one, for the meta-loss."""
  request = {**resolve.META_TRAINING, 'eval_every': 1}
  request |= dict(set=['eval.num_seeds=1', 'eval.baseline=none'])
  for settings, has_critic in (
    (own_rule['agent_settings'], False),
    (agents.get_settings('policy_gradient'), True),
  ):
    layers = resolve.meta_training(request, None, agent=settings)
    evaluation = rule_evaluation.RuleEvaluation(layers.settings)
    (population,) = evaluation._populations.values()
    assert (population.agent.critic is not None) == has_critic
    assert population.agent.settings.learning_rate == 1e-2
    evaluation.close()


def test_an_unknown_baseline_is_refused(own_rule):
  request = {**resolve.META_TRAINING, 'eval_every': 1}
  request |= dict(set=['eval.baseline=actor_critik'])
  with pytest.raises(ValueError, match=r'eval\.baseline must be one of actor'):
    resolve.meta_training(request, None, agent=own_rule['agent_settings'])


def test_a_baseline_that_would_have_to_be_trained_is_refused(own_rule):
  request = {**resolve.META_TRAINING, 'eval_every': 1}
  request |= dict(set=['eval.baseline=entropy_cost'])
  agent_settings = own_rule['agent_settings']
  layers = resolve.meta_training(request, None, agent=agent_settings)
  message = 'eval.baseline must be a rule without parameters, but entropy_cost'
  with pytest.raises(ValueError, match=message):
    rule_evaluation.RuleEvaluation(layers.settings)


@pytest.mark.parametrize(
  ('free', 'part'), [(10**6, 'observations of one'), (4 * 10**8, 'a step 3')]
)
def test_evaluations_that_do_not_fit_are_refused_first(
  own_rule, free, part, monkeypatch
):
  """Their observations, or a step of their agents."""
  sizes = ['eval.batching.batch_size=20000', 'eval.batching.num_envs=20000']
  request = {**resolve.META_TRAINING, 'eval_every': 1, 'set': sizes}
  objects = objects_lib.Objects(agent_settings=own_rule['agent_settings'])
  plan = plan_lib.Plan(request, objects=objects)
  monkeypatch.setattr(memory, 'available', lambda: free)
  message = 'an evaluation of the rule in catch, whose settings begin with eval'
  state = SimpleNamespace(eta={'a': np.ones(1)})
  trainable = SimpleNamespace(snapshots=lambda state: ())
  with pytest.raises(ValueError, match=message) as error:
    plan.prepare(trainable, state, contextlib.ExitStack())
  assert re.search(rf'needs .* \({part}', str(error.value)), error.value
