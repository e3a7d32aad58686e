"""Any value of any setting is refused by name, or can be used."""

import functools
import math

import hypothesis
from hypothesis import strategies as st
import pytest

from disco_rl.config import resolve
from disco_rl.evaluation import plan as eval_plan
from disco_rl.meta_training import plan as meta_plan
from disco_rl.rule_zoo import rule as rule_lib
from tests.support import runs

QUICK = hypothesis.settings(
  max_examples=120,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(hypothesis.HealthCheck),
)

SCALARS = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(-3, 70),
  st.integers(),
  st.sampled_from((2**31, 2**32, 2**63, 10**30, -(10**400), 10**400)),
  st.floats(),
  st.sampled_from((1e-300, 1e39, 1e300, 0.5, math.inf, math.nan)),
  st.text(max_size=8),
  st.sampled_from(('mlp', 'conv', 'lstm', 'cosine', 'actor_critic', 'none')),
  st.just('x' * 20_000),
)


def _nest(depth):
  value = []
  for _ in range(depth):
    value = [value]
  return value


VALUES = st.one_of(
  SCALARS,
  st.lists(SCALARS, max_size=4),
  st.tuples(st.integers(-2, 70), st.integers(-2, 70)),
  st.dictionaries(st.text(max_size=4), SCALARS, max_size=3),
  st.sampled_from(
    (_nest(20), _nest(300), [1] * 5000, {1: 2}, object(), b'x', 1j)
  ),
)
TEXTS = st.one_of(
  VALUES.map(repr),
  st.text(max_size=20),
  st.sampled_from(
    (
      '[' * 100_000,
      '-' * 5000 + '1',
      '10**10**6',
      '9' * 5000,
      '1e999',
      '(1, 2',
      '0x10',
      "{'a': {'b': 1}}",
      '__import__("os")',
    )
  ),
)


@functools.cache
def _rule(name):
  return rule_lib.load_rule(name)


def _evaluation(rule, env='catch', **request):
  request = {**resolve.EVALUATION, 'env': env, **request}
  return resolve.evaluation(request, _rule(rule))


def _paths(tree, above=''):
  """All settings and groups of settings."""
  for name, value in tree.items():
    yield f'{above}{name}'
    if hasattr(value, 'items'):
      yield from _paths(value, f'{above}{name}.')


@functools.cache
def _all_paths(rule, env):
  return sorted(_paths(_evaluation(rule, env).settings))


def _check(make, path):
  """Makes settings; a refusal must be a short sentence with the name."""
  try:
    layers = make()
  except ValueError as error:
    message = str(error)
    assert path.rpartition('.')[2] in message, (path, message)
    assert len(message) < 1000 and 'Errno' not in message
    return None
  layers.check()  # Accepted settings are accepted again.
  return layers


@QUICK
@hypothesis.given(data=st.data())
def test_values_from_python(data):
  rule = data.draw(st.sampled_from(('catch_small', 'policy_gradient')))
  env = data.draw(st.sampled_from(('catch', 'catch_numpy')))
  path = data.draw(st.sampled_from(_all_paths(rule, env)))
  value = data.draw(VALUES)
  _check(lambda: _evaluation(rule, env, settings={path: value}), path)


@QUICK
@hypothesis.given(data=st.data())
def test_values_as_text(data):
  path = data.draw(st.sampled_from(_all_paths('actor_critic', 'catch_numpy')))
  text = data.draw(TEXTS)
  request = dict(set=[f'{path}={text}'])
  _check(lambda: _evaluation('actor_critic', 'catch_numpy', **request), path)


@QUICK
@hypothesis.given(
  st.sampled_from(('steps', 'seed', 'num_seeds', 'devices', 'net', 'core')),
  VALUES,
)
def test_entries_of_a_request(name, value):

  def make():
    plan = eval_plan.Plan(dict(rule='actor_critic', **{name: value}))
    return _evaluation('actor_critic', **{name: plan.request[name]})

  _check(make, 'seed' if name == 'num_seeds' else name)


@QUICK
@hypothesis.given(data=st.data())
def test_values_of_meta_training(data):
  base = _meta_paths()
  path, value = data.draw(st.sampled_from(base)), data.draw(VALUES)
  request = {**resolve.META_TRAINING, 'settings': {path: value}}
  _check(lambda: resolve.meta_training(request, None), path)


@functools.cache
def _meta_paths():
  return sorted(
    _paths(resolve.meta_training(resolve.META_TRAINING, None).settings)
  )


SMALL = {
  name: value
  for name, _, value in (
    setting.removeprefix('--set=').partition('=')
    for setting in runs.TINY
    if setting.startswith('--set=')
  )
}


@pytest.mark.slow
@hypothesis.settings(QUICK, max_examples=60)
@hypothesis.given(data=st.data())
def test_what_is_accepted_builds_and_starts(data):
  """Agents can be made from all accepted settings, without any other error."""
  rule = data.draw(st.sampled_from(('actor_critic', 'policy_gradient')))
  path = data.draw(st.sampled_from(_all_paths(rule, 'catch')))
  value = data.draw(VALUES)
  small = [f'{k}={v}' for k, v in SMALL.items() if k != path]
  request = dict(rule=rule, steps=9, set=small, settings={path: value})
  try:
    plan = eval_plan.Plan(request)
    with plan.start(None, show_progress=False):
      pass
  except ValueError as error:
    assert path.rpartition('.')[2] in str(error) or 'GB' in str(error), path


@pytest.mark.slow
@hypothesis.settings(QUICK, max_examples=12)
@hypothesis.given(data=st.data())
def test_accepted_values_of_meta_training_start(data):
  path = data.draw(st.sampled_from(_meta_paths()))
  value = data.draw(VALUES)
  try:
    plan = meta_plan.Plan(dict(settings={path: value}))
    plan.make_trainable().close()
  except ValueError as error:
    assert path.rpartition('.')[2] in str(error) or 'GB' in str(error), path
