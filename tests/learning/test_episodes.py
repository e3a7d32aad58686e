"""Returns and lengths of episodes."""

import numpy as np

from disco_rl.learning import episodes


def test_episode_returns_do_not_depend_on_the_cuts():
  rng = np.random.RandomState(0)
  rewards = rng.normal(size=(24, 3)).astype(np.float32)
  discounts = rng.rand(24, 3) > 0.2
  wanted_returns, wanted_lengths = [], []
  for b in range(3):
    total, length = 0.0, -1  # The first step is no transition.
    for t in range(24):
      total, length = total + rewards[t, b], length + 1
      if not discounts[t, b]:
        wanted_returns.append(total)
        wanted_lengths.append(length)
        total, length = 0.0, 0
  for cut in (24, 8, 3):
    running = episodes.init(3)
    totals = np.zeros(3)
    for start in range(0, 24, cut):
      part = slice(start, start + cut)
      running, finished = episodes.update(
        running, rewards[part], discounts[part]
      )
      totals += np.array(finished)
    np.testing.assert_allclose(
      totals,
      [len(wanted_returns), sum(wanted_returns), sum(wanted_lengths)],
      1e-4,
    )


def test_episodes_of_environments_that_were_reset_restart():
  running = episodes.RunningEpisodes(
    episode_return=np.arange(6.0, dtype=np.float32).reshape(3, 2),
    length=np.ones((3, 2), np.float32),
  )
  kept = episodes.keep(running, np.asarray([True, False, True]))
  np.testing.assert_array_equal(kept.episode_return, [[0, 1], [0, 0], [4, 5]])
  np.testing.assert_array_equal(kept.length, [[1, 1], [-1, -1], [1, 1]])
