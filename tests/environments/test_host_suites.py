"""ProcGen, Crafter and NetHack against their packages, and saved."""

import multiprocessing
import os
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.environments.adapters import procgen_env
from disco_rl.environments.wrappers import worker_env
from tests.support import environments
from tests.support import golden

# Small worlds, which are quickly made.
CRAFTER = dict(area=16, size=18)


def _actions(num_actions, num_steps, batch_size=2):
  return np.random.RandomState(2).randint(
    num_actions, size=(num_steps, batch_size)
  )


def _continue(env, actions):
  steps = [env.step(None, own)[1] for own in actions]
  return jax.tree.map(lambda *xs: np.stack(xs), *steps)


@pytest.mark.parametrize(
  ('name', 'settings'),
  [
    ('crafter', dict(name='crafter:reward', length=60, **CRAFTER)),
    ('nethack', dict(name='nethack:Score', max_episode_steps=60)),
    (
      'procgen_states',
      dict(name='procgen:starpilot', backend='procgen_gym', random_seed=1),
    ),
  ],
)
def test_games_are_restored(name, settings):
  environments.skip_without(name)
  make = lambda: registry.get_environment(
    batch_size=2, frame_stack=2, **settings
  )
  env, again = make(), make()
  num_actions = env.single_action_spec().maximum + 1
  environments.play(env, 80)  # Into the second episode.
  snapshot = jax.tree.map(np.copy, env.snapshot())
  actions = _actions(num_actions, 100)
  expected = _continue(env, actions)
  again.restore(snapshot)
  golden.check_trees_close(_continue(again, actions), expected, 0)
  golden.check_trees_close(again.snapshot(), env.snapshot(), 0)
  assert (expected.step_type == environments.LAST).any()
  env.close()
  again.close()


def test_procgen_is_envpools():
  """The same images and rewards, without its steps between episodes."""
  environments.skip_without('procgen')
  import envpool

  env = registry.get_environment('procgen:fruitbot', 2, random_seed=4)
  own = envpool.make(
    'FruitbotHard-v0', 'gymnasium', num_envs=2, seed=8, channel_first=False
  )
  actions = _actions(15, 150)
  trace = environments.play(env, 150, actions=actions)
  image, _ = own.reset()
  np.testing.assert_array_equal(trace.observation[0], image)
  for t, action in enumerate(actions, start=1):
    image, reward, terminated, truncated, _ = own.step(action.astype(np.int32))
    is_last = terminated | truncated
    ends = trace.step_type[t] == environments.LAST
    np.testing.assert_array_equal(ends, is_last)
    np.testing.assert_array_equal(trace.reward[t], reward)
    goes_on = np.flatnonzero(~is_last)
    np.testing.assert_array_equal(trace.observation[t][goes_on], image[goes_on])
    if is_last.any():
      own.reset(np.flatnonzero(is_last).astype(np.int32))
  assert (trace.step_type == environments.LAST).any()
  env.close()


def test_frames_of_procgen_are_stacked_within_an_episode():
  environments.skip_without('procgen')
  single, stacked = (
    environments.play(
      registry.get_environment(
        'procgen:fruitbot', 1, frame_stack=n, random_seed=4
      ),
      150,
    )
    for n in (1, 3)
  )
  ends = np.flatnonzero(single.step_type == environments.LAST)
  assert len(ends)
  for t in range(4, 150):
    # The frames since the episode began, the first one repeated.
    first = max([0, *ends[ends <= t]])
    for back in range(3):
      channels = slice(6 - 3 * back, 9 - 3 * back)
      np.testing.assert_array_equal(
        stacked.observation[t, 0, ..., channels],
        single.observation[max(t - back, first), 0],
      )


def test_modes_of_procgen_are_those_of_the_game():
  environments.skip_without('procgen')
  assert len(procgen_env.GAMES) == 16
  with pytest.raises(ValueError, match=r'one of easy, hard, got .*memory'):
    registry.get_environment('procgen:coinrun', 1, distribution_mode='memory')
  env = registry.get_environment(
    'procgen:maze', 1, distribution_mode='memory', num_levels=1
  )
  assert env.single_action_spec().maximum == 14
  env.close()
  with pytest.raises(ValueError, match=r'did you mean coinrun\?'):
    registry.get_environment('procgen:coinrum', 1)


def test_nothing_is_printed():
  """Packages of old gym print a notice; emulators print their version."""
  for name in ('procgen', 'crafter'):
    environments.skip_without(name)
  program = (
    'from disco_rl.environments import registry\n'
    'for name in ("procgen:maze", "crafter:reward", "atari:Pong"):\n'
    '  registry.get_environment(name, 1).close()\n'
  )
  result = subprocess.run(
    [sys.executable, '-c', program], capture_output=True, text=True, check=True
  )
  assert result.stdout + result.stderr == ''


@pytest.mark.parametrize('prepare', [False, True])
def test_crafter_is_the_package_in_any_case(prepare):
  """Worlds made in advance are those that a game of the package has."""
  environments.skip_without('crafter')
  import crafter

  env = registry.get_environment(
    # Shorter than ten steps, after which the package's random choices depend
    # on addresses in memory.
    'crafter:reward',
    1,
    length=9,
    prepare_worlds=prepare,
    **CRAFTER,
  )
  actions = _actions(17, 100, 1)
  trace = environments.play(env, 100, actions=actions)
  env.close()
  seed = int(np.random.SeedSequence(0).generate_state(1)[0] >> 1)
  own = crafter.Env(area=(16, 16), size=(18, 18), length=9, seed=seed)
  image = own.reset()
  for t, (action,) in enumerate(actions, start=1):
    np.testing.assert_array_equal(trace.observation[t - 1, 0], image)
    image, reward, is_last, _ = own.step(action)
    assert trace.reward[t, 0] == np.float32(reward)
    assert (trace.step_type[t, 0] == environments.LAST) == is_last
    if is_last:
      image = own.reset()
  assert own._episode == 12


def test_crafter_without_rewards():
  environments.skip_without('crafter')
  traces = []
  for name in ('reward', 'no_reward'):
    env = registry.get_environment(f'crafter:{name}', 2, length=200, **CRAFTER)
    traces.append(environments.play(env, 100))
    env.close()
  golden.check_trees_close(traces[0].observation, traces[1].observation, 0)
  assert traces[0].reward.any() and not traces[1].reward.any()


@pytest.mark.slow
def test_crafter_in_workers():
  """The same games; and a worker that dies ends them with one sentence."""
  environments.skip_without('crafter')
  make = lambda num_workers: registry.get_environment(
    'crafter:reward', 2, num_workers=num_workers, length=30, **CRAFTER
  )
  before = set(multiprocessing.active_children())
  env, in_workers = make(0), make(2)
  actions = _actions(17, 50)
  golden.check_trees_close(
    environments.play(in_workers, 50, actions=actions),
    environments.play(env, 50, actions=actions),
    0,
  )
  workers = set(multiprocessing.active_children()) - before
  os.kill(workers.pop().pid, signal.SIGKILL)
  with pytest.raises(worker_env.WorkerError, match=r'died with exit code -9'):
    for _ in range(3):
      in_workers.step(None, actions[0])
  env.close()


def test_nethack_is_the_package():
  environments.skip_without('nethack')
  from nle.env import tasks

  env = registry.get_environment('nethack:Score', 1, max_episode_steps=300)
  actions = _actions(23, 400, 1)
  trace = environments.play(env, 400, actions=actions)
  env.close()
  own = tasks.NetHackScore(
    render_mode='ansi', max_episode_steps=300, fix_moon_phase=True
  )
  stream_seed = int(np.random.SeedSequence(0).generate_state(1)[0] >> 1)

  def reset(episode):
    sequence = np.random.SeedSequence([stream_seed, episode])
    core, display = (int(x) for x in sequence.generate_state(2))
    own.seed(core, display, reseed=False)
    return own.reset()[0]

  observation, episode = reset(0), 0
  for t, (action,) in enumerate(actions, start=1):
    for key in ('glyphs', 'blstats', 'message'):
      np.testing.assert_array_equal(
        trace.observation[key][t - 1, 0], observation[key], err_msg=f'{t} {key}'
      )
    observation, reward, terminated, truncated, _ = own.step(action)
    assert trace.reward[t, 0] == np.float32(reward)
    is_last = terminated or truncated
    assert (trace.step_type[t, 0] == environments.LAST) == is_last
    if is_last:
      episode += 1
      observation = reset(episode)
  assert episode >= 1
  own.close()


def test_settings_of_nethack():
  environments.skip_without('nethack')
  env = registry.get_environment(
    'nethack:NetHackChallenge-v0', 1, observation_keys=('tty_chars', 'blstats')
  )
  assert env.single_observation_spec()['tty_chars'].shape == (24, 80)
  assert env.single_action_spec().maximum == 120
  env.reset(None)
  assert env.snapshot() is None  # The challenge forbids seeds.
  env.close()
  with pytest.raises(ValueError, match=r'did you mean Score\?'):
    registry.get_environment('nethack:Scor', 1)
  with pytest.raises(ValueError, match='one of glyphs'):
    registry.get_environment('nethack:Score', 1, observation_keys=('glyph',))
