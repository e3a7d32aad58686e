"""Draws boards in the terminal while an agent plays."""

import shutil
import time
from typing import TextIO

import numpy as np

from disco_rl.cli import errors
from disco_rl.environments import rendering
from disco_rl.runs import console

# Longest side of a board, in cells.
_MAX_SIDE = 40
_FRAMES_PER_SECOND = 5.0


class Screen:
  """Shows one board at a time: each in the place of the last, if it can.

  On a terminal that can move its cursor and is high enough, they are animated.
  Elsewhere, they are printed one after another.
  """

  def __init__(self, stream: TextIO, frames_per_second: float | None = None):
    """Initialises the screen.

    Args:
      stream: where to draw.
      frames_per_second: speed of the animation.
    """
    self._stream = stream
    self._seconds = 1 / (frames_per_second or _FRAMES_PER_SECOND)
    self._is_animated = console.can_rewrite(stream)
    self._symbols = rendering.SYMBOLS
    if not console.can_show(stream, rendering.SYMBOLS):
      self._symbols = rendering.ASCII_SYMBOLS
    self._is_first = True

  def start(self) -> None:
    """Starts an episode, whose boards do not replace those before."""
    self._is_first = True

  def show(self, board: np.ndarray) -> None:
    """Draws a board.

    Args:
      board: uint8, [H, W, 3], one pixel per cell.

    Raises:
      UsageError: if it is too large.
    """
    height, width = board.shape[:2]
    columns = console.width(self._stream)
    if max(height, width) > _MAX_SIDE or width > columns:
      raise errors.UsageError(
        f'--live draws boards of at most {_MAX_SIDE} by {_MAX_SIDE} cells that '
        f'fit in the {columns} columns of the terminal; this picture has '
        f'{height} by {width}: write it to a file (--out)'
      )
    # Cells of two columns are nearly square.
    separator = ' ' if 2 * width - 1 <= columns else ''
    lines = [
      separator.join(line) for line in rendering.symbols(board, self._symbols)
    ]
    # A taller board would scroll away.
    is_low = height < shutil.get_terminal_size().lines
    if self._is_animated and is_low and not self._is_first:
      time.sleep(self._seconds)
      console.write(self._stream, f'\x1b[{height}A')  # That many lines up.
    elif not self._is_first:
      lines.insert(0, '')
    console.write(self._stream, '\n'.join(lines) + '\n')
    self._is_first = False
