"""Draws observations as pictures that people can look at.

A picture is an array of uint8, [H, W, 3]. That of a board has one pixel per
cell; `runs/videos.py` enlarges it.
"""

from typing import Any

import jax
import numpy as np

# Longest side of a picture, in pixels; larger ones are reduced.
MAX_SIDE = 400

BACKGROUND = (20, 22, 30)
_ONLY_CHANNEL = (235, 235, 235)
# Colours of channels, which repeat if there are more.
_CHANNELS = (
  *((240, 228, 66), (86, 180, 233), (213, 94, 0), (0, 158, 115)),
  *((204, 121, 167), (230, 159, 0), (0, 114, 178), (170, 170, 170)),
  *((150, 220, 150), (150, 90, 60)),
)
# The colours of `symbols`, and their characters.
_COLORS = np.asarray([BACKGROUND, _ONLY_CHANNEL, *_CHANNELS], np.int32)
SYMBOLS = '·█●■◆▲○□◇△★☆'
ASCII_SYMBOLS = '.#ox*^sd+v@%'


def picture(observation: Any) -> np.ndarray | None:
  """Draws the observation of one stream.

  Args:
    observation: an array, or a tree with one that can be drawn: [H, W] or [H,
      W, C]. Of uint8, it is an image, or several that are stacked, of which the
      last is drawn: in colour if C is a multiple of 3, and otherwise in grey.
      Of other types, it is a board with cells from 0 to 1: every channel has a
      colour, and of several in one cell the last is shown.

  Returns:
    uint8, [H, W, 3]; None if there is no such array, or more than one, or if
    it has whole numbers other than 0 and 1.
  """
  arrays = [
    array
    for array in map(np.asarray, jax.tree.leaves(observation))
    if array.ndim in (2, 3) and min(array.shape) >= 1 and max(array.shape) > 1
  ]
  if len(arrays) != 1 or arrays[0].dtype.kind not in 'buif':
    return None
  array = arrays[0]
  if array.ndim == 2:
    array = array[:, :, np.newaxis]
  if array.dtype != np.uint8:
    are_numbers = array.dtype.kind in 'ui' and not np.isin(array, (0, 1)).all()
    return None if are_numbers else _board(array)
  if array.shape[-1] % 3:
    array = np.repeat(array[:, :, -1:], 3, axis=-1)
  return np.array(array[:, :, -3:])


def reduce(large: np.ndarray) -> np.ndarray:
  """Reduces a picture by averaging, so that no side exceeds `MAX_SIDE`.

  Args:
    large: uint8, [H, W, 3].

  Returns:
    uint8, [H', W', 3]; the same if it is small enough.
  """
  factor = -(-max(large.shape[:2]) // MAX_SIDE)
  if factor == 1:
    return large
  height, width = (max(side // factor, 1) for side in large.shape[:2])
  cut = large[: height * factor, : width * factor]
  if cut.shape[:2] != (height * factor, width * factor):
    return large[::factor, ::factor]  # Thinner than one block.
  blocks = cut.reshape(height, factor, width, factor, 3)
  return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


def symbols(board: np.ndarray, characters: str = SYMBOLS) -> list[str]:
  """Draws the picture of a board as text.

  Args:
    board: uint8, [H, W, 3].
    characters: `SYMBOLS` or `ASCII_SYMBOLS`.

  Returns:
    H lines of W characters, each that of the nearest colour.
  """
  distances = np.square(board[:, :, np.newaxis].astype(np.int32) - _COLORS).sum(
    axis=-1
  )  # [H, W, colours]
  return [
    ''.join(characters[i] for i in row) for row in distances.argmin(axis=-1)
  ]


def _board(cells: np.ndarray) -> np.ndarray:
  """Draws a board with cells [H, W, C], from 0 to 1."""
  num_channels = cells.shape[-1]
  colors = [_CHANNELS[i % len(_CHANNELS)] for i in range(num_channels)]
  if num_channels == 1:
    colors = [_ONLY_CHANNEL]
  shares = np.clip(np.nan_to_num(cells.astype(np.float32)), 0.0, 1.0)
  drawn = np.broadcast_to(
    np.asarray(BACKGROUND, np.float32), (*cells.shape[:2], 3)
  )
  for i, color in enumerate(colors):
    share = shares[:, :, i, np.newaxis]
    drawn = (1 - share) * drawn + share * np.asarray(color, np.float32)
  return drawn.round().astype(np.uint8)
