"""Tables of evaluations: which rows are missing."""

import pytest

from disco_rl.meta_training import evaluation_tables


@pytest.mark.parametrize(
  ('updates', 'done', 'missing'),
  [
    ((0, 2, 4), 4, None),
    ((0, 2), 4, None),  # The last is made when the run is resumed.
    ((), 0, None),
    ((0, 2, 4, 6), 5, None),
    ((0, 2), 5, 4),
    ((2, 4), 4, 0),
    ((), 1, 0),
  ],
)
def test_the_first_evaluation_that_is_missing(updates, done, missing):
  rows = [dict(iteration=n, seed=k) for n in updates for k in (0, 1)]
  find = evaluation_tables.first_missing
  assert find(rows, done, every=2, num_seeds=2) == missing
  if rows and missing is None:  # Half of an evaluation.
    assert find(rows[1:], done, every=2, num_seeds=2) == 0
