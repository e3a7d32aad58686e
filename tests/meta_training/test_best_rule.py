"""The best rule of a run: which are damaged, and which are kept."""

import numpy as np
import pytest

from disco_rl.meta_training import best_rule
from disco_rl.rule_zoo import file_format
from disco_rl.runs import metrics


def _save(folder, **metadata):
  eta = {'a': {'b': np.ones(2, np.float32)}}
  file_format.save(folder / 'best_rule.npz', eta, metadata)


def _evaluate(folder, env, *updates):
  rows = [dict(iteration=n, seed=0, final_return=0.0) for n in updates]
  (folder / f'evaluations_{env}.csv').write_text(metrics.to_csv(rows))


def test_damaged_rules_are_named(tmp_path):
  best_rule.check(tmp_path)
  _save(tmp_path, step=3)
  best_rule.check(tmp_path)
  for step in (None, '3', -1):
    _save(tmp_path, step=step)
    with pytest.raises(ValueError, match='is not a rule of this run'):
      best_rule.check(tmp_path)
  (tmp_path / 'best_rule.npz').write_text('x')
  with pytest.raises(ValueError, match=r'best_rule\.npz'):
    best_rule.check(tmp_path)


def test_a_rule_is_kept_if_its_evaluation_was_removed(tmp_path):
  is_kept = lambda done: best_rule.is_of_lost_evaluation(
    tmp_path, ['a', 'b'], done
  )
  assert not is_kept(4)  # There is none.
  _save(tmp_path, step=2)
  _evaluate(tmp_path, 'a', 0, 2, 4)
  _evaluate(tmp_path, 'b', 0, 2, 4)
  assert not is_kept(4)
  _evaluate(tmp_path, 'b', 0, 4)
  assert is_kept(4)
  # From after the checkpoint: it is evaluated again.
  assert not is_kept(2) and not is_kept(1)
