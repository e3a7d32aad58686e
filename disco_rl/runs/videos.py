"""Writes episodes as animations: GIF, or MP4 where an encoder is installed."""

from collections.abc import Iterator, Sequence
import contextlib
import importlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl import installation
from disco_rl.runs import files

Frames = Sequence[np.ndarray]  # Each uint8, [H, W, 3].

_GIF, _MP4 = '.gif', '.mp4'
# Pictures are enlarged to about this many pixels on the longest side.
_SIDE = 320
# Pictures whose sides are not longer are boards, with lines between cells.
_BOARD = 40
_LINE = (48, 51, 62)
_BOARDS_PER_SECOND = 5.0
_IMAGES_PER_SECOND = 25.0
# For how long the end of an episode is shown.
_SECONDS_OF_END = 0.8


def check_path(path: str | os.PathLike[str]) -> None:
  """Raises a `ValueError` for a file that no animation can be written to.

  Args:
    path: path of the file, which must end in `.gif` or `.mp4`. The package that
      writes it must be installed.
  """
  path = pathlib.Path(path)
  shown, suffix = fields.shorten(str(path)), path.suffix.lower()
  if suffix not in (_GIF, _MP4):
    raise ValueError(
      f'an animation cannot be written to {shown}: its name must end in '
      f'{_GIF} or {_MP4}'
    )
  if path.is_dir():
    raise ValueError(
      f'an animation cannot be written to {shown}: it is a folder'
    )
  package, extra = {_GIF: ('PIL', 'plots'), _MP4: ('imageio_ffmpeg', 'video')}[
    suffix
  ]
  if importlib.util.find_spec(package) is None:
    raise ValueError(
      f'{suffix} files need the package {package}, which is not installed: '
      f'{installation.install_hint(extra)}'
    )


def save(
  path: str | os.PathLike[str],
  episodes: Sequence[Frames],
  frames_per_second: float | None = None,
) -> None:
  """Writes episodes as one animation, atomically.

  Args:
    path: path of the file, see `check_path`.
    episodes: the frames of each episode, all of one size; those of boards have
      one pixel per cell. At least one frame in all.
    frames_per_second: speed; None for 5 for boards and 25 for images.

  Raises:
    ValueError: if the file cannot be of this kind, or a frame differs in size.
    StorageError: if it cannot be written.
  """
  check_path(path)
  shapes = {frame.shape for frames in episodes for frame in frames}
  if len(shapes) != 1:
    raise ValueError(
      f'the frames of an animation must have one size, got {sorted(shapes)}'
    )
  speed = frames_per_second or _default_speed(next(iter(shapes)))
  num_last = max(round(_SECONDS_OF_END * speed), 1)
  # Each frame, and how many times it is shown.
  timed = (
    (enlarge(frame), num_last if i == len(frames) - 1 else 1)
    for frames in episodes
    for i, frame in enumerate(frames)
  )
  if pathlib.Path(path).suffix.lower() == _GIF:
    _write_gif(path, timed, speed)
  else:
    _write_mp4(path, timed, speed)


def enlarge(frame: np.ndarray) -> np.ndarray:
  """Enlarges a picture by a whole factor; cells of boards get lines.

  Args:
    frame: uint8, [H, W, 3].

  Returns:
    uint8, [H', W', 3].
  """
  side = max(frame.shape[:2])
  factor = max(round(_SIDE / side), 1)
  large = frame.repeat(factor, axis=0).repeat(factor, axis=1)
  if side <= _BOARD:
    large[::factor] = large[:, ::factor] = _LINE
    large = np.pad(large, ((0, 1), (0, 1), (0, 0)))
    large[-1] = large[:, -1] = _LINE
  return large


def _default_speed(shape: Sequence[int]) -> float:
  is_board = max(shape[:2]) <= _BOARD
  return _BOARDS_PER_SECOND if is_board else _IMAGES_PER_SECOND


def _write_gif(
  path: Any, timed: Iterator[tuple[np.ndarray, int]], speed: float
) -> None:
  image_lib = importlib.import_module('PIL.Image')
  images, milliseconds = [], []
  for frame, times in timed:
    # 256 colours each, so that long animations need a third of the memory.
    image = image_lib.fromarray(frame).quantize(dither=0)
    images.append(image)
    # Browsers show frames of less than 20 ms more slowly.
    milliseconds.append(max(round(1000 / speed), 20) * times)
  with files.atomic_writer(path, make_folder=True) as file:
    images[0].save(
      file,
      format='GIF',
      save_all=True,
      append_images=images[1:],
      duration=milliseconds,
      loop=0,
    )


def _write_mp4(
  path: Any, timed: Iterator[tuple[np.ndarray, int]], speed: float
) -> None:
  program = importlib.import_module('imageio_ffmpeg').get_ffmpeg_exe()
  # The encoder writes files only, and their beginning last.
  with tempfile.TemporaryDirectory() as folder:
    part = pathlib.Path(folder) / 'part.mp4'
    encoder = None
    for frame, times in timed:
      # Sides must be even.
      odd = [(0, side % 2) for side in frame.shape[:2]]
      frame = np.pad(frame, (*odd, (0, 0)))
      if encoder is None:
        height, width, _ = frame.shape
        encoder = subprocess.Popen(
          [
            *(program, '-loglevel', 'error', '-f', 'rawvideo'),
            *('-pix_fmt', 'rgb24', '-s', f'{width}x{height}'),
            *('-r', f'{speed:g}', '-i', '-', '-an', '-pix_fmt', 'yuv420p'),
            str(part),
          ],
          stdin=subprocess.PIPE,
          stdout=subprocess.DEVNULL,
          stderr=subprocess.DEVNULL,
        )
      assert encoder.stdin is not None
      # If it has failed, its exit code tells.
      with contextlib.suppress(BrokenPipeError):
        encoder.stdin.write(frame.tobytes() * times)
    assert encoder is not None and encoder.stdin is not None
    with contextlib.suppress(BrokenPipeError):
      encoder.stdin.close()
    code = encoder.wait()
    if code or not part.exists():
      raise files.StorageError(
        f'cannot write {os.fspath(path)}: the encoder {program} failed with '
        f'exit code {code}'
      )
    with part.open('rb') as source:
      with files.atomic_writer(path, make_folder=True) as file:
        shutil.copyfileobj(source, file)
