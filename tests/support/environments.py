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
from disco_rl.networks import action_masks
from tests.support import masked
from tests.support import scripted


def make_scripted(batch: int, **kwargs) -> base.Environment:
  make = lambda settings: scripted.Scripted(settings.random_seed, **kwargs)
  return batched_env.BatchedSingleStreamEnvironment(
    make, batch, dict(random_seed=0)
  )


def named(name: str, **settings):
  return functools.partial(registry.get_environment, name, **settings)


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
  'tasks': named('tasks:all', families=('catch', 'memory')),
  'doors': lambda batch: masked.environment(batch),
  'gym_masked': named('gym:tests.support.masked:GymDoors', action_mask=True),
  'dm_masked': named('dm:tests.support.masked:DmDoors'),
  'pgx': named('pgx:2048', max_steps=7),
  'pgx_minatar': named('pgx:minatar-breakout', max_steps=7),
}
# Those of packages that the tests do not need, and their packages.
OPTIONAL = {'pgx': 'pgx', 'pgx_minatar': 'pgx'}

JITTABLE = ('catch', 'gymnax', 'tasks', 'doors', 'pgx')
LAST = int(dm_env.StepType.LAST)


def params(names, **marks):
  """Makes parameters of tests, skipped where a package is missing."""
  return [
    pytest.param(name, marks=[*marks.get(name, ()), *_skipping(name)])
    for name in names
  ]


def _skipping(name):
  package = OPTIONAL.get(name)
  if package is None or importlib.util.find_spec(package):
    return []
  return [pytest.mark.skip(reason=f'needs the package {package}')]


def play(env, num_steps, rng=None, actions=None):
  rng = jax.random.PRNGKey(0) if rng is None else rng
  random_actions = actions is None
  if random_actions:
    num_actions = env.single_action_spec().maximum + 1
    actions = np.random.RandomState(0).randint(
      num_actions, size=(num_steps, env.batch_size)
    )
  states, timestep = env.reset(rng)
  timesteps = [timestep]
  for t in range(num_steps):
    action = actions[t]
    if random_actions and timestep.action_mask is not None:
      action = action_masks.sample(jax.random.PRNGKey(t), timestep.action_mask)
    states, timestep = env.step(states, jnp.asarray(action, jnp.int32))
    timesteps.append(timestep)
  return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
