"""Batches of single streams."""

import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import batched_jittable_env
from tests.support import environments
from tests.support import scripted


class _Noisy:
  """Every step ends an episode; steps and resets draw a random number."""

  num_actions = 2

  def __init__(self, env_settings=None):
    pass

  def initial_state(self, rng):
    return dict(reset=jax.random.uniform(rng), step=jnp.zeros([]))

  def episode_reset(self, rng, state):
    return dict(reset=jax.random.uniform(rng), step=state['step'])

  def step(self, rng, state, action):
    return dict(state, step=jax.random.uniform(rng))

  def is_terminal(self, state):
    return jnp.asarray(True)

  def render(self, state):
    return jnp.stack([state['reset'], state['step']])

  def reward(self, state):
    return jnp.zeros([])


def test_step_and_reset_draw_different_numbers():
  env = batched_jittable_env.BatchedJittableEnvironment(_Noisy, 4, {})
  trace = environments.play(
    env, 30, actions=np.zeros((30, 4), int)
  ).observation[1:]
  resets, steps = trace[..., 0], trace[..., 1]
  assert (resets != steps).all()
  assert abs(np.corrcoef(resets.ravel(), steps.ravel())[0, 1]) < 0.3
  assert len(np.unique(trace)) == trace.size
  # The key of the reset is the published one, the second of the stream's.
  key = jax.random.split(jax.random.PRNGKey(0), 4)[0]
  key, _ = jax.random.split(key)
  key, used_now = jax.random.split(key)
  assert resets[0, 0] == jax.random.uniform(used_now)


def test_classes_get_their_settings_as_they_take_them():
  """As one object, as the published Catch does, or as keywords."""
  seen = []

  class WithObject(_Noisy):
    def __init__(self, env_settings):
      seen.append((env_settings.rows, env_settings['size']))

  class WithKeywords(_Noisy):
    def __init__(self, rows, size=0):
      seen.append((rows, size))

  class WithAnyKeywords(_Noisy):
    def __init__(self, **kwargs):
      seen.append((kwargs['rows'], kwargs['size']))

  class Refusing(_Noisy):
    def __init__(self, rows, columns=3):
      pass

  make = batched_jittable_env.BatchedJittableEnvironment
  settings = config_dict.ConfigDict(dict(rows=5, size=2))
  for env_class in (WithObject, WithKeywords, WithAnyKeywords):
    make(env_class, 2, settings)
  assert seen == [(5, 2)] * 3
  with pytest.raises(TypeError, match="'size'"):
    make(Refusing, 2, settings)


def test_streams_have_seeds_of_their_own_in_their_settings():
  seeds = []

  class Seeded(scripted.Scripted):
    def __init__(self, env_settings):
      super().__init__()
      seeds.append((env_settings.random_seed, env_settings.inner.size))

  settings = config_dict.ConfigDict(dict(random_seed=1, inner=dict(size=3)))
  make = batched_env.BatchedSingleStreamEnvironment
  make(Seeded, 3, settings)
  wanted = jax.random.randint(
    jax.random.PRNGKey(1), (3,), 0, np.iinfo(np.int32).max
  )
  assert seeds == [(int(seed), 3) for seed in wanted]
  assert settings.random_seed == 1
  with pytest.raises(ValueError, match=r"random_seed.*got \['rows'\]"):
    make(Seeded, 3, dict(rows=3))


def test_wrong_number_of_actions_is_refused():
  env = environments.ENVIRONMENTS['catch_numpy'](2)
  states, _ = env.reset(None)
  with pytest.raises(ValueError, match=r'shape \(2,\), got \(3,\)'):
    env.step(states, np.zeros(3, np.int32))
