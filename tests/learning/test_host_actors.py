"""Actors on the host of several agents: made, reset, saved and closed."""

import jax
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.learning import host_actors
from tests.support import hosted
from tests.support import small

SEEDS = (3, 5)
KEYS = [jax.random.split(jax.random.PRNGKey(k)) for k in range(2)]


@pytest.fixture
def made():
  """The environments that were made, with their seeds."""
  return []


@pytest.fixture
def host(made):
  make = hosted.environment_fn(made=made, rows=5, columns=4)
  env = make(3, SEEDS[0])
  actor = actors.HostActor(small.make_agent('actor_critic'), env)
  return host_actors.HostActors(actor, env, lambda seed: make(3, seed), SEEDS)


def test_every_agent_has_its_own_environment(host, made):
  assert host.actors == []
  states = host.reset(KEYS)
  assert [seed for seed, _ in made] == [3, 5]
  env = registry.get_environment('catch', 3, rows=5, columns=4)
  for own, (env_rng, _) in zip(states, KEYS, strict=True):
    _, wanted = env.reset(env_rng)
    np.testing.assert_array_equal(own.timestep.observation, wanted.observation)
  visible = host_actors.stack_visible(states)
  assert visible.env_state is None
  assert visible.timestep.observation.shape == (2, 3, 5, 4, 1)
  # Used environments are made again, and the old ones closed.
  host.reset(KEYS)
  assert [seed for seed, _ in made] == [3, 5, 3, 5]
  assert [env.is_closed for _, env in made] == [True, True, False, False]
  host.close()
  assert all(env.is_closed for _, env in made)


def test_an_environment_that_was_not_used_is_closed(host, made):
  host.close()
  assert [env.is_closed for _, env in made] == [True]


def test_only_environments_without_snapshots_are_reset(host, made):
  states = host.reset(KEYS)
  made[1][1]._has_snapshots = False
  saved = host.to_checkpoint(states)
  assert saved[0].env_state is not None and saved[1].env_state is None
  restored, goes_on = host.from_checkpoint(saved)
  np.testing.assert_array_equal(goes_on, [True, False])
  np.testing.assert_array_equal(
    restored[0].timestep.observation, states[0].timestep.observation
  )
