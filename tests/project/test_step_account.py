"""The account of a learner step's time."""

import pytest

from benchmarks import step_account


def test_times_of_operations_exclude_those_inside_them():
  events = [
    ('b', 2.0, 4.0),
    ('a', 0.0, 10.0),
    ('c', 5.0, 9.0),
    ('b', 6.0, 7.0),
    ('d', 10.0, 12.0),
  ]
  times = step_account.exclusive_times(events)
  assert times == dict(a=4.0, b=3.0, c=3.0, d=2.0)


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
    ('while.2', 'scheduling'),
    ('ThunkExecutor::Execute', 'scheduling'),
  ],
)
def test_operations_have_a_part(name, part):
  assert step_account.part_of(name) == part


@pytest.mark.slow
def test_the_parts_sum_to_the_step():
  account = step_account.account(2, 'small', num_calls=2)
  total = sum(account[part] for part in step_account.PARTS)
  assert total == pytest.approx(account['profiled_ms'])
  assert account['products'] > 0 and account['element-wise'] > 0
