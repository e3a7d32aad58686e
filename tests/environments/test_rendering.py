"""Pictures of environments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import rendering
from disco_rl.environments import showing
from disco_rl.environments.wrappers import guarded_env

WHITE = 235


def _cells(picture):
  """Row and column of the cells that are not empty."""
  empty = np.asarray(rendering.BACKGROUND)
  return np.argwhere((picture != empty).any(axis=-1)).tolist()


@pytest.mark.parametrize('name', ['catch', 'catch_numpy'])
def test_catch_is_drawn_up_to_the_end_of_an_episode(name):
  env = registry.environment_fn(name, rows=4, columns=3)(1, 0)
  states, timestep = env.reset(jax.random.PRNGKey(0))
  balls = []
  for t in range(4):
    picture = env.render(states, timestep.observation)
    assert picture.shape == (4, 3, 3) and picture.dtype == np.uint8
    if t == 3:  # The next episode.
      assert balls[0][0] == 0 and _cells(picture)[0][0] == 0
      break
    balls.append(_cells(picture)[0])
    before, actions = states, np.asarray([1])
    states, timestep = env.step(states, jnp.asarray(actions))
  assert [row for row, _ in balls] == [0, 1, 2]
  assert len({column for _, column in balls}) == 1
  # In the last row, ball and paddle may be in one cell.
  end = _cells(env.render_end(before, actions))
  assert all(row == 3 for row, _ in end)
  assert {column for _, column in end} == {balls[0][1], 1}


def test_channels_have_colors_and_images_are_images():
  cells = np.zeros((2, 3, 2), bool)
  cells[0, 0, 0] = cells[1, 2, 1] = True
  picture = rendering.picture({'board': cells, 'number': np.zeros(3)})
  assert _cells(picture) == [[0, 0], [1, 2]]
  assert (picture[0, 0] != picture[1, 2]).any()
  image = np.random.RandomState(0).randint(256, size=(5, 4, 3), dtype=np.uint8)
  np.testing.assert_array_equal(rendering.picture(image), image)
  frames = rendering.picture(np.tile(image[..., :1], (1, 1, 4)))
  np.testing.assert_array_equal(frames[..., 2], image[..., 0])
  for vector in (np.zeros(4), [cells, cells], (), np.zeros((1, 1))):
    assert rendering.picture(vector) is None


def test_large_pictures_are_reduced():
  large = np.zeros((600, 900, 3), np.uint8)
  large[:3, :3] = 90
  small = rendering.reduce(large)
  assert small.shape == (200, 300, 3) and (small[0, 0] == 90).all()
  assert not small[1:].any() and rendering.reduce(small) is small
  assert rendering.reduce(np.zeros((1, 900, 3), np.uint8)).shape == (1, 300, 3)


def test_boards_are_drawn_as_text():
  cells = np.zeros((2, 3, 1), np.float32)
  cells[1, 2] = 1.0
  lines = rendering.symbols(rendering.picture(cells), rendering.ASCII_SYMBOLS)
  assert lines == ['...', '..#']
  assert len(rendering.SYMBOLS) == len(rendering.ASCII_SYMBOLS) == 12
  assert rendering.ASCII_SYMBOLS.isascii()


def test_gymnax_is_drawn_up_to_the_end_of_an_episode():
  pytest.importorskip('gymnax')
  params = dict(max_steps_in_episode=1)
  env = registry.environment_fn('gymnax:Breakout-MinAtar', params=params)(1, 0)
  states, timestep = env.reset(jax.random.PRNGKey(0))
  picture = env.render(states, timestep.observation)
  assert picture.shape == (10, 10, 3)
  end = env.render_end(states, jnp.asarray([1]))
  # Moved to the left once; a new episode has the paddle in the middle.
  assert _cells(picture)[-1] != _cells(end)[-1]


def test_gymnasium_draws_itself():
  pytest.importorskip('pygame')
  name = 'gym:CartPole-v1'
  settings = dict(kwargs=dict(max_episode_steps=2))
  drawable = showing.drawable_settings(name, settings)
  assert drawable['kwargs'] == dict(
    max_episode_steps=2, render_mode='rgb_array'
  )
  env = registry.environment_fn(name, **drawable)(1, 0)
  states, timestep = env.reset(None)
  first = env.render(states, timestep.observation)
  assert first.shape == (400, 600, 3) and first.dtype == np.uint8
  assert env.render_end(states, np.asarray([0])) is None  # Not ended yet.
  for _ in range(2):
    states, timestep = env.step(states, np.asarray([0]))
  end = env.render_end(states, np.asarray([0]))
  assert end.shape == first.shape
  assert (end != env.render(states, timestep.observation)).any()
  env.close()
  plain = registry.environment_fn(name)(1, 0)
  states, timestep = plain.reset(None)
  assert plain.render(states, timestep.observation) is None
  plain.close()


def test_a_factory_is_drawn_if_it_takes_a_render_mode():
  pytest.importorskip('gymnasium')
  name = 'gym:tests.support.scripted:ScriptedGym'
  assert showing.drawable_settings(name, {}) == {}
  assert showing.drawable_settings('catch', dict(rows=4)) == dict(rows=4)


def test_wrong_pictures_are_refused():
  class Wrong(type(registry.get_environment('catch', 1))):
    def render(self, states, observation):
      return np.zeros((2, 2))

  env = guarded_env.GuardedEnvironment(
    Wrong(1, dict(rows=3, columns=3)), 'wrong'
  )
  with pytest.raises(
    foreign.InvalidEnvironmentError,
    match=r'wrong: render returned float64 of the shape \(2, 2\)',
  ):
    env.render(None, None)


def test_a_stream_may_draw_its_state():
  class Dot:
    num_actions = 2
    initial_state = lambda self, rng: jnp.zeros([], jnp.int32)
    episode_reset = lambda self, rng, state: self.initial_state(rng)
    step = lambda self, rng, state, action: state + 1
    is_terminal = lambda self, state: state == 2
    reward = lambda self, state: jnp.zeros([])
    render = lambda self, state: jnp.ones(3) * state
    picture = lambda self, state: np.full((1, 2, 3), int(state), np.uint8)

  registry.register_environment('dot', Dot)
  env = registry.environment_fn('dot')(1, 0)
  states, timestep = env.reset(jax.random.PRNGKey(0))
  assert isinstance(env, base.Environment)
  assert env.render(states, timestep.observation).max() == 0
  assert env.render_end(states, jnp.asarray([0])).max() == 1


def test_ranges_of_returns():
  assert showing.return_range('catch') == (-1.0, 1.0)
  assert showing.return_range('gym:CartPole-v1') is None


def test_stacked_images_and_boards_of_numbers():
  stacked = np.zeros((4, 5, 12), np.uint8)  # Four images in colour.
  stacked[..., 9:] = (10, 20, 30)
  assert (rendering.picture(stacked) == (10, 20, 30)).all()
  stacked = np.zeros((4, 5, 4), np.uint8)  # Four images in grey.
  stacked[..., 3] = 7
  assert (rendering.picture(stacked) == 7).all()
  numbers = np.arange(16, dtype=np.int32).reshape(4, 4)
  assert rendering.picture(numbers) is None
  assert rendering.picture(numbers % 2).shape == (4, 4, 3)
