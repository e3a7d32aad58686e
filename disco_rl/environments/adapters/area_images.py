"""Resizes images, so that each new pixel is the mean of the area it covers.

The sums are computed in single precision, columns before rows and in the order
of the pixels, as in OpenCV, so that its results are the same to the bit.
"""

import math

import numpy as np

# Parts of a pixel below this are left out.
_LEAST_PART = 1e-3


class Resizer:
  """Resizes grey images of one size to another.

  ```python
  Resizer((210, 160), (84, 84))(screen)  # uint8 [84, 84]
  ```
  """

  def __init__(self, old: tuple[int, int], new: tuple[int, int]):
    """Computes which pixels are averaged.

    Args:
      old: height and width of the images.
      new: height and width to resize them to.
    """
    self._is_same = old == new
    self._rows = _parts(old[0], new[0])
    self._columns = _parts(old[1], new[1])

  def __call__(self, image: np.ndarray) -> np.ndarray:
    """Resizes an image.

    Args:
      image: uint8 [old height, old width].

    Returns:
      uint8 [new height, new width].
    """
    if self._is_same:
      return image.copy()
    (index, weight), *others = self._columns
    sums = image[:, index] * weight
    for index, weight in others:
      sums += image[:, index] * weight
    (index, weight), *others = self._rows
    means = sums[index] * weight[:, None]
    for index, weight in others:
      means += sums[index] * weight[:, None]
    return np.rint(means).astype(np.uint8)


def _parts(old: int, new: int) -> list[tuple[np.ndarray, np.ndarray]]:
  """Divides a line of pixels into equal parts.

  Args:
    old: number of pixels.
    new: number of parts.

  Returns:
    The first, second, ... pixel that each part covers, as pairs of an index
    and a weight, [new]. Weights of pixels that a part does not have are 0.
  """
  width = old / new
  parts = []
  for i in range(new):
    start, end = i * width, (i + 1) * width
    total = min(width, old - start)
    last = min(math.floor(end), old - 1)
    first = min(math.ceil(start), last)
    part = []
    if first - start > _LEAST_PART:
      part.append((first - 1, (first - start) / total))
    part += [(pixel, 1 / total) for pixel in range(first, last)]
    if end - last > _LEAST_PART:
      part.append((last, min(end - last, 1, total) / total))
    parts.append(part)
  most = max(map(len, parts))
  padded = [part + [(0, 0.0)] * (most - len(part)) for part in parts]
  return [
    (
      np.asarray([part[k][0] for part in padded]),
      np.asarray([part[k][1] for part in padded], np.float32),
    )
    for k in range(most)
  ]
