"""Catch in JAX and in NumPy are the same game."""

import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl.environments import catch
from disco_rl.environments import jittable_envs
from tests.support import small


def test_both_catches_play_the_same_game():
  numpy_env = catch.SingleStreamCatch(dict(rows=6, columns=5, random_seed=3))
  jax_env = jittable_envs.SingleStreamCatch(
    config_dict.ConfigDict(dict(rows=6, columns=5))
  )
  rng = np.random.RandomState(0)
  for _ in range(5):
    timestep = numpy_env.reset()
    state = jittable_envs.CatchState(
      ball_row=jnp.asarray(0),
      ball_column=jnp.asarray(int(timestep.observation[0].argmax())),
      paddle_column=jnp.asarray(2),
    )
    while True:
      np.testing.assert_array_equal(
        jax_env.render(state)[..., 0], timestep.observation
      )
      assert bool(jax_env.is_terminal(state)) == timestep.last()
      assert float(jax_env.reward(state)) == (timestep.reward or 0.0)
      if timestep.last():
        break
      action = rng.randint(3)
      timestep = numpy_env.step(action)
      state = jax_env.step(None, state, jnp.asarray(action))


def test_catch_boards_are_copies():
  env = catch.SingleStreamCatch(catch.get_config())
  before = env.reset().observation
  kept = before.copy()
  env.step(0)
  np.testing.assert_array_equal(before, kept)


@pytest.mark.parametrize(('rows', 'columns'), [(1, 5), (5, 0)])
def test_impossible_boards_are_refused(rows, columns):
  for build in (
    lambda: small.environment(1, rows, columns),
    lambda: catch.SingleStreamCatch(dict(rows=rows, columns=columns)),
  ):
    with pytest.raises(ValueError, match=f'rows={rows}, columns={columns}'):
      build()
