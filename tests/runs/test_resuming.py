"""Which runs are resumed, and which are refused."""

import dataclasses

import pytest

from disco_rl.runs import resuming
from disco_rl.runs import run_folder

PERIODS = resuming.Periods(
  unit='iteration', total=40, chunk_size=4, checkpoint_every=8
)


@pytest.fixture
def folder(tmp_path):
  config = dict(format=run_folder.FORMAT, command='eval')
  with run_folder.RunFolder.create(tmp_path / 'x', config) as made:
    yield made


def _rows(*ends, seeds=(0, 1)):
  return [dict(iteration=end, seed=seed) for end in ends for seed in seeds]


@pytest.mark.parametrize(
  ('ends', 'done'),
  [
    ((), 0),
    ((4,), 0),  # Stopped before its first chunk, resumed, killed.
    ((4, 8), 8),
    ((4, 8, 12), 8),  # Rows after the checkpoint.
    ((4, 8, 12, 16), 8),  # Killed between a row and its checkpoint.
    ((4, 8, 10, 12, 16), 10),  # Stopped at 10, resumed, killed.
    (tuple(range(4, 41, 4)), 40),
  ],
)
def test_a_state_that_its_rows_confirm_is_resumed(folder, ends, done):
  assert resuming.check(folder, _rows(*ends), done, PERIODS) == ''


@pytest.mark.parametrize(
  ('ends', 'done', 'message'),
  [
    ((4, 8), -1, 'is at iteration -1, which is impossible in a run of 40'),
    ((4, 8), 41, 'is at iteration 41, which is impossible in a run of 40'),
    ((4, 8), 6, 'is at iteration 6, for which metrics.csv has no row'),
    ((4, 8), 12, 'is at iteration 12, for which metrics.csv has no row'),
    ((4, 8, 12, 16, 20), 8, 'older than the run.* checkpoint of iteration 16'),
    ((4, 8, 12), 0, 'older than the run'),
    ((4, 8, 12), None, 'is missing: the run made a checkpoint of iteration 8'),
  ],
)
def test_a_state_that_its_rows_contradict_is_refused(
  folder, ends, done, message
):
  with pytest.raises(run_folder.RunFolderError, match=message) as error:
    resuming.check(folder, _rows(*ends), done, PERIODS)
  assert 'state.npz' in str(error.value)


@pytest.mark.parametrize('ends', [(), (4,), (4, 8), (9,)])
def test_a_run_without_a_checkpoint_yet_begins_again(folder, ends):
  note = resuming.check(folder, _rows(*ends), None, PERIODS)
  assert 'stopped before its first checkpoint' in note
  assert 'the run starts from the beginning' in note


def test_a_picture_shows_that_there_was_a_checkpoint(folder):
  (folder.path / 'curve.png').touch()
  with pytest.raises(run_folder.RunFolderError, match='made a checkpoint, and'):
    resuming.check(folder, _rows(4), None, PERIODS)


def test_other_files_show_that_there_was_a_checkpoint(folder):
  message = 'made a checkpoint of iteration 8'
  with pytest.raises(run_folder.RunFolderError, match=message):
    resuming.check(folder, _rows(4), None, PERIODS, shown=8)


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    ([], 'has no rows, though iteration 16 is done'),
    (_rows(16), 'lacks rows before iteration 16'),
    (_rows(4, 12, 16), 'lacks rows before iteration 12'),
    (_rows(4) + _rows(8, seeds=(1,)) + _rows(12, 16), 'before iteration 8'),
  ],
)
def test_removed_rows_are_reported(folder, rows, message):
  assert message in resuming.check(folder, rows, 16, PERIODS)


def test_rows_of_another_seed_are_refused(folder):
  periods = dataclasses.replace(PERIODS, seeds=(0, 2))
  resuming.check(folder, _rows(4, 8, seeds=(0, 2)), 8, periods)
  message = 'metrics.csv has rows of the seed 1, which is not in this run'
  with pytest.raises(run_folder.RunFolderError, match=message):
    resuming.check(folder, _rows(4, 8), 8, periods)
