"""Animations of episodes."""

import importlib.util

import numpy as np
import pytest

from disco_rl.runs import files
from disco_rl.runs import videos

BOARD = np.zeros((4, 3, 3), np.uint8)
FRAMES = [np.where(np.arange(3) == i, 255, BOARD) for i in range(3)]


def test_a_gif_has_all_frames_and_holds_the_last(tmp_path):
  image_lib = pytest.importorskip('PIL.Image')
  path = tmp_path / 'x.gif'
  videos.save(path, [FRAMES, FRAMES[:2]], 10)
  with image_lib.open(path) as image:
    assert image.n_frames == 5
    durations, colors = [], []
    for i in range(5):
      image.seek(i)
      durations.append(image.info['duration'])
      colors.append(image.convert('RGB').getpixel((40, 40)))
  assert durations == [100, 100, 800, 100, 800]
  assert colors[:3] == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
  assert list(tmp_path.iterdir()) == [path]


def test_mp4_has_all_frames(tmp_path):
  encoder = pytest.importorskip('imageio_ffmpeg')
  path = tmp_path / 'x.mp4'
  videos.save(path, [FRAMES], 10)
  assert path.read_bytes()[4:8] == b'ftyp'
  assert encoder.count_frames_and_secs(str(path))[0] == 2 + 8
  assert list(tmp_path.iterdir()) == [path]


def test_an_encoder_that_fails_is_one_sentence(tmp_path, monkeypatch):
  encoder = pytest.importorskip('imageio_ffmpeg')
  monkeypatch.setattr(encoder, 'get_ffmpeg_exe', lambda: 'false')
  with pytest.raises(files.StorageError, match='false failed with exit code 1'):
    videos.save(tmp_path / 'x.mp4', [FRAMES])
  assert not list(tmp_path.iterdir())


def test_cells_are_enlarged_with_lines():
  large = videos.enlarge(FRAMES[1])
  assert large.shape == (321, 241, 3)
  np.testing.assert_array_equal(large[40, 40], FRAMES[1][0, 0])
  np.testing.assert_array_equal(large[280, 200], FRAMES[1][3, 2])
  image = np.zeros((200, 300, 3), np.uint8)
  np.testing.assert_array_equal(videos.enlarge(image), image)


def test_files_that_cannot_be_written_are_refused(tmp_path, monkeypatch):
  with pytest.raises(ValueError, match=r'must end in \.gif or \.mp4'):
    videos.check_path('x.avi')
  (tmp_path / 'x.gif').mkdir()
  with pytest.raises(ValueError, match='it is a folder'):
    videos.check_path(tmp_path / 'x.gif')
  with pytest.raises(ValueError, match='one size'):
    videos.save(tmp_path / 'y.gif', [[BOARD, BOARD[:2]]])
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(
    ValueError, match=r'need the package imageio_ffmpeg.*video'
  ):
    videos.check_path('x.mp4')
  with pytest.raises(ValueError, match=r'need the package PIL.*plots'):
    videos.check_path('x.gif')
