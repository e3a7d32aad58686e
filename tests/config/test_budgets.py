"""Budgets in environment steps, as whole steps of a run."""

import pytest

import disco_rl
from disco_rl import fields
from disco_rl.benchmarking import suites
from disco_rl.cli import options
from disco_rl.config import budgets
from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.rule_zoo import rule as rule_lib

RULE = rule_lib.Rule('actor_critic', 'actor_critic', None)


def _evaluation(**request):
  return resolve.evaluation({**resolve.EVALUATION, **request}, RULE)


@pytest.mark.parametrize(
  ('env_steps', 'per_step', 'steps'),
  [(1, 58, 1), (58, 58, 1), (59, 58, 2), (10**6, 464, 2156), (58000, 58, 1000)],
)
def test_environment_steps_are_rounded_up(env_steps, per_step, steps):
  assert budgets.steps_of(env_steps, per_step) == steps
  assert (steps - 1) * per_step < env_steps <= steps * per_step


def test_too_many_are_refused():
  most = fields.MAX_COUNT * 464
  assert budgets.steps_of(most, 464) == fields.MAX_COUNT
  with pytest.raises(ValueError, match='is too many: at 464 environment steps'):
    budgets.steps_of(most + 1, 464)


def test_evaluations_count_the_steps_of_one_agent():
  layers = _evaluation(env_steps=58_001, num_seeds=3)
  assert layers.settings.steps == 1001
  assert layers.origins['steps'] == '--env-steps'
  sizes = ['batching.num_envs=16', 'batching.rollout_length=10']
  layers = _evaluation(
    env_steps=16_000, set=[*sizes, 'agent.optimizer.schedule=cosine']
  )
  assert layers.settings.steps == 100
  # Learning starts with the fourth iteration, when a batch is there.
  assert layers.settings.agent.optimizer.total_updates == 97
  assert layers.origins['agent.optimizer.total_updates'] == '--env-steps'
  with pytest.raises(ValueError, match='steps 4 is too few to learn anything'):
    _evaluation(env_steps=200)


def test_meta_training_counts_the_validation_too():
  request = {**resolve.META_TRAINING, 'env_steps': 4097, 'num_agents': 5}
  layers = resolve.meta_training(request, None)
  # Two rollouts of 16 steps, and 32 of validation, in 32 environments.
  assert layers.settings.steps == 3


def test_suites_of_benchmarks():
  suite = suites.with_budget(suites.get_suite('tiny'), 100)
  assert [task.steps for task in suite.tasks] == [5, 5]
  assert [task.env_steps for task in suite.tasks] == [120, 120]
  assert suites.with_budget(suite, None) is suite
  with pytest.raises(ValueError, match='catch_3x3: steps 1 is too few'):
    suites.with_budget(suite, 24)
  with pytest.raises(ValueError, match='num_env_steps must be a whole number'):
    suites.with_budget(suite, 0.5)


@pytest.mark.parametrize('value', [0, -5, 1.5, 'many', 10**16, True])
def test_wrong_values_are_refused(value):
  with pytest.raises(ValueError, match='num_env_steps must be a whole number'):
    disco_rl.evaluate('catch', 'actor_critic', num_env_steps=value)
  with pytest.raises(ValueError, match='num_env_steps must be a whole number'):
    disco_rl.meta_train('catch', num_env_steps=value)


def test_two_budgets_are_refused():
  for given in (dict(num_iterations=5), dict(settings=dict(steps=5))):
    with pytest.raises(ValueError, match=r'num_env_steps .*leave one out'):
      disco_rl.evaluate('catch', 'actor_critic', num_env_steps=99, **given)
  with pytest.raises(ValueError, match='num_updates and num_env_steps are two'):
    disco_rl.meta_train('catch', num_env_steps=99, num_updates=5)


def test_a_new_budget_replaces_the_old_one_of_a_request():
  request = dict(env_steps=500, settings={'chunk_size': 5})
  changed = requests.prepare(request, resolve.EVALUATION, env_steps=900)
  assert changed['env_steps'] == 900 and changed['steps'] is None
  changed = requests.prepare(changed, resolve.EVALUATION, steps=7)
  assert changed['env_steps'] is None and changed['steps'] == 7
  changed = requests.prepare(
    dict(set=['steps=3', 'chunk_size=2']), resolve.META_TRAINING, env_steps=9
  )
  assert changed['set'] == ['chunk_size=2'] and changed['env_steps'] == 9
  # That of the request, where nothing is changed.
  assert requests.prepare(request, resolve.EVALUATION)['env_steps'] == 500


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('1e6', 10**6),
    ('1_000_000', 10**6),
    ('2.5e3', 2500),
    ('-3', -3),
    ('1.5', None),
    ('inf', None),
    ('nan', None),
    ('1e400', None),
    ('', None),
    ('1,000', None),
    ('9' * 5000, None),
  ],
)
def test_whole_numbers_of_the_command_line(text, value):
  if value is not None:
    assert options.whole_number(text) == value
    return
  with pytest.raises(Exception, match='must be a whole number'):
    options.whole_number(text)
