"""The account of a program's time."""

import pytest

from benchmarks import account


def test_time_is_divided_among_running_operations():
  threads = [
    [('while', 0.0, 10.0), ('dot', 1.0, 5.0), ('copy.3', 5.0, 6.0)],
    [('dot.2', 2.0, 3.0), ('add_fusion', 3.0, 7.0)],
  ]
  times = account.times_of_parts(threads)
  # From 3 to 5, two operations are running, and from 5 to 6.
  assert times == {'products': 3.0, 'element-wise': 2.5, 'copies': 0.5}


@pytest.mark.parametrize(
  ('name', 'part'),
  [
    ('dot.126', 'products'),
    ('ynn_fusion.7', 'products'),
    ('copy.3', 'copies'),
    ('wrapped_slice', 'copies'),
    ('dynamic-slice_bitcast_fusion', 'copies'),
    ('broadcast_add_fusion', 'element-wise'),
    ('tanh_multiply_fusion', 'element-wise'),
    ('wrapped_exponential', 'element-wise'),
  ],
)
def test_operations_have_a_part(name, part):
  assert account.part_of(name) == part


@pytest.mark.slow
@pytest.mark.parametrize('program', ['learner_step', 'meta_updates'])
def test_the_parts_sum_to_the_whole(program, monkeypatch):
  monkeypatch.setitem(account.MEASURED_UPDATES, 'small', (1, 1, 2))
  if program == 'learner_step':
    row = account.learner_step(2, 'small', num_calls=2)
  else:
    row = account.meta_updates('small', num_calls=2)
  total = sum(row[part] for part in account.PARTS)
  assert total == pytest.approx(row['profiled_ms'])
  assert row['products'] > 0 and row['element-wise'] > 0
  assert 0 < row['limit_ms'] < row['call_ms']
  assert row['operations'] > 100
