"""Files that are written whole or not at all."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from disco_rl.runs import files


def test_written_files_are_readable_by_others(tmp_path):
  old = os.umask(0o022)
  try:
    with files.atomic_writer(tmp_path / 'x') as file:
      file.write(b'x')
  finally:
    os.umask(old)
  mode = stat.S_IMODE((tmp_path / 'x').stat().st_mode)
  assert mode == 0o644


def test_a_file_that_was_not_finished_does_not_appear(tmp_path):
  (tmp_path / 'x').write_bytes(b'before')
  with pytest.raises(OSError, match='disk full'):
    with files.atomic_writer(tmp_path / 'x') as file:
      file.write(b'half')
      raise OSError('disk full')
  assert (tmp_path / 'x').read_bytes() == b'before'
  assert [path.name for path in tmp_path.iterdir()] == ['x']


def test_what_a_killed_process_left_is_removed(tmp_path):
  for name in ('x', '.x.abcd.part'):
    (tmp_path / name).write_bytes(b'')
  files.remove_parts(tmp_path)
  assert [path.name for path in tmp_path.iterdir()] == ['x']


def test_the_cache_folder_can_be_named(tmp_path, monkeypatch):
  monkeypatch.delenv(files.CACHE_VARIABLE, raising=False)
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  assert files.cache_folder() == tmp_path / 'disco_rl'
  monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path / 'mine'))
  assert files.cache_folder() == tmp_path / 'mine'


def test_a_user_without_a_home_has_a_cache_that_holds_no_programs(
  tmp_path, monkeypatch
):
  def no_home():
    raise RuntimeError('Could not determine home directory.')

  for name in (files.CACHE_VARIABLE, 'XDG_CACHE_HOME', 'HOME'):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setattr(files.pathlib.Path, 'home', no_home)
  monkeypatch.setattr(files.tempfile, 'gettempdir', lambda: str(tmp_path))
  assert files.cache_folder() == tmp_path / f'disco_rl-{os.getuid()}'
  assert not files.has_private_cache()
  monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path))
  assert files.has_private_cache()


def test_a_folder_that_was_removed_is_not_made_again(tmp_path):
  path = tmp_path / 'gone' / 'x'
  with pytest.raises(files.StorageError, match='its folder does not exist'):
    with files.atomic_writer(path) as file:
      file.write(b'x')
  with pytest.raises(files.StorageError, match='its folder does not exist'):
    files.append(path, lambda is_new: b'x')
  assert not path.parent.exists()
  with files.atomic_writer(path, make_folder=True) as file:
    file.write(b'x')
  assert path.read_bytes() == b'x'


@pytest.fixture
def small_disk(monkeypatch):
  """A disk on which files have at most ten bytes."""
  real = os.write

  def write(file, data):
    room = 10 - os.lseek(file, 0, os.SEEK_END)
    if room <= 0:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real(file, bytes(data)[:room])

  monkeypatch.setattr(os, 'write', write)


def test_what_does_not_fit_is_not_appended_at_all(tmp_path, small_disk):
  path = tmp_path / 'x'
  files.append(path, lambda is_new: b'header\n' if is_new else b'row\n')
  for _ in range(2):
    with pytest.raises(files.StorageError) as error:
      files.append(path, lambda is_new: b'header\n' if is_new else b'a row\n')
    assert str(error.value) == f'cannot write {path}: the disk is full'
    assert path.read_bytes() == b'header\n'
  files.append(path, lambda is_new: b'r\n')
  assert path.read_bytes() == b'header\nr\n'


def test_a_limit_on_the_size_of_files(tmp_path):
  """The limit is set by the kernel, in a separate process."""
  program = f"""
import pathlib, resource, sys
from disco_rl.runs import files
folder = pathlib.Path({str(tmp_path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
  with files.atomic_writer(folder / 'x') as file:
    for _ in range(100):
      file.write(b'y' * 100)
except files.StorageError as error:
  print(error)
try:
  files.append(folder / 'x', lambda is_new: b'y' * 2000)
except files.StorageError as error:
  print(error)
"""
  (tmp_path / 'x').write_bytes(b'before')
  done = subprocess.run(
    [sys.executable, '-c', program], capture_output=True, text=True
  )
  why = 'it would exceed the limit on the size of files'
  assert done.stdout == f'cannot write {tmp_path / "x"}: {why}\n' * 2
  assert not done.stderr
  assert (tmp_path / 'x').read_bytes() == b'before'
  assert [path.name for path in tmp_path.iterdir()] == ['x']
