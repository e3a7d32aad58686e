"""Small environments of every kind, and a way to play them."""

import functools
import importlib.util

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.environments.wrappers import batched_env
from tests.support import scripted


def make_scripted(batch: int, **kwargs) -> base.Environment:
  make = lambda settings: scripted.Scripted(settings.random_seed, **kwargs)
  return batched_env.BatchedSingleStreamEnvironment(
    make, batch, dict(random_seed=0)
  )


def named(name: str, **settings):
  return functools.partial(registry.get_environment, name, **settings)


PROCGEN_SEED = 3  # With which a game ends after a few random actions.

# Settings with which episodes are short.
ENVIRONMENTS = {
  **{name: named(name) for name in registry.ENVIRONMENTS},
  'scripted': make_scripted,
  'scripted_int32': functools.partial(make_scripted, action_dtype=np.int32),
  'dm': named('dm:tests.support.scripted:Scripted'),
  'gym': named('gym:CartPole-v1', kwargs=dict(max_episode_steps=7)),
  'gym_factory': named('gym:tests.support.scripted:ScriptedGym'),
  'gym_workers': named('gym:tests.support.scripted:ScriptedGym', num_workers=1),
  'gymnax': named(
    'gymnax:Breakout-MinAtar', params=dict(max_steps_in_episode=7)
  ),
  'atari': named('atari:Pong', max_frames=40),
  'atari_threads': named('atari:Pong', max_frames=40, num_threads=2),
  'tasks': named('tasks:all', families=('catch', 'memory')),
  'procgen': named('procgen:dodgeball', random_seed=PROCGEN_SEED),
  'procgen_states': named(
    'procgen:dodgeball', random_seed=PROCGEN_SEED, backend='procgen_gym'
  ),
  'crafter': named('crafter:reward', length=7, area=12, size=18),
  'nethack': named('nethack:Score', max_episode_steps=7),
}

# The packages of environments that are tested where these are installed.
PACKAGES = dict(
  procgen='envpool',
  procgen_states='procgen_gym',
  crafter='crafter',
  nethack='nle',
)


def skip_if_missing(name: str) -> None:
  """Skips a test if the package of an environment is not installed."""
  package = PACKAGES.get(name)
  if package is not None and importlib.util.find_spec(package) is None:
    pytest.skip(f'needs the package {package}')


JITTABLE = ('catch', 'gymnax', 'tasks')
LAST = int(dm_env.StepType.LAST)


def play(env, num_steps, rng=None, actions=None):
  rng = jax.random.PRNGKey(0) if rng is None else rng
  if actions is None:
    num_actions = env.single_action_spec().maximum + 1
    actions = np.random.RandomState(0).randint(
      num_actions, size=(num_steps, env.batch_size)
    )
  states, timestep = env.reset(rng)
  timesteps = [timestep]
  for t in range(num_steps):
    states, timestep = env.step(states, jnp.asarray(actions[t], jnp.int32))
    timesteps.append(timestep)
  return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
