"""Levels of Sokoban: generated ones, and those in text files.

Generated levels can be solved by construction. A random walk carves a room into
walls, boxes are put on targets, and a player who only pulls moves them away at
random; the same moves backwards, with pushes, solve the level.

Files are in the format of Boxoban: after a line `; 7` with any number, a level
has a row of characters per line, which are `#` (wall), `@` (player), `$` (box),
`.` (target), `*` (box on a target), `+` (player on a target) and a space.
"""

from collections.abc import Callable, Iterator, Sequence
import pathlib
from typing import Any, NamedTuple

import numpy as np

from disco_rl import fields

# The directions of actions: up, down, left, right.
MOVES = np.asarray([(-1, 0), (1, 0), (0, -1), (0, 1)])
OPPOSITE = np.asarray([1, 0, 3, 2])

_PULLS = 300  # Steps of the player who pulls.
_STRAIGHT = 0.6  # Probability of carving on in the same direction.
_MAX_ROUNDS = 200
_LONGEST_LINE = 1000
_CELLS = '#@$.*+ '


class Levels(NamedTuple):
  """L levels on boards of S x S cells, which walls surround."""

  walls: np.ndarray  # [L, S, S], bool.
  targets: np.ndarray  # [L, S, S], bool.
  boxes: np.ndarray  # [L, S, S], bool, as many as targets.
  players: np.ndarray  # [L, 2], row and column, int32.


def generate(
  num_levels: int, size: int = 10, num_boxes: int = 4, seed: int = 0
) -> tuple[Levels, list[list[int]]]:
  """Generates levels that can be solved.

  Args:
    num_levels: L.
    size: S, at least 5.
    num_boxes: number of boxes.
    seed: a seed; the same one gives the same levels.

  Returns:
    The levels, and a list of actions for each that solves it (usually not the
    shortest one).

  Raises:
    ValueError: if a board is too small for its boxes.
  """
  rng = np.random.default_rng(seed)
  found: list[Levels] = []
  solutions: list[list[int]] = []
  for _ in range(_MAX_ROUNDS):
    levels, solved_by = _generate_some(max(num_levels, 8), size, num_boxes, rng)
    found.append(levels)
    solutions += solved_by
    if len(solutions) >= num_levels:
      joined = _join(np.concatenate, found)
      return _take(joined, slice(num_levels)), solutions[:num_levels]
  raise ValueError(
    f'no levels with {num_boxes} boxes were found on a board of {size} x '
    f'{size}: choose fewer boxes or a larger board'
  )


def _generate_some(
  num: int, size: int, num_boxes: int, rng: np.random.Generator
) -> tuple[Levels, list[list[int]]]:
  """Makes `num` levels, and returns those in which every box was moved."""
  walls = _carve(num, size, rng)
  walls = walls[(~walls).sum((1, 2)) > num_boxes + 1]
  num = len(walls)
  if not num:
    return Levels(walls, walls, walls, np.zeros((0, 2), np.int32)), []
  # Random floor cells, different ones: targets, and then the player.
  order = np.where(walls, 2.0, rng.random(walls.shape)).reshape(num, -1)
  cells = np.argsort(order, axis=1)[:, : num_boxes + 1]
  is_target = np.zeros((num, size * size), bool)
  np.put_along_axis(is_target, cells[:, :-1], True, axis=1)
  targets = is_target.reshape(walls.shape)
  player = np.stack(np.divmod(cells[:, -1], size), axis=1)
  boxes = targets.copy()
  best_boxes, best_player = boxes.copy(), player.copy()
  best, length = np.zeros(num, int), np.zeros(num, int)
  every = np.arange(num)
  path = np.full((_PULLS, num), -1)
  for t in range(_PULLS):
    action = rng.integers(4, size=num)
    pulls = rng.random(num) < 0.8
    move = MOVES[action]
    ahead, behind = player + move, player - move
    at = (every, *ahead.T)
    moves = ~walls[at] & ~boxes[at]
    pulls &= moves & boxes[(every, *behind.T)]
    path[t, moves] = action[moves]
    boxes[(every[pulls], *behind[pulls].T)] = False
    boxes[(every[pulls], *player[pulls].T)] = True
    player = np.where(moves[:, None], ahead, player)
    moved = (boxes & ~targets).sum((1, 2))
    better = moved >= best
    best[better], length[better] = moved[better], t + 1
    best_boxes[better], best_player[better] = boxes[better], player[better]
  kept = np.flatnonzero(best == num_boxes)
  solutions = []
  for i in kept:
    taken = path[: length[i], i]
    solutions.append(OPPOSITE[taken[taken >= 0]][::-1].tolist())
  levels = Levels(walls, targets, best_boxes, best_player.astype(np.int32))
  return _take(levels, kept), solutions


def _take(levels: Levels, index: Any) -> Levels:
  """Selects some levels."""
  return Levels(*(x[index] for x in levels))


def _join(join: Callable[..., np.ndarray], levels: Sequence[Levels]) -> Levels:
  """Joins levels array by array."""
  return Levels(*(join(arrays) for arrays in zip(*levels, strict=True)))


def _carve(num: int, size: int, rng: np.random.Generator) -> np.ndarray:
  """Carves connected rooms into boards of walls.

  Args:
    num: number of boards.
    size: S.
    rng: source of random numbers.

  Returns:
    [num, S, S], bool, the remaining walls, with all those on the border.
  """
  walls = np.ones((num, size, size), bool)
  every = np.arange(num)
  at = rng.integers(1, size - 1, size=(num, 2))
  action = rng.integers(4, size=num)
  for _ in range(2 * size + 4):
    # A square of two by two cells, so that boxes can be passed.
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
      row, column = np.minimum(at + corner, size - 2).T
      walls[every, row, column] = False
    turns = rng.random(num) > _STRAIGHT
    action = np.where(turns, rng.integers(4, size=num), action)
    at = np.clip(at + MOVES[action], 1, size - 2)
  return walls


def read(folder: str, size: int, num_levels: int) -> Levels:
  """Reads levels from the files of a folder, in the order of their names.

  Args:
    folder: path of a folder with files `*.txt`, or of one file.
    size: S, rows and columns of every level.
    num_levels: L; no more are read, and fewer are an error only if there are
      none.

  Returns:
    The levels.

  Raises:
    ValueError: if there are none, or a file is not valid; the message names the
      file and the line.
  """
  path = pathlib.Path(folder)
  try:
    files = [path] if path.is_file() else sorted(path.glob('*.txt'))
    files = [file for file in files if file.is_file()]
  except (OSError, ValueError) as error:
    raise ValueError(f'cannot read levels from {folder}: {error}') from None
  levels: list[Levels] = []
  for file in files:
    try:
      for level in _read_file(file, size):
        levels.append(level)
        if len(levels) == num_levels:
          return _join(np.stack, levels)
    except OSError as error:
      raise ValueError(f'cannot read {file}: {error.strerror}') from None
  if not levels:
    raise ValueError(
      f'no levels in {folder}: it must be a folder with files *.txt, in which '
      'a line like "; 0" begins each level'
    )
  return _join(np.stack, levels)


def _read_file(file: pathlib.Path, size: int) -> Iterator[Levels]:
  """Yields the levels in a file, each without [L]."""
  rows: list[str] = []
  number = 0
  # Every character is valid in this encoding; others are refused below.
  with file.open(encoding='latin-1', newline='\n') as lines:
    while line := lines.readline(_LONGEST_LINE):
      number += 1
      where = f'{file}, line {number}'
      text = line.rstrip('\r\n')
      if text.strip() and not text.lstrip().startswith(';'):
        _check_row(text, where, size, len(rows))
        rows.append(text)
      elif rows:
        yield _parse(rows, f'{file}, line {number - 1}', size)
        rows = []
  if rows:
    yield _parse(rows, f'{file}, line {number}', size)


def _check_row(text: str, where: str, size: int, row: int) -> None:
  """Raises a `ValueError` for a line that is no row of a level."""
  wrong = next((c for c in text if c not in _CELLS), None)
  if wrong is not None:
    raise ValueError(
      f'{where}: {fields.shorten(wrong)} is no cell of a level; the cells are '
      f'{" ".join(_CELLS.strip())} and a space'
    )
  if len(text) != size or row >= size:
    what = f'of {len(text)} cells' if len(text) != size else f'number {row + 1}'
    raise ValueError(
      f'{where}: a row {what}, but levels must have {size} rows of {size} cells'
    )


def _parse(rows: list[str], where: str, size: int) -> Levels:
  """Converts the rows of a level, the last of which is at `where`."""
  if len(rows) != size:
    raise ValueError(
      f'{where}: a level ends after {len(rows)} rows, but must have {size}'
    )
  cells = np.asarray([list(row) for row in rows])
  walls = cells == '#'
  targets, boxes, players = (
    np.isin(cells, list(x)) for x in ('.*+', '$*', '@+')
  )
  if players.sum() != 1:
    raise ValueError(
      f'{where}: the level that ends here has {players.sum()} players, not one'
    )
  if not boxes.any() or boxes.sum() != targets.sum():
    raise ValueError(
      f'{where}: the level that ends here has {boxes.sum()} boxes and '
      f'{targets.sum()} targets; it must have as many of both, and some'
    )
  if (boxes == targets).all():
    raise ValueError(f'{where}: the level that ends here is already solved')
  inside = walls[1:-1, 1:-1].size
  if walls.sum() - walls[1:-1, 1:-1].sum() != walls.size - inside:
    raise ValueError(
      f'{where}: the level that ends here is not surrounded by walls'
    )
  player = np.argwhere(players)[0].astype(np.int32)
  return Levels(walls, targets, boxes, player)
