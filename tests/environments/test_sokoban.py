"""Sokoban: its rules against a naive game, and levels that can be solved."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.environments import sokoban
from disco_rl.environments import sokoban_levels
from tests.support import environments

# Two levels of 6 x 6 cells, with all kinds of cells.
LEVELS = """; 0
######
#@$ .#
#  $ #
#    #
#  . #
######

; 1
######
#+$* #
#    #
#    #
#    #
######
"""
UP, DOWN, LEFT, RIGHT = range(4)


class Naive:
  """The game on a board of characters, one rule after the other."""

  def __init__(self, levels, index):
    self.walls, self.targets, self.boxes = (
      {tuple(cell) for cell in np.argwhere(kind[index])} for kind in levels[:3]
    )
    self.player = tuple(levels.players[index])

  def step(self, action):
    """Returns the reward, and whether the level is solved."""
    row, column = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}[
      action
    ]
    ahead = (self.player[0] + row, self.player[1] + column)
    beyond = (ahead[0] + row, ahead[1] + column)
    reward = -0.1
    if ahead in self.walls:
      return reward, False
    if ahead in self.boxes:
      if beyond in self.walls or beyond in self.boxes:
        return reward, False
      self.boxes.remove(ahead)
      self.boxes.add(beyond)
      reward += (beyond in self.targets) - (ahead in self.targets)
    self.player = ahead
    is_solved = self.boxes == self.targets
    return reward + 10 * is_solved, is_solved

  def render(self, size):
    image = np.zeros((size, size, 4), bool)
    parts = (self.walls, self.targets, self.boxes, {self.player})
    for layer, cells in enumerate(parts):
      for cell in cells:
        image[(*cell, layer)] = True
    return image


def _folder(tmp_path, text=LEVELS, name='a.txt'):
  (tmp_path / name).write_text(text)
  return str(tmp_path)


def _solve(levels, index):
  """Returns the length of the shortest solution, found by breadth."""
  game = Naive(levels, index)
  start = (game.player, frozenset(game.boxes))
  seen, queue = {start}, collections.deque([(start, 0)])
  while queue:
    (player, boxes), length = queue.popleft()
    for action in range(4):
      game.player, game.boxes = player, set(boxes)
      _, is_solved = game.step(action)
      if is_solved:
        return length + 1
      state = (game.player, frozenset(game.boxes))
      if state not in seen:
        seen.add(state)
        queue.append((state, length + 1))
  return None


@pytest.mark.parametrize('size', [10, 7])
def test_every_step_is_that_of_a_naive_game(size):
  num_boxes, num_streams, num_steps = size // 2 - 1, 6, 60
  levels, _ = sokoban_levels.generate(20, size, num_boxes, 5)
  env = registry.get_environment(
    'sokoban',
    num_streams,
    size=size,
    boxes=num_boxes,
    num_levels=20,
    level_seed=5,
    time_limit=1000,
  )
  assert env.single_action_spec().maximum == 3
  states, timestep = env.reset(jax.random.PRNGKey(0))
  actions = np.random.RandomState(0).randint(4, size=(num_steps, num_streams))
  games = [Naive(levels, i) for i in np.asarray(states.state.level)]
  step = jax.jit(env.step)
  pushes = 0
  for action in actions:
    for i, game in enumerate(games):
      np.testing.assert_array_equal(timestep.observation[i], game.render(size))
    states, timestep = step(states, jnp.asarray(action))
    for i, game in enumerate(games):
      before = set(game.boxes)
      reward, is_solved = game.step(int(action[i]))
      pushes += before != game.boxes
      np.testing.assert_allclose(timestep.reward[i], reward, rtol=1e-6)
      assert (timestep.step_type[i] == environments.LAST) == is_solved
      if is_solved:
        games[i] = Naive(levels, int(states.state.level[i]))
  assert pushes > 10


def test_moves_that_do_nothing_until_the_time_is_over(tmp_path):
  """In the second level, where two boxes in a row block each other."""
  folder = _folder(tmp_path, LEVELS[LEVELS.index('; 1') :])
  env = registry.get_environment(
    'sokoban', 1, size=6, levels=folder, time_limit=9
  )
  assert _solve(sokoban_levels.read(folder, 6, 9), 0) is None
  actions = np.asarray([[RIGHT], [LEFT], [UP], *[[DOWN]] * 6])
  trace = environments.play(env, 9, actions=actions)
  np.testing.assert_allclose(trace.reward[1:, 0], [-0.1] * 9, rtol=1e-6)
  assert trace.observation[6, 0, 4, 1, 3] and trace.observation[8, 0, 4, 1, 3]
  ends = (trace.step_type[:, 0] == environments.LAST).tolist()
  assert ends == [False] * 9 + [True]


@pytest.mark.parametrize(
  ('row', 'actions', 'rewards'),
  [
    ('#@$. #', [RIGHT], [10.9]),
    ('#@*  #', [RIGHT], None),
    ('#@ $.#', [UP, RIGHT, RIGHT], [-0.1, -0.1, 10.9]),
  ],
)
def test_rewards_of_pushes(tmp_path, row, actions, rewards):
  level = ['######', row, '#    #', '#    #', '#    #', '######']
  if rewards is None:  # Off its target, while another box is on none.
    level[3], level[4] = '#  $ #', '#  . #'
    rewards = [-1.1]
  env = registry.get_environment(
    'sokoban', 1, size=6, levels=_folder(tmp_path, '\n'.join(level))
  )
  trace = environments.play(
    env, len(actions), actions=np.asarray(actions)[:, None]
  )
  np.testing.assert_allclose(trace.reward[1:, 0], rewards, rtol=1e-6)
  is_end = rewards[-1] > 10
  assert (trace.step_type[-1, 0] == environments.LAST) == is_end


@pytest.mark.parametrize(
  ('size', 'num_boxes'), [(10, 4), (8, 3), (6, 2), (5, 1)]
)
def test_generated_levels_are_solved_by_their_solution(size, num_boxes):
  levels, solutions = sokoban_levels.generate(30, size, num_boxes, seed=2)
  assert levels.walls.shape == (30, size, size) and len(solutions) == 30
  border = np.ones((size, size), bool)
  border[1:-1, 1:-1] = False
  assert levels.walls[:, border].all()
  assert (levels.boxes.sum((1, 2)) == num_boxes).all()
  assert (levels.targets.sum((1, 2)) == num_boxes).all()
  # Every box begins away from all targets, and nothing in a wall.
  assert not (levels.boxes & levels.targets).any()
  assert not (levels.walls & (levels.boxes | levels.targets)).any()
  for i, solution in enumerate(solutions):
    game = Naive(levels, i)
    assert game.player not in game.walls | game.boxes
    results = [game.step(action) for action in solution]
    assert results[-1][1], i
    # Unlike a wall, every cell of the path was free.
    assert game.boxes == game.targets


def test_small_generated_levels_are_solved_by_search():
  levels, solutions = sokoban_levels.generate(12, 6, 2, seed=1)
  for i, solution in enumerate(solutions):
    shortest = _solve(levels, i)
    assert shortest is not None and 1 <= shortest <= len(solution)


def test_seeds_of_levels():
  first, again, other = (
    sokoban_levels.generate(10, 7, 2, seed)[0] for seed in (0, 0, 1)
  )
  for x, y in zip(first, again, strict=True):
    np.testing.assert_array_equal(x, y)
  assert (first.walls != other.walls).any()
  with pytest.raises(ValueError, match='with 9 boxes were found on a board of'):
    sokoban_levels.generate(2, 5, 9)


def test_levels_in_files(tmp_path):
  folder = _folder(tmp_path, name='b.txt')
  # Without a line of its own before it or after it; Windows line ends.
  extra = '######\r\n#@$.##\r\n######\r\n######\r\n######\r\n######'
  _folder(tmp_path, extra, 'a.txt')
  (tmp_path / 'c.txt').mkdir()
  _folder(tmp_path, 'no level', 'readme.md')
  levels = sokoban_levels.read(folder, 6, 100)
  assert len(levels.walls) == 3
  np.testing.assert_array_equal(levels.players, [[1, 1], [1, 1], [1, 1]])
  assert np.argwhere(levels.targets[2]).tolist() == [[1, 1], [1, 3]]
  assert np.argwhere(levels.boxes[2]).tolist() == [[1, 2], [1, 3]]
  assert np.argwhere(levels.boxes[1]).tolist() == [[1, 2], [2, 3]]
  assert np.argwhere(levels.targets[1]).tolist() == [[1, 4], [4, 3]]
  assert levels.walls[0].sum() == 36 - 3
  assert len(sokoban_levels.read(f'{folder}/b.txt', 6, 100).walls) == 2


def test_no_more_levels_are_read_than_needed(tmp_path):
  folder = _folder(tmp_path, LEVELS + '\n' + 'nonsense\n' * 10)
  assert len(sokoban_levels.read(folder, 6, 2).walls) == 2
  with pytest.raises(ValueError, match=r'a.txt, line 17: .n. is no cell'):
    sokoban_levels.read(folder, 6, 3)


@pytest.mark.parametrize(
  ('old', 'new', 'message'),
  [
    ('@$ .', '@$x.', "line 3: 'x' is no cell of a level; the cells are # "),
    ('@$ .', '@$\0.', r"line 3: '\\x00' is no cell"),
    ('@$ .', '@$ .#', 'line 3: a row of 7 cells, but levels must have 6 rows'),
    ('#@$ .#', '#@$ .#\n#    #', 'line 8: a row number 7, but levels must'),
    ('#@$ .#\n', '', 'line 6: a level ends after 5 rows, but must have 6'),
    ('@$ .', ' $ .', r'line 7: .* has 0 players, not one'),
    ('@$ .', '@$@.', r'line 7: .* has 2 players, not one'),
    ('@$ .', '@  .', r'line 7: .* has 1 boxes and 2 targets'),
    ('@$ .#\n#  $ #', '@* *#\n#    #', 'has 2 boxes and 3 targets'),
    ('. #\n######', '. #\n## ###', r'line 7: .* is not surrounded by walls'),
    ('; 0\n', '#' * 5000 + '\n', 'line 1: a row of 1000 cells'),
  ],
)
def test_files_that_are_not_levels(tmp_path, old, new, message):
  assert old in LEVELS
  folder = _folder(tmp_path, LEVELS.replace(old, new, 1))
  with pytest.raises(ValueError, match=message) as caught:
    registry.get_environment('sokoban', 2, size=6, levels=folder)
  assert 'a.txt' in str(caught.value) and '\n' not in str(caught.value)


def test_levels_that_are_solved_or_missing(tmp_path):
  solved = '\n'.join(['######', '#@*  #', *['#    #'] * 3, '######'])
  with pytest.raises(ValueError, match=r'line 6: .* already solved'):
    sokoban_levels.read(_folder(tmp_path, solved), 6, 1)
  with pytest.raises(ValueError, match=r'no levels in .*nowhere'):
    registry.get_environment('sokoban', 2, levels=str(tmp_path / 'nowhere'))
  with pytest.raises(ValueError, match='levels must have 10 rows of 10 cells'):
    registry.get_environment('sokoban', 2, levels=str(tmp_path))


def test_time_limit_and_new_levels():
  env = registry.get_environment(
    'sokoban', 8, size=7, boxes=2, num_levels=50, time_limit=3
  )
  trace = environments.play(env, 9, actions=np.zeros((9, 8), int))
  ends = trace.step_type[:, 0] == environments.LAST
  assert ends.tolist() == [False, *[False, False, True] * 3]
  walls = {
    x.tobytes() for x in trace.observation[:, :, :, :, 0].reshape(-1, 49)
  }
  assert len(walls) > 8  # Other levels after a reset.


def test_defaults_are_the_usual_board():
  config = sokoban.get_config()
  assert (config.size, config.boxes, config.time_limit) == (10, 4, 120)
