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
from disco_rl.environments.wrappers import vmapped_env
from disco_rl.networks import action_masks
from tests.support import masked
from tests.support import scripted


def make_scripted(batch: int, **kwargs) -> base.Environment:
  make = lambda settings: scripted.Scripted(settings.random_seed, **kwargs)
  return batched_env.BatchedSingleStreamEnvironment(
    make, batch, dict(random_seed=0)
  )


def named(name: str, **settings):
  """Makes a named environment; skips the test if its package is missing."""

  def make(batch_size):
    skip_without(name.partition(':')[0])
    return registry.get_environment(name, batch_size, **settings)

  return make


def skip_without(name: str) -> None:
  """Skips a test if the package of a family or backend is not installed."""
  package = _BACKENDS.get(name)
  if name in registry.FAMILIES:
    package = registry.FAMILIES[name].package
  if package and importlib.util.find_spec(package) is None:
    pytest.skip(f'{name} needs the package {package}, an extra')


_BACKENDS = dict(procgen_states='procgen_gym')
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
  'craftax': named(
    'craftax:Craftax-Classic-Symbolic-v1', params=dict(max_timesteps=7)
  ),
  'jumanji': named('jumanji:Snake-v1', kwargs=dict(time_limit=7)),
  'jumanji_joint': named('jumanji:Tetris-v0', kwargs=dict(time_limit=7)),
  'xminigrid': named('xminigrid:MiniGrid-Empty-5x5', max_steps=7),
  'navix': named('navix:Navix-Empty-5x5-v0', max_steps=7),
  'sokoban': named('sokoban', size=6, boxes=1, num_levels=8, time_limit=7),
  'atari': named('atari:Pong', max_frames=40),
  'atari_threads': named('atari:Pong', max_frames=40, num_threads=2),
  'tasks': named('tasks:all', families=('catch', 'memory')),
  'doors': lambda batch: masked.environment(batch),
  'gym_masked': named('gym:tests.support.masked:GymDoors', action_mask=True),
  'dm_masked': named('dm:tests.support.masked:DmDoors'),
  'pgx': named('pgx:2048', max_steps=7),
  'pgx_minatar': named('pgx:minatar-breakout', max_steps=7),
  'procgen': named('procgen:dodgeball', random_seed=PROCGEN_SEED),
  'procgen_states': named(
    'procgen:dodgeball', random_seed=PROCGEN_SEED, backend='procgen_gym'
  ),
  'crafter': named('crafter:reward', length=7, area=12, size=18),
  'nethack': named('nethack:Score', max_episode_steps=7),
}

# They are compiled for half a minute.
SLOW = ('craftax',)
JITTABLE = (
  *('catch', 'craftax', 'gymnax', 'jumanji', 'jumanji_joint', 'navix'),
  *('doors', 'pgx', 'sokoban', 'tasks', 'xminigrid'),
)
LAST = int(dm_env.StepType.LAST)


def play(env, num_steps, rng=None, actions=None):
  """Plays random actions, or [T, B] given ones; returns [T+1, B, ...]."""
  rng = jax.random.PRNGKey(0) if rng is None else rng
  random_actions = actions is None
  if random_actions:
    num_actions = env.single_action_spec().maximum + 1
    actions = np.random.RandomState(0).randint(
      num_actions, size=(num_steps, env.batch_size)
    )
  reset, step = env.reset, env.step
  if type(env) is vmapped_env.VmappedEnvironment:
    # Packages of environments with many operations, slow one by one.
    reset, step = jax.jit(reset), jax.jit(step)
  states, timestep = reset(rng)
  timesteps = [timestep]
  for t in range(num_steps):
    action = actions[t]
    if random_actions and timestep.action_mask is not None:
      action = action_masks.sample(jax.random.PRNGKey(t), timestep.action_mask)
    states, timestep = step(states, jnp.asarray(action, jnp.int32))
    timesteps.append(timestep)
  return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
