"""Statistics of scores over tasks and seeds, with intervals over seeds.

Scores of a rule are [..., T, S], for T tasks and S seeds. See
https://arxiv.org/abs/2108.13264 for the statistics. Intervals are percentiles
of a bootstrap that draws seeds with replacement within each task (stratified);
tasks are fixed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

# How many times seeds are drawn.
NUM_RESAMPLES = 2000
_TRIMMED = 0.25


class Estimate(NamedTuple):
  """A statistic with its interval; NaN bounds if there is only one seed."""

  value: Any  # [...]
  low: Any  # [...]
  high: Any  # [...]


Statistic = Callable[[np.ndarray], Any]  # From [..., T, S] to [...].


def interquartile_mean(scores: np.ndarray) -> Any:
  """Averages the runs of all tasks without the lowest and highest quarter.

  Args:
    scores: [..., T, S].

  Returns:
    [...]; of N = T·S runs, ⌊N/4⌋ are left out at each end.
  """
  runs = scores.reshape(*scores.shape[:-2], -1)
  return scipy.stats.trim_mean(runs, _TRIMMED, axis=-1)


def mean(scores: np.ndarray) -> Any:
  """Averages all runs, [..., T, S] to [...]."""
  return scores.mean(axis=(-2, -1))


def fractions_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
  """Computes a performance profile: the fraction of runs above thresholds.

  Args:
    scores: [..., T, S].
    thresholds: [N].

  Returns:
    [..., N].
  """
  is_above = scores[..., None] > thresholds
  return is_above.mean(axis=(-3, -2))


def probability_of_improvement(scores: np.ndarray, others: np.ndarray) -> Any:
  """Computes how probable it is that one rule scores more than another.

  It is the average over tasks of P(x > y) + P(x = y)/2, for a run x of the rule
  and a run y of the other one.

  Args:
    scores: [..., T, S], of the rule.
    others: [..., T, S'], of the other rule.

  Returns:
    [...], between 0 and 1.
  """
  x, y = scores[..., :, None], others[..., None, :]
  wins = (x > y) + 0.5 * (x == y)
  return wins.mean(axis=(-3, -2, -1))


def estimate(
  statistic: Callable[..., Any],
  *scores: np.ndarray,
  confidence: float = 0.95,
  num_resamples: int = NUM_RESAMPLES,
  seed: int = 0,
) -> Estimate:
  """Computes a statistic and its stratified bootstrap interval.

  Args:
    statistic: from one or more [..., T, S] to [...]; it must treat all leading
      dimensions alike.
    *scores: its arguments, each [..., T, S].
    confidence: confidence level of the interval.
    num_resamples: how many times seeds are drawn.
    seed: seed of the draws.

  Returns:
    The value and its interval, [...]. With one seed, the interval is NaN.
  """
  value = np.asarray(statistic(*scores))
  if min(x.shape[-1] for x in scores) < 2:
    nothing = np.full_like(value, np.nan, dtype=float)
    return Estimate(value, nothing, nothing)
  rng = np.random.default_rng(seed)
  drawn = statistic(*(_resample(rng, x, num_resamples) for x in scores))
  tail = (1 - confidence) / 2
  low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
  return Estimate(value, low, high)


def _resample(
  rng: np.random.Generator, scores: np.ndarray, number: int
) -> np.ndarray:
  """Draws seeds with replacement, [..., T, S] to [number, ..., T, S].

  The same seeds are drawn along all leading dimensions.
  """
  num_tasks, num_seeds = scores.shape[-2:]
  index = rng.integers(num_seeds, size=(number, num_tasks, num_seeds))
  tasks = np.arange(num_tasks)[:, None]
  return np.stack([scores[..., tasks, own] for own in index])
