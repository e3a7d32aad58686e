"""Fields: accepted values, and error messages."""

import math

import numpy as np
import pytest

from disco_rl import fields

COUNT = fields.Field(int, low=1, limit=100)


def _refusal(field, value):
  with pytest.raises(ValueError) as error:
    fields.check(field, 'a.b', value)
  return str(error.value)


def test_limits_are_named_only_where_they_matter():
  assert _refusal(COUNT, 0) == 'a.b must be a whole number of at least 1, got 0'
  assert _refusal(COUNT, 101) == (
    'a.b must be a whole number between 1 and 100, got 101'
  )
  sizes = fields.Field(tuple, items=COUNT, max_items=2)
  assert _refusal(sizes, (1, 101)) == (
    'a.b must be a list of up to 2 items, each a whole number between 1 and '
    '100, got (1, 101)'
  )
  assert 'up to 2 items' in _refusal(sizes, (1, 1, 1))
  assert 'up to' not in _refusal(sizes, (1, 'x'))
  assert fields.check(sizes, 'a.b', [np.int64(3), 4.0]) == (3, 4)


def test_a_range_as_long_as_it_may_be():
  seeds = fields.Field(tuple, items=fields.SEED, max_items=3000)
  assert fields.check(seeds, 'seeds', range(3000)) == tuple(range(3000))
  assert 'up to 3000 items' in _refusal(seeds, range(10**12))


@pytest.mark.parametrize(
  'value', [math.inf, -math.inf, math.nan, 10**400, -(10**400), 1e39, '1']
)
def test_real_numbers_are_finite_in_single_precision(value):
  field = fields.Field(float, limit=fields.MAX_FLOAT)
  assert 'a.b must be a number' in _refusal(field, value)
  assert 'a.b must be a number' in _refusal(fields.like(0.5), value)


@pytest.mark.parametrize(
  'value',
  [
    'x' * 20_000,
    2**64,
    [0] * 2000,
    {'a': [1, {'b': math.inf}]},
    [[[[[[[[[[1]]]]]]]]]],
  ],
)
def test_plain_values_of_any_kind_are_not_absurd(value):
  assert _refusal(fields.like(None), value).startswith('a.b must be ')


def test_objects_of_python_programs_are_not_looked_at():
  array = np.zeros(3)
  assert fields.check(fields.like(None), 'a.b', array) is array
  assert fields.check(fields.like(None), 'a.b', None) is None


def test_a_further_condition():
  odd = fields.Field(
    int, low=1, accepts=lambda x: x % 2 == 1, words='an odd number'
  )
  assert fields.check(odd, 'a.b', 3) == 3
  assert _refusal(odd, 4) == 'a.b must be an odd number of at least 1, got 4'


class Broken:
  def __repr__(self):
    raise RuntimeError('broken')


def test_echoes_are_short():
  assert fields.shorten('abc') == "'abc'"
  assert fields.shorten('x' * 10**7) == f"'{'x' * 60}'..."
  assert len(fields.shorten([0] * 1000)) < 70
  assert fields.shorten([1, 'a\nb']) == "[1, 'a\\nb']"
  assert fields.shorten(Broken()) == 'a Broken'


def test_texts_are_printed_in_one_line():
  assert fields.printable('a  b/é.npz', 20) == 'a  b/é.npz'
  assert fields.printable('a\nb\x1b[31m\u202e\udc80', 20) == 'a b?[31m??'
  assert fields.printable('x' * 10**7, 4) == 'xxxx...'
