"""Files that are written whole or not at all."""

import os
import stat

import pytest

from disco_rl.runs import files


def test_written_files_are_readable_by_others(tmp_path):
  old = os.umask(0o022)
  try:
    with files.atomic_writer(tmp_path / 'new' / 'x') as file:
      file.write(b'x')
  finally:
    os.umask(old)
  mode = stat.S_IMODE((tmp_path / 'new' / 'x').stat().st_mode)
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
