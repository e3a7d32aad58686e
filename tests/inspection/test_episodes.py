"""Episodes are cut out where they begin and end."""

import numpy as np

from disco_rl.inspection import episodes
from tests.inspection import test_probes


def _episode(is_last, max_steps=60):
  is_last = np.asarray(is_last, bool)
  rewards = np.arange(is_last.size).reshape(is_last.shape)
  rollout = test_probes._rollout(rewards, is_last)
  rollout = rollout.replace(
    observations=rewards[..., None, None] * np.ones((3, 4))
  )
  y = np.full((*is_last.shape, 2), 0.5)
  y[3] = [0.9, 0.1]
  predictions = dict(value=rewards * 1.0, entropy=rewards * 0.0, y=y)
  return episodes.first_episode(rollout, predictions, max_steps)


def test_the_longest_whole_episode_is_shown():
  ends = [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0], [1, 0], [0, 1], [0, 0]]
  strip = _episode(ends)
  assert strip.is_whole
  # The first of two of four steps: from step 1, which shows its first
  # observation, to step 5, on which its last reward is received.
  np.testing.assert_array_equal(strip.observations[:, 0, 0], [2, 4, 6, 8])
  np.testing.assert_array_equal(strip.rewards, [4, 6, 8, 10])
  np.testing.assert_array_equal(strip.series['value'], [2, 4, 6, 8])
  change = strip.series['change of y']
  assert np.isnan(change[0]) and change[1] == 0
  kl = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
  np.testing.assert_allclose(change[2], kl)
  assert 'change of z' not in strip.series


def test_without_a_whole_episode_there_are_steps():
  strip = _episode(np.zeros((9, 1)), max_steps=5)
  assert not strip.is_whole and len(strip.actions) == 5
  strip = _episode(np.zeros((4, 1)))
  assert len(strip.rewards) == len(strip.actions) == 3


def test_frames():
  board = np.zeros((3, 5, 4, 2))
  board[0, 1, 1, 0] = board[0, 2, 2, 1] = 1
  drawn = episodes.frames(board)
  assert len(drawn) == 3 and drawn[0].shape == (5, 4, 3)
  assert len({tuple(drawn[0][i, i]) for i in range(3)}) == 3
  assert episodes.frames(np.zeros((3, 7))) is None
  assert episodes.frames(None) is None
