"""What the predictions know: linear probes on held-out streams.

A probe is a ridge regression from one source, such as y or the action values,
to something that happens later. Streams are divided into those that a probe is
fitted to, those that choose its regularisation, and those that it is scored on,
so that no episode is in two of them. A source that knows nothing of a label has
a score of about 0 (R²), or 0.5 (the area under the ROC curve).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from disco_rl import types

# Weights of the penalty, relative to the number of samples.
_PENALTIES = np.geomspace(1e-5, 1e2, 15)
_LARGEST_OBSERVATION = 1200
# Components that a prediction is reduced to, see `components`.
NUM_COMPONENTS = 8


class Score(NamedTuple):
  """The score of one probe.

  Attributes:
    source: what the probe reads.
    label: what it predicts.
    horizon: steps ahead.
    measure: `'R²'`, or `'AUC'` of labels that are 0 or 1.
    score: on held-out streams; NaN if they have only one label.
  """

  source: str
  label: str
  horizon: int
  measure: str
  score: float


def horizons_up_to(largest: int) -> list[int]:
  """Returns horizons from 1 to the largest, denser at first."""
  steps = np.unique(np.geomspace(1, max(1, largest), 8).round().astype(int))
  return [int(step) for step in steps]


def sources_of(
  predictions: Mapping[str, np.ndarray], observations: np.ndarray | None
) -> dict[str, np.ndarray]:
  """Collects what probes read.

  Args:
    predictions: see `predictions.along`.
    observations: [N, B, ...]; None to leave them out.

  Returns:
    Name to [N, B, D].
  """
  names = ('y', 'z', 'policy', 'action values', 'torso')
  found = {name: predictions[name] for name in names if name in predictions}
  if 'value' in predictions:
    found['value'] = predictions['value'][..., None]
  if observations is not None:
    flat = np.reshape(observations, (*observations.shape[:2], -1))
    if flat.shape[-1] <= _LARGEST_OBSERVATION:
      found['observation'] = flat.astype(np.float32)
  return found


def compressed_sources(
  predictions: Mapping[str, np.ndarray], untrained: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  """Collects what probes read of y and z in few dimensions.

  A random function of the observation with many outputs knows linearly nearly
  all that the observation does. What a prediction is *about* shows in the
  directions in which it varies most.

  Args:
    predictions: see `predictions.along`, with `y` and `z`.
    untrained: the same of an untrained network.

  Returns:
    Name to [N, B, D]: the first `NUM_COMPONENTS` principal components of y and
    z, those of the untrained network's, the action values (or the value), and
    these together with the components.
  """
  found = {}
  for name in ('y', 'z'):
    if name in predictions:
      found[f'{name}₈'] = components(predictions[name])
      found[f'untrained {name}₈'] = components(untrained[name])
  known = None
  if 'action values' in predictions:
    known = found['action values'] = predictions['action values']
  elif 'value' in predictions:
    known = found['value'] = predictions['value'][..., None]
  for name in ('y₈', 'z₈'):
    if name in found and known is not None:
      found[f'values + {name}'] = np.concatenate([known, found[name]], axis=-1)
  return found


def components(x: np.ndarray, number: int = NUM_COMPONENTS) -> np.ndarray:
  """Projects onto the first principal components.

  Args:
    x: [N, B, D].
    number: number of components, at most D.

  Returns:
    [N, B, number].
  """
  flat = x.reshape(-1, x.shape[-1]).astype(np.float64)
  flat = flat - flat.mean(axis=0)
  _, vectors = np.linalg.eigh(flat.T @ flat)
  first = vectors[:, ::-1][:, :number]
  return (flat @ first).reshape(*x.shape[:2], -1)


def labels_of(
  rollout: types.ActorRollout,
  entropy: np.ndarray,
  horizons: Sequence[int],
  discount: float,
) -> tuple[dict[tuple[str, int], np.ndarray], np.ndarray]:
  """Computes what happens in the steps after each step.

  Args:
    rollout: leaves [N, B, ...].
    entropy: [N, B], that of the policy.
    horizons: steps ahead, each less than N.
    discount: γ.

  Returns:
    Label and horizon h to [N', B] for the first N' = N - max(horizons) steps:
    `reward`, the discounted sum of the next h rewards of the episode; `any
    reward`, whether one of them is not 0; `episode end`, whether the episode
    ends within h steps; and `entropy` of the policy h steps ahead. And a mask
    [N', B] of the steps that count: not those that end an episode.
  """
  longest = max(horizons)
  rewards = np.asarray(rollout.rewards, np.float64)
  is_last = np.asarray(rollout.is_last)
  num_steps = rewards.shape[0] - longest
  total = np.zeros((num_steps, rewards.shape[1]))
  has_reward = np.zeros(total.shape, bool)
  is_alive = np.ones(total.shape, bool)
  labels = {}
  for i in range(longest):
    after = slice(i + 1, i + 1 + num_steps)
    total += is_alive * discount**i * rewards[after]
    has_reward |= is_alive & (rewards[after] != 0)
    is_alive &= ~is_last[after]
    if i + 1 in horizons:
      labels['reward', i + 1] = total.copy()
      labels['any reward', i + 1] = has_reward.copy()
      labels['episode end', i + 1] = ~is_alive
      labels['entropy', i + 1] = np.asarray(entropy[after], np.float64)
  return labels, ~is_last[:num_steps]


def probe(
  sources: Mapping[str, np.ndarray],
  labels: Mapping[tuple[str, int], np.ndarray],
  mask: np.ndarray,
  seed: int = 0,
) -> list[Score]:
  """Fits and scores probes from every source to every label.

  Args:
    sources: name to [N, B, D] of at least as many steps as the labels.
    labels: label and horizon to [N', B]; those of the type bool are events.
    mask: [N', B], the steps that count.
    seed: seed of the division of streams.

  Returns:
    One score per source and label.
  """
  num_steps, num_streams = mask.shape
  if num_streams < 5:
    raise ValueError(
      f'probes need at least 5 streams, some of which are held out, got '
      f'{num_streams}'
    )
  order = np.random.default_rng(seed).permutation(num_streams)
  thirds = np.split(
    order, [max(1, num_streams * 6 // 10), max(2, num_streams * 8 // 10)]
  )

  def rows(x: np.ndarray, streams: np.ndarray) -> np.ndarray:
    return x[:num_steps, streams][mask[:, streams]]

  y = np.stack([label.astype(np.float64) for label in labels.values()], -1)
  fit, choose, score = [rows(y, streams) for streams in thirds]
  found = []
  for name, x in sources.items():
    xs = [rows(x, streams).astype(np.float64) for streams in thirds]
    chosen = _fit(xs[0], fit, xs[1], choose)
    predicted = chosen(xs[2])
    for k, ((label, horizon), value) in enumerate(labels.items()):
      is_event = value.dtype == bool
      measure = area_under_curve if is_event else explained
      found.append(
        Score(
          name,
          label,
          horizon,
          'AUC' if is_event else 'R²',
          measure(predicted[:, k], score[:, k]),
        )
      )
  return found


def explained(predicted: np.ndarray, actual: np.ndarray) -> float:
  """Returns R², the explained share of the variance; NaN if there is none."""
  variance = np.mean(np.square(actual - actual.mean()))
  if variance < 1e-12:
    return float('nan')
  return float(1 - np.mean(np.square(actual - predicted)) / variance)


def area_under_curve(predicted: np.ndarray, actual: np.ndarray) -> float:
  """Returns the probability that a 1 is predicted above a 0; NaN without."""
  is_one = actual > 0.5
  num_ones, num_zeros = is_one.sum(), (~is_one).sum()
  if not num_ones or not num_zeros:
    return float('nan')
  _, place, counts = np.unique(
    predicted, return_inverse=True, return_counts=True
  )
  # Equal predictions share their mean rank.
  ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
  wins = ranks[is_one].sum() - num_ones * (num_ones + 1) / 2
  return float(wins / (num_ones * num_zeros))


class _Linear(NamedTuple):
  """A linear function of standardised inputs."""

  mean: np.ndarray  # [D]
  scale: np.ndarray  # [D]
  weights: np.ndarray  # [D, K]
  bias: np.ndarray  # [K]

  def __call__(self, x: np.ndarray) -> np.ndarray:
    return (x - self.mean) * self.scale @ self.weights + self.bias


def _fit(
  x: np.ndarray, y: np.ndarray, x_choose: np.ndarray, y_choose: np.ndarray
) -> _Linear:
  """Fits ridge regressions, each with the penalty that is best elsewhere.

  Args:
    x: [N, D].
    y: [N, K].
    x_choose: [M, D], what the penalties are chosen on.
    y_choose: [M, K].

  Returns:
    The function, [., D] to [., K].
  """
  mean, deviation = x.mean(axis=0), x.std(axis=0)
  # Inputs that are constant up to rounding must not become noise.
  is_kept = deviation > 1e-6 * max(float(np.max(deviation)), 1e-12)
  scale = np.where(is_kept, 1 / np.where(is_kept, deviation, 1.0), 0.0)
  bias = y.mean(axis=0)
  x, x_choose = (x - mean) * scale, (x_choose - mean) * scale
  # All penalties share one decomposition of the Gram matrix.
  eigenvalues, vectors = np.linalg.eigh(x.T @ x / len(x))
  eigenvalues = np.maximum(eigenvalues, 0)
  moments = vectors.T @ (x.T @ (y - bias) / len(x))  # [D, K]
  x_rotated = x_choose @ vectors
  errors, weights = [], []
  for penalty in _PENALTIES * max(float(eigenvalues.mean()), 1e-12):
    w = moments / (eigenvalues + penalty)[:, None]
    errors.append(np.mean(np.square(x_rotated @ w + bias - y_choose), axis=0))
    weights.append(w)
  best = np.argmin(errors, axis=0)  # [K]
  chosen = np.stack([weights[b][:, k] for k, b in enumerate(best)], axis=-1)
  return _Linear(mean, scale, vectors @ chosen, bias)
