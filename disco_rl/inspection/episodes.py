"""When the predictions speak: what changes along one episode."""

from collections.abc import Mapping
import itertools
from typing import NamedTuple

import numpy as np

from disco_rl import types
from disco_rl.environments import rendering


class Strip(NamedTuple):
  """One episode of T steps.

  Attributes:
    observations: [T, ...], before each action; None if they are not one array.
    actions: [T]
    rewards: [T], received after each action.
    series: name to [T]: `value`, `entropy` of the policy, and `change of y` and
      `change of z`, the divergence of a step's prediction from that of the step
      before. NaN at the first step.
    is_whole: whether the episode ended.
  """

  observations: np.ndarray | None
  actions: np.ndarray
  rewards: np.ndarray
  series: dict[str, np.ndarray]
  is_whole: bool


def first_episode(
  rollout: types.ActorRollout,
  predictions: Mapping[str, np.ndarray],
  max_steps: int = 60,
) -> Strip:
  """Cuts out an episode that is not too long, and not too short to see.

  Args:
    rollout: leaves [N, B, ...].
    predictions: see `predictions.along`.
    max_steps: largest number of steps; a longer episode is cut off.

  Returns:
    The longest whole episode of at most `max_steps` steps. Without one, the
    first steps of the first stream.
  """
  is_last = np.asarray(rollout.is_last)
  stream, start, stop = 0, 0, min(max_steps, len(is_last) - 1)
  length, is_whole = 0, False
  for b in range(is_last.shape[1]):
    ends = np.flatnonzero(is_last[:, b])
    # A step with the flag shows the first observation of the next episode.
    for first, last in itertools.pairwise(ends):
      if length < last - first <= max_steps:
        stream, start, stop = b, int(first), int(last)
        length, is_whole = stop - start, True
  steps = slice(start, stop)
  cut = lambda x: np.asarray(x)[steps, stream]
  observations = rollout.observations
  series = {
    name: cut(predictions[name])
    for name in ('value', 'entropy')
    if name in predictions
  }
  for name in ('y', 'z'):
    if name in predictions:
      series[f'change of {name}'] = _divergences(cut(predictions[name]))
  return Strip(
    observations=cut(observations) if hasattr(observations, 'shape') else None,
    actions=cut(rollout.actions),
    rewards=np.asarray(rollout.rewards)[start + 1 : stop + 1, stream],
    series=series,
    is_whole=is_whole,
  )


def frames(observations: np.ndarray | None) -> list[np.ndarray] | None:
  """Draws observations that are boards or images.

  Args:
    observations: [T, ...], or None.

  Returns:
    T pictures of uint8, [rows, columns, 3]; None for observations of another
    kind, such as vectors.
  """
  if observations is None or not len(observations):
    return None
  pictures = [rendering.picture(observation) for observation in observations]
  return None if pictures[0] is None else pictures  # type: ignore[return-value]


def _divergences(x: np.ndarray) -> np.ndarray:
  """Returns KL(xₜ‖xₜ₋₁) of probabilities [T, N]; NaN at first."""
  if not len(x):
    return np.zeros(0)
  log = np.log(np.maximum(np.asarray(x, np.float64), 1e-30))
  kl = np.sum(np.exp(log[1:]) * (log[1:] - log[:-1]), axis=-1)
  return np.concatenate([[np.nan], np.maximum(kl, 0.0)])
