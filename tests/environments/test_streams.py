"""The streams of a process are those of one process with all streams."""

import jax
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.environments import streams

NAMES = ['catch_numpy', 'dm:tests.support.broken:BrokenDm', 'gym:CartPole-v1']


def _observations(env, actions):
  """Returns the observations of some steps with given actions, [T, B, ...]."""
  state, timestep = env.reset(jax.random.PRNGKey(0))
  found = [timestep.observation]
  for step_actions in actions:
    state, timestep = env.step(state, step_actions)
    found.append(timestep.observation)
  env.close()
  return jax.tree.map(lambda *xs: np.stack(xs), *found)


@pytest.mark.parametrize('name', NAMES)
def test_shares_of_named_environments(name):
  if name.startswith('gym:'):
    pytest.importorskip('gymnasium')
  env_fn = registry.environment_fn(name)
  actions = np.random.RandomState(0).randint(0, 2, (12, 6))
  whole = _observations(env_fn(6, 3), actions)
  for i in range(3):
    share = streams.Share.of_process(6, i, 3)
    own = _observations(
      streams.make(env_fn, 3, share), share.select(actions.T).T
    )
    wanted = jax.tree.map(lambda x, i=i: x[:, 2 * i : 2 * i + 2], whole)
    jax.tree.map(np.testing.assert_array_equal, own, wanted)
    assert share.was_used


def test_other_environments_get_another_seed():
  made = []

  class Env:
    is_jittable = False

    def __init__(self, batch_size, seed):
      made.append((batch_size, seed))

    def close(self):
      pass

  seeds = []
  for i in range(3):
    streams.make(Env, 5, streams.Share.of_process(12, i, 3))
    seeds.append(made[-1])
  assert {size for size, _ in seeds} == {4}
  assert len({seed for _, seed in seeds}) == 3
  assert seeds[0] == (4, 5)


def test_without_a_share_all_streams_are_made():
  assert streams.own(4) == streams.Share(0, 4, 4)
  assert streams.own(4).select(list(range(4))) == [0, 1, 2, 3]
