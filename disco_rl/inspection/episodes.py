"""When the predictions speak: what changes along one episode."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from disco_rl import types


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
    for first, last in zip(ends[:-1], ends[1:]):
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
  """Renders observations that are images.

  Args:
    observations: [T, ...], or None.

  Returns:
    T images [rows, columns, 3] in [0, 1]; None for observations of another
    kind, such as vectors. Channels that are no colours, such as the objects of
    MinAtar, each get a colour of their own.
  """
  if observations is None or observations.ndim not in (3, 4):
    return None
  x = np.asarray(observations, np.float64)
  if x.ndim == 3:
    x = x[..., None]
  if min(x.shape[1:3]) < 3 or x.shape[-1] > 64:
    return None
  low, high = x.min(), x.max()
  x = (x - low) / ((high - low) or 1.0)
  if x.shape[-1] == 3 and high > 1:  # Colours.
    return list(x)
  number = x.shape[-1]
  if number == 1:
    return list(np.repeat(x, 3, axis=-1))
  angle = 2 * np.pi * np.arange(number) / number
  colours = 0.5 + 0.5 * np.stack(
    [np.cos(angle), np.cos(angle - 2.1), np.cos(angle + 2.1)], axis=-1
  )
  return list(np.clip(np.max(x[..., None] * colours, axis=-2), 0, 1))


def _divergences(x: np.ndarray) -> np.ndarray:
  """Returns KL(xₜ‖xₜ₋₁) of probabilities [T, N]; NaN at first."""
  if not len(x):
    return np.zeros(0)
  log = np.log(np.maximum(np.asarray(x, np.float64), 1e-30))
  kl = np.sum(np.exp(log[1:]) * (log[1:] - log[:-1]), axis=-1)
  return np.concatenate([[np.nan], np.maximum(kl, 0.0)])
