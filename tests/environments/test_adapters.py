"""Environments of other packages: observations, frames and lives."""

import pathlib

import gymnasium
import numpy as np
import pytest

from disco_rl import types
from disco_rl.environments import factories
from disco_rl.environments import layouts
from disco_rl.environments import registry
from disco_rl.environments.adapters import gymnasium_spaces
from disco_rl.environments.wrappers import frame_stacks
from tests.support import environments
from tests.support import scripted


def test_every_kind_of_gym_observation():
  env = registry.get_environment('gym:tests.support.scripted:SpacesGym', 2)
  trace = environments.play(env, 3).observation
  specs = env.single_observation_spec()
  assert specs['image'].dtype == np.uint8  # The network converts it.
  assert trace['image'][:, 0, 0, 0, 0].tolist() == [0, 10, 20, 30]
  np.testing.assert_array_equal(trace['number'][:, 1], np.eye(4))
  np.testing.assert_array_equal(trace['pair'][0][0, 0], [0, 1, 0, 0, 1])
  np.testing.assert_array_equal(trace['pair'][1][0, 0], [0, 1])


def test_unsupported_observations_are_refused():
  space = gymnasium.spaces.Dict(a=gymnasium.spaces.Text(5))
  with pytest.raises(ValueError, match='x/a has observations Text'):
    gymnasium_spaces.encoder(space, 'x')


def test_stacked_frames_begin_with_the_first_repeated():
  env = registry.get_environment(
    'gym:tests.support.scripted:ScriptedGym', 1, frame_stack=2
  )
  trace = environments.play(env, 5)
  spec = env.single_observation_spec()
  assert spec['place'].shape == (4,) and spec['clock'].shape == (2,)
  # No frame of an episode appears in the next.
  assert trace.observation['place'][:, 0].tolist() == [
    [1, 0, 1, 0],
    [2, 0, 2, 0],
    [2, 0, 2, 1],
    [3, 0, 3, 0],
    [3, 0, 3, 1],
    [3, 1, 3, 2],
  ]


def test_atari_frames_of_an_episode_do_not_reach_the_next():
  """After a time limit, the observation is that of a new game."""
  env = registry.get_environment('atari:Pong', 2, max_frames=40, max_noops=0)
  trace = environments.play(env, 25)
  ends = np.flatnonzero(trace.step_type[:, 0] == environments.LAST)
  assert len(ends) >= 2
  first = trace.observation[0, 0]
  for end in ends:
    np.testing.assert_array_equal(trace.observation[end, 0], first)
  assert (trace.observation[ends[0] - 1, 0] != first).any()
  env.close()


def test_atari_games_have_all_18_actions():
  """Skiing has no button: actions with it are those without."""
  settings = dict(full_action_space=True, sticky_actions=0.0, max_noops=0)
  frames = []
  for actions in ([0, 3, 3, 4, 9], [1, 11, 11, 12, 17]):
    env = registry.get_environment('atari:Skiing', 1, **settings)
    assert env.single_action_spec().maximum == 17
    state, timestep = env.reset(None)
    for action in actions:
      state, timestep = env.step(state, np.asarray([action]))
    frames.append(timestep.observation)
    env.close()
  np.testing.assert_array_equal(*frames)
  env = registry.get_environment('atari:Skiing', 1)
  assert env.single_action_spec().maximum < 8  # The game's own.
  env.close()


def test_atari_lives_and_rewards():
  """The same game, with an episode per life and clipped rewards."""
  traces = []
  for changes in (dict(), dict(life_is_episode=True, clip_rewards=True)):
    env = registry.get_environment('atari:SpaceInvaders', 1, **changes)
    traces.append(environments.play(env, 700))
    env.close()
  games, lives = traces
  np.testing.assert_array_equal(games.observation, lives.observation)
  assert games.reward.max() > 1
  np.testing.assert_array_equal(np.sign(games.reward), lives.reward)
  game_ends, life_ends = (
    set(np.flatnonzero(t.step_type == environments.LAST)) for t in traces
  )
  assert game_ends < life_ends and len(game_ends) >= 1
  # Three lives in a game.
  assert len([end for end in life_ends if end <= min(game_ends)]) == 3


def test_grey_frames_are_stacked_as_channels():
  frames = [np.full((4, 3), i) for i in range(2)]
  for new in (frames, [frame[..., None] for frame in frames]):
    stack = frame_stacks.first(new[0], 2)
    assert stack.shape == (4, 3, 2)
    stack = frame_stacks.add(stack, new[1], 2)
    assert stack[0, 0].tolist() == [0, 1]


MODULE = """
import gymnasium
from tests.support import scripted
gymnasium.register('Mine-v0', scripted.ScriptedGym)
"""


def test_ids_that_a_module_registers(tmp_path, monkeypatch):
  """In this process and in workers, named with the module or imported."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[2])
  monkeypatch.setattr(factories, 'IMPORTED', [])
  (tmp_path / 'my_gym.py').write_text(MODULE)
  for name, num_workers in (('gym:my_gym:Mine-v0', 0), ('gym:Mine-v0', 1)):
    env = registry.get_environment(name, 1, num_workers=num_workers)
    rewards = environments.play(env, 2).reward[:, 0]
    assert rewards.tolist() == scripted.REWARDS[:3]
    env.close()
  gymnasium.registry.pop('Mine-v0')
  with pytest.raises(ValueError, match='cannot import my_game'):
    registry.get_environment('gym:my_game:Mine-v0', 1)


@pytest.mark.parametrize('family', ['gym', 'dm'])
def test_a_function_that_a_module_does_not_have_is_said(family):
  name = f'{family}:tests.support.scripted:ScriptedGim'
  message = f'cannot make {name}: the module tests.support.scripted has no fun'
  with pytest.raises(ValueError, match=message) as error:
    registry.get_environment(name, 1)
  assert 'did you mean ScriptedGym?' in str(error.value)
  with pytest.raises(ValueError, match='cannot import no_such_module'):
    registry.get_environment(f'{family}:no_such_module:f', 1)


def test_more_actions_than_a_policy_can_have_are_refused():
  spec = types.ActionSpec((), np.int32, 0, 10**9 - 1)
  with pytest.raises(ValueError, match='mine has 1000000000 actions to choose'):
    layouts.check_action_spec('mine', spec)
