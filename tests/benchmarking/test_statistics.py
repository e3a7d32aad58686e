"""Statistics against values computed by hand, and against SciPy."""

import numpy as np
import pytest
import scipy.stats

from disco_rl.benchmarking import statistics

# Two tasks, four seeds.
SCORES = np.asarray([[0.0, 1.0, 2.0, 9.0], [3.0, 4.0, 5.0, -8.0]])


def test_interquartile_mean():
  # Of -8 0 1 2 3 4 5 9, two are left out at each end.
  assert statistics.interquartile_mean(SCORES) == (1 + 2 + 3 + 4) / 4
  # Of six runs, one (⌊6/4⌋) at each end.
  six = np.asarray([[0.0, 1.0, 2.0], [10.0, 11.0, 100.0]])
  assert statistics.interquartile_mean(six) == (1 + 2 + 10 + 11) / 4
  stacked = statistics.interquartile_mean(np.stack([SCORES, SCORES + 1]))
  np.testing.assert_allclose(stacked, [2.5, 3.5])


def test_mean():
  assert statistics.mean(SCORES) == 2.0


def test_fractions_above():
  found = statistics.fractions_above(SCORES, np.asarray([-9.0, 0.0, 4.5, 9.0]))
  np.testing.assert_allclose(found, [1.0, 6 / 8, 2 / 8, 0.0])


def test_probability_of_improvement():
  own = np.asarray([[1.0, 2.0], [0.0, 0.0]])
  others = np.asarray([[0.0, 1.0, 3.0], [0.0, 1.0, -1.0]])
  # First task: 1 > 0, 1 = 1, 2 > 0, 2 > 1: 3.5 of 6. Second: (½ + 1)·2 of 6.
  found = statistics.probability_of_improvement(own, others)
  np.testing.assert_allclose(found, (3.5 / 6 + 3.0 / 6) / 2)
  inverse = statistics.probability_of_improvement(others, own)
  np.testing.assert_allclose(found + inverse, 1.0)


def test_seeds_are_drawn_within_each_task():
  """With equal seeds in each task, nothing varies, though tasks differ."""
  constant = np.repeat([[0.0], [100.0]], 5, axis=1)
  found = statistics.estimate(statistics.mean, constant)
  assert found == (50.0, 50.0, 50.0)


def test_intervals_are_those_of_scipy():
  scores = np.random.default_rng(3).normal(size=(4, 6)) * [[1], [2], [3], [4]]
  own = statistics.estimate(statistics.interquartile_mean, scores)

  def statistic(*tasks, axis):
    runs = np.concatenate(tasks, axis=axis)
    return scipy.stats.trim_mean(runs, 0.25, axis=axis)

  wanted = scipy.stats.bootstrap(
    tuple(scores), statistic, method='percentile', n_resamples=20_000
  ).confidence_interval
  width = wanted.high - wanted.low
  assert own.low == pytest.approx(wanted.low, abs=0.06 * width)
  assert own.high == pytest.approx(wanted.high, abs=0.06 * width)
  assert own == statistics.estimate(statistics.interquartile_mean, scores)


def test_an_interval_of_the_mean_of_one_task():
  """Half of 0s and 1s: the mean is binomial, 95% within 0.5 ± 0.098."""
  scores = np.repeat([[0.0, 1.0]], 50, axis=0).reshape(1, 100)
  found = statistics.estimate(statistics.mean, scores)
  assert found.value == 0.5
  assert found.low == pytest.approx(0.402, abs=0.015)
  assert found.high == pytest.approx(0.598, abs=0.015)


def test_one_seed_has_no_interval():
  value, low, high = statistics.estimate(statistics.mean, SCORES[:, :1])
  assert value == 1.5 and np.isnan(low) and np.isnan(high)


def test_curves_have_an_interval_at_each_point():
  curve = np.stack([SCORES, SCORES + 1, SCORES + 2])  # [N, T, S]
  found = statistics.estimate(statistics.mean, curve)
  np.testing.assert_allclose(found.value, [2, 3, 4])
  # The same seeds are drawn at all points.
  np.testing.assert_allclose(found.high - found.value, [found.high[0] - 2] * 3)
