"""Comparison: what counts as departing, and what is said about it."""

import numpy as np
import pytest

from disco_rl.conformance import compare
from disco_rl.conformance import file_set


@pytest.fixture
def reference():
  return file_set.load('retrace')


def test_expected_outputs_pass(reference):
  result = compare.compare(reference, reference.expected)
  assert result == compare.Result('retrace', compare.OK, 0.0)


def test_the_first_departure_is_named(reference):
  found = {k: x.copy() for k, x in reference.expected.items()}
  found['td'][2, 1] += 1
  found['adv'][3, 0] += 1
  result = compare.compare(reference, found)
  assert result.status == compare.DEPARTS and not result.hint
  assert result.sentence.startswith('adv[3, 0]: expected ')
  assert '1 of 10 elements depart' in result.sentence


def test_tolerances(reference):
  entry = reference.description['outputs']['adv']
  expected = reference.expected['adv'].astype(np.float64)
  allowed = entry['atol'] + entry['rtol'] * abs(expected)
  for factor, status in ((0.9, compare.OK), (1.1, compare.DEPARTS)):
    found = dict(reference.expected, adv=expected + factor * allowed)
    result = compare.compare(reference, found)
    assert result.status == status
    np.testing.assert_allclose(result.used, factor, rtol=1e-3)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_depart(reference, bad):
  found = dict(reference.expected, q_td=np.full((5, 2), bad))
  result = compare.compare(reference, found)
  assert result.status == compare.DEPARTS
  assert f'found {bad}' in result.sentence


def test_missing_outputs(reference):
  assert compare.compare(reference, {}).status == compare.MISSING
  found = dict(reference.expected)
  found['q_targets'] = found.pop('q_target')
  result = compare.compare(reference, found)
  assert result.status == compare.MISSING
  assert 'no q_target ' in result.sentence and 'q_targets' in result.sentence


@pytest.mark.parametrize(
  ('change', 'hint'),
  [
    (lambda x: x.T, 'axes in another order'),
    (lambda x: x[:-1], 'one step less'),
    (lambda x: np.concatenate([x, x[:1]]), 'one step more'),
    (lambda x: x[..., None], ''),
    (lambda x: -x, 'the opposite sign'),
    (lambda x: np.concatenate([x[1:], x[:1]]), 'every step one early'),
    (lambda x: np.concatenate([7 * x[:1], x[:-1]]), 'every step one late'),
    (lambda x: x + 1, ''),
  ],
)
def test_hints_of_any_case(reference, change, hint):
  found = dict(reference.expected)
  found['td'] = change(found['td'])
  result = compare.compare(reference, found)
  assert result.status == compare.DEPARTS
  assert result.hint.startswith(hint) and bool(result.hint) == bool(hint)


def test_known_mistakes_are_named(reference):
  for mistake, outputs in reference.mistakes.items():
    result = compare.compare(reference, {**reference.expected, **outputs})
    assert result.hint == reference.description['mistakes'][mistake]


def test_bools_must_be_equal_and_may_be_numbers():
  reference = file_set.load('from_rollout')
  found = {k: x.astype(np.float64) for k, x in reference.expected.items()}
  assert compare.compare(reference, found).status == compare.OK
  found['is_terminal'][0, 0] = 1 - found['is_terminal'][0, 0]
  result = compare.compare(reference, found)
  assert result.sentence.startswith('is_terminal[0, 0]: expected False')
