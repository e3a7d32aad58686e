"""Atari games: against the emulator's own batches, and saved."""

import jax
import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.environments import registry
from disco_rl.environments.adapters import area_images
from disco_rl.environments.adapters import atari_env
from tests.support import environments
from tests.support import golden
from tests.support import runs


@pytest.mark.parametrize(
  ('game', 'settings'),
  [
    ('SpaceInvaders', dict(life_is_episode=True, clip_rewards=True)),
    ('Breakout', dict(max_frames=200, fire_on_reset=True)),
    ('Skiing', dict(full_action_space=True, sticky_actions=0.0)),
    ('Pong', dict(size=100, frame_skip=1, frame_stack=2, max_noops=0)),
    ('Boxing', dict(size=30, frame_skip=3, sticky_actions=1.0)),
  ],
)
def test_timesteps_are_those_of_the_emulators_batches(game, settings):
  traces, specs = [], []
  for num_threads in (0, 2):
    env = registry.get_environment(
      f'atari:{game}', 2, num_threads=num_threads, random_seed=3, **settings
    )
    traces.append(environments.play(env, 150))
    specs.append((env.single_observation_spec(), env.single_action_spec()))
    env.close()
  golden.check_trees_close(*traces, 0)
  assert specs[0] == specs[1]


def test_threads_and_workers_exclude_each_other():
  with pytest.raises(ValueError, match='num_threads=2 and num_workers=1 excl'):
    registry.get_environment('atari:Pong', 2, num_threads=2, num_workers=1)


def _continue(env, num_steps):
  """Plays on; returns all timesteps."""
  num_actions = env.single_action_spec().maximum + 1
  actions = np.random.RandomState(1).randint(
    num_actions, size=(num_steps, env.batch_size)
  )
  steps = [env.step(None, own)[1] for own in actions]
  return jax.tree.map(lambda *xs: np.stack(xs), *steps)


def _check_restored(name, before, after, **settings):
  """Checks that a restored game continues as the one that was saved."""
  env = registry.get_environment(name, 1, random_seed=1, **settings)
  environments.play(env, before)
  snapshot = jax.tree.map(np.copy, env.snapshot())
  expected = _continue(env, after)
  again = registry.get_environment(name, 1, random_seed=7, **settings)
  again.restore(snapshot)
  golden.check_trees_close(_continue(again, after), expected, 0)
  golden.check_trees_close(again.snapshot(), env.snapshot(), 0)
  same_shapes = jax.tree.map(
    lambda x, y: x.shape == y.shape, snapshot, env.snapshot()
  )
  assert all(jax.tree.leaves(same_shapes))
  env.close()
  again.close()


# Qbert and Tetris read switches that are not part of the emulator's state.
@pytest.mark.parametrize('game', ['Pong', 'Qbert', 'Tetris'])
def test_games_are_restored(game):
  _check_restored(f'atari:{game}', 40, 60, size=42, max_frames=250)


@pytest.mark.slow
def test_every_game_is_restored():
  names = atari_env.known_names()
  assert len(names) > 100
  for i, game in enumerate(names):
    _check_restored(f'atari:{game}', 60 + i % 40, 60, size=42)


@pytest.mark.slow
def test_a_killed_run_is_resumed_bit_exact(tmp_path):
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  sizes = [size for size in runs.TINY if 'env.' not in size]
  words = ['--rule=actor_critic', '--env=atari:Breakout', '--steps=60', *sizes]
  words += ['--set=env.size=16', '--set=env.max_frames=300', '--net=mlp']
  assert main.main(['eval', *words, '--quiet', f'--out={whole}']) == 0
  process = runs.start('eval', *words, f'--out={killed}')
  runs.wait_for_rows(killed, 3, process)
  process.kill()
  process.communicate()
  assert main.main(['eval', '--resume', str(killed), '--quiet']) == 0
  runs.check_same_files(killed, whole)


@pytest.mark.parametrize('sizes', [(21, 8), (16, 12), (10, 10), (7, 20)])
def test_resized_pixels_are_the_means_of_their_areas(sizes):
  old, new = sizes
  image = np.random.RandomState(0).randint(256, size=(old, old + 3))
  image = image.astype(np.uint8)
  actual = area_images.Resizer(image.shape, (new, new + 1))(image)
  # Every pixel as many small ones, which are averaged.
  small = np.repeat(np.repeat(image, new, 0), new + 1, 1).astype(float)
  parts = small.reshape(new, old, new + 1, old + 3)
  np.testing.assert_allclose(actual, parts.mean((1, 3)), atol=0.501)
