"""Folders of runs: which are opened, and which are refused."""

from concurrent import futures
import json
import shutil
import subprocess
import sys

import pytest

from disco_rl.runs import config_entries
from disco_rl.runs import files
from disco_rl.runs import run_folder

CONFIG = dict(format=run_folder.FORMAT, command='eval')


def test_a_folder_is_written_by_one_process_at_a_time(tmp_path):
  with run_folder.RunFolder.create(tmp_path / 'x', CONFIG) as folder:
    assert run_folder.read_config(folder.path) == CONFIG
    with pytest.raises(run_folder.RunFolderError, match='another process'):
      run_folder.RunFolder.reopen(folder.path)
    # Reading needs no lock.
    with run_folder.RunFolder.view(folder.path) as view:
      assert view.config == CONFIG
  run_folder.RunFolder.reopen(tmp_path / 'x').close()


@pytest.mark.parametrize(
  ('config', 'found'),
  [(dict(), 1), (dict(format=2), 2), (dict(format='a'), "'a'")],
)
def test_a_run_of_another_format_is_refused(tmp_path, config, found):
  (tmp_path / 'config.json').write_text(json.dumps(config))
  with pytest.raises(run_folder.RunFolderError) as error:
    run_folder.RunFolder.reopen(tmp_path)
  assert str(error.value) == (
    f'{tmp_path} was made by another version of disco_rl: its config.json has '
    f'the format {found}, and this version reads 3. Its rule files can still '
    'be loaded by their paths'
  )


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('[]', 'is not a JSON object'),
    ('{"format"', r'cannot read .*config\.json'),
  ],
)
def test_damaged_configs_are_refused(tmp_path, text, message):
  (tmp_path / 'config.json').write_text(text)
  with pytest.raises(run_folder.RunFolderError, match=message):
    run_folder.read_config(tmp_path)


def test_only_the_files_of_a_run_are_removed(tmp_path):
  for name in ('metrics.csv', 'params_3.npz', 'notes.txt'):
    (tmp_path / name).write_text('x')
  run_folder.RunFolder.create(tmp_path, CONFIG, overwrite=True).close()
  names = {path.name for path in tmp_path.iterdir()}
  assert names == {'config.json', 'notes.txt', '.lock'}


def test_files_that_look_like_those_of_a_run_are_not_removed(tmp_path):
  (tmp_path / 'metrics.csv').write_text('mine')
  with pytest.raises(run_folder.RunFolderError, match=r'holds metrics\.csv'):
    run_folder.RunFolder.create(tmp_path, CONFIG)
  assert (tmp_path / 'metrics.csv').read_text() == 'mine'
  run_folder.RunFolder.create(tmp_path, CONFIG, overwrite=True).close()
  assert not (tmp_path / 'metrics.csv').exists()


def test_runs_that_start_at_once_get_folders_of_their_own(tmp_path):
  path = tmp_path / 'runs' / 'catch'
  create = lambda _: run_folder.RunFolder.create(path, CONFIG, numbered=True)
  with futures.ThreadPoolExecutor(8) as threads:
    folders = list(threads.map(create, range(8)))
  names = {folder.path.name for folder in folders}
  assert names == {'catch', *(f'catch-{i}' for i in range(2, 9))}
  for folder in folders:
    assert run_folder.read_config(folder.path) == CONFIG
    folder.close()


def test_a_run_of_another_process_is_not_removed(tmp_path, monkeypatch):
  """It started and ended between the first check and the lock."""
  lock = run_folder._lock

  def late(path):
    (path / 'config.json').write_text('{}')
    return lock(path)

  monkeypatch.setattr(run_folder, '_lock', late)
  with pytest.raises(run_folder.RunFolderError, match='already holds a run'):
    run_folder.RunFolder.create(tmp_path / 'x', CONFIG)
  assert (tmp_path / 'x' / 'config.json').read_text() == '{}'


def test_the_lock_of_a_dead_process_does_not_block(tmp_path):
  program = (
    'import sys, time; from disco_rl.runs import run_folder\n'
    'folder = run_folder.RunFolder.create(sys.argv[1], dict(format=3))\n'
    'print("locked", flush=True); time.sleep(60)'
  )
  process = subprocess.Popen(
    [sys.executable, '-c', program, str(tmp_path / 'x')],
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == 'locked\n'
  with pytest.raises(run_folder.RunFolderError, match='another process'):
    run_folder.RunFolder.reopen(tmp_path / 'x')
  process.kill()
  process.communicate()
  run_folder.RunFolder.reopen(tmp_path / 'x').close()


def test_a_folder_that_was_removed_or_replaced_is_noticed(tmp_path):
  with run_folder.RunFolder.create(tmp_path / 'x', CONFIG) as folder:
    folder.check_in_place()
    shutil.rmtree(folder.path)
    with pytest.raises(files.StorageError, match='removed, moved or replaced'):
      folder.check_in_place()
    with run_folder.RunFolder.create(tmp_path / 'x', CONFIG):
      with pytest.raises(files.StorageError, match='replaced'):
        folder.check_in_place()


def test_a_run_that_cannot_start_leaves_nothing(tmp_path, monkeypatch):
  def full(self, config):
    raise files.StorageError('the disk is full')

  monkeypatch.setattr(run_folder.RunFolder, 'write_config', full)
  with pytest.raises(files.StorageError):
    run_folder.RunFolder.create(tmp_path / 'x', CONFIG)
  assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_folder_harms_no_other_file(tmp_path):
  other, path = tmp_path / 'other', tmp_path / 'run'
  other.write_text('precious')
  path.mkdir()
  (path / '.lock').symlink_to(other)
  with pytest.raises(ValueError, match=r'run/\.lock is a symbolic link'):
    run_folder.RunFolder.create(path, dict(format=run_folder.FORMAT))
  assert other.read_text() == 'precious'


@pytest.mark.parametrize('numbered', [False, True])
def test_nothing_is_left_of_a_run_that_is_discarded(tmp_path, numbered):
  out, config = tmp_path / 'runs' / 'x', dict(format=run_folder.FORMAT)
  with run_folder.RunFolder.create(out, config, numbered=numbered) as folder:
    folder.discard()
  assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_user_is_not_discarded(tmp_path):
  with run_folder.RunFolder.create(tmp_path / 'x', CONFIG):
    pass
  before = {path.name for path in (tmp_path / 'x').iterdir()}
  assert before == {'config.json', '.lock'}
  (tmp_path / 'y').mkdir()
  with run_folder.RunFolder.create(tmp_path / 'y', CONFIG) as folder:
    folder.discard()
  assert list((tmp_path / 'y').iterdir()) == []


@pytest.mark.parametrize('numbered', [False, True])
def test_nothing_is_left_of_a_folder_that_cannot_be_made(tmp_path, numbered):
  name = 500 * 'x'
  with pytest.raises(files.StorageError, match=r'xxx\.\.\.: the name is too'):
    run_folder.RunFolder.create(
      tmp_path / 'runs' / name, CONFIG, numbered=numbered
    )
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('name', ['curve.png', 'params_0.npz', '.lock'])
def test_folders_in_place_of_files_are_named_before_a_change(tmp_path, name):
  out = tmp_path / 'x'
  run_folder.RunFolder.create(out, CONFIG).close()
  (out / 'metrics.csv').write_text('x')
  (out / name).unlink(missing_ok=True)
  (out / name).mkdir()
  before = {path.name for path in out.iterdir()}
  for open_ in (
    lambda: run_folder.RunFolder.create(out, CONFIG, overwrite=True),
    lambda: run_folder.RunFolder.reopen(out),
  ):
    with pytest.raises(ValueError, match=f'x/{name} is a folder, but a run'):
      open_()
    assert before == {path.name for path in out.iterdir()}


@pytest.mark.parametrize(
  ('command', 'request_', 'message'),
  [
    ('eval', dict(env=['catch']), 'env of the request must be the name'),
    ('meta-train', dict(env='catch'), 'env of the request must be a list'),
    (
      'meta-train',
      dict(env=['catch'], eval_env=5),
      'eval_env of the request must be a list',
    ),
  ],
)
def test_environments_of_a_damaged_request(command, request_, message):
  config = dict(command=command, rule='x', init='x', request=request_)
  with pytest.raises(run_folder.RunFolderError, match=message):
    config_entries.check('x', config, ('request',))


@pytest.mark.parametrize('command', [{}, [], None, 5])
def test_a_damaged_command(command):
  with pytest.raises(run_folder.RunFolderError, match='command must be'):
    config_entries.check('x', dict(command=command))


def test_checkpoints_of_several_processes_are_part_of_a_run(tmp_path):
  sharded = tmp_path / 'x' / 'state.orbax'
  (sharded / '5').mkdir(parents=True)
  with pytest.raises(run_folder.RunFolderError, match=r'holds state\.orbax'):
    run_folder.RunFolder.create(tmp_path / 'x', {'format': 3})
  with run_folder.RunFolder.create(tmp_path / 'x', {'format': 3}, True):
    assert not sharded.exists()
  target = tmp_path / 'other'
  target.mkdir()
  sharded.symlink_to(target)
  for overwrite in (False, True):
    with pytest.raises(ValueError, match=r'not a folder|already holds'):
      run_folder.RunFolder.create(tmp_path / 'x', {'format': 3}, overwrite)
  assert target.exists() and sharded.is_symlink()
