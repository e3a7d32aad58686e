"""Plans start and resume runs of anything trainable."""

import json
import os
import shutil
import signal
import time

import pytest

from disco_rl.runs import checkpoint
from disco_rl.runs import config_entries
from disco_rl.runs import files
from disco_rl.runs import hooks
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import os_errors
from disco_rl.runs import plan as plan_lib
from disco_rl.runs import run_folder
from tests.support import counter


class Settings(dict):
  """Settings that can be read as attributes."""

  __getattr__ = dict.__getitem__


class Plan(plan_lib.Plan):
  """The plan of a counter."""

  command, unit, private = 'count', 'step', frozenset(['private'])

  def __init__(self, steps, **settings):
    self.request = dict(steps=steps, settings={})
    all_settings = Settings(steps=steps, checkpoint_every=2, **settings)
    self._set_config(all_settings, {}, needs_objects=False)
    self.made = []

  def make_trainable(self):
    self.made.append(counter.Counter(size=1, seeds=(0,)))
    return self.made[-1]

  def make_hooks(self, trainable, rows, folder, before_print):
    return [hooks.Checkpoint(trainable, folder.state_path, every=2)]

  def describe_rows(self, rows):
    return '', dict(value=rows[-1]['value'])


def _execute(plan, *args, stop_at=None, **kwargs):
  with plan.open(*args, show_progress=False, **kwargs) as run:
    stop = lambda: stop_at is not None and len(run.rows) == stop_at
    outcome = run.execute(should_stop=stop)
  assert not any(trainable.is_open for trainable in plan.made)
  return outcome, run.rows


def test_a_run_without_a_folder():
  outcome, rows = _execute(Plan(3), None)
  assert outcome.reason is loop.Reason.FINISHED and outcome.done == 3
  assert [row['iteration'] for row in rows] == [1, 2, 3]


def test_an_interrupted_run_is_resumed(tmp_path):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  _, wanted = _execute(Plan(7), whole)
  outcome, _ = _execute(Plan(7), parts, stop_at=3)
  assert outcome.reason is loop.Reason.INTERRUPTED and outcome.done == 3
  # A row after the checkpoint is removed, and computed again.
  metrics.append_csv(parts / 'metrics.csv', wanted[3:4])
  outcome, rows = _execute(Plan(7), parts, resume=True)
  assert outcome.reason is loop.Reason.FINISHED and rows == wanted
  texts = [(run / 'metrics.csv').read_text() for run in (whole, parts)]
  assert texts[0] == texts[1]
  # More steps than at first.
  outcome, rows = _execute(Plan(9), parts, resume=True)
  assert outcome.done == len(rows) == 9


def test_a_run_that_cannot_be_resumed_says_why(tmp_path):
  with pytest.raises(ValueError, match='resume=True needs the folder'):
    Plan(3).open(None, resume=True)
  _execute(Plan(3, size=1), tmp_path / 'x')
  for plan, message in [
    (Plan(2, size=1), 'is at step 3 already, beyond the 2 of this run'),
    (Plan(3, size=2), r'made with other settings \(.*\): size was 1, is 2'),
  ]:
    with pytest.raises(ValueError, match=message):
      plan.open(tmp_path / 'x', resume=True)
    assert not any(trainable.is_open for trainable in plan.made)
  with pytest.raises(run_folder.RunFolderError, match='already holds a run'):
    Plan(3, size=1).open(tmp_path / 'x')
  # The folder is unchanged and not locked.
  _, rows = _execute(Plan(4, size=1), tmp_path / 'x', resume=True)
  assert len(rows) == 4


@pytest.mark.parametrize(
  ('entry', 'value', 'message'),
  [
    ('settings', dict(steps=3), 'other settings .*checkpoint_every was None'),
    ('format', '3', "has the format '3', and this version reads 3"),
  ],
)
def test_a_config_that_was_edited_is_named(entry, value, message, tmp_path):
  _execute(Plan(3), tmp_path / 'x')
  path = tmp_path / 'x' / 'config.json'
  config = json.loads(path.read_text())
  path.write_text(json.dumps({**config, entry: value}))
  with pytest.raises(ValueError, match=message):
    Plan(3).open(tmp_path / 'x', resume=True)


def test_a_run_made_of_objects_is_not_resumed_by_its_name(tmp_path):
  config = dict(
    format=run_folder.FORMAT,
    command='count',
    is_by_name=False,
    request=dict(env='catch'),
    settings={},
    rule_settings={},
  )
  with run_folder.RunFolder.create(tmp_path, config) as folder:
    with pytest.raises(run_folder.RunFolderError, match='was made in Python'):
      config_entries.request_of_folder(folder, (), is_complete=False)
    request = config_entries.request_of_folder(folder, (), is_complete=True)
  assert request == dict(env='catch')


def _act_at(plan, step, action):
  """Calls a function while a step of a plan's trainable is computed."""
  make = plan.make_trainable

  def make_trainable():
    trainable = make()
    advance = trainable.advance

    def acting_advance(state, total):
      if state['step'] == step:
        action()
      return advance(state, total)

    trainable.advance = acting_advance
    return trainable

  plan.make_trainable = make_trainable
  return plan


def _press_ctrl_c():
  os.kill(os.getpid(), signal.SIGINT)
  time.sleep(0.3)


def test_ctrl_c_in_the_library_saves_and_is_raised(tmp_path):
  plan = _act_at(Plan(9), 4, _press_ctrl_c)
  # Processes in the background ignore it.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  with pytest.raises(KeyboardInterrupt):
    _execute(plan, tmp_path / 'x')
  signal.signal(signal.SIGINT, before)
  assert not any(trainable.is_open for trainable in plan.made)
  state = checkpoint.load(tmp_path / 'x' / 'state.npz', dict(step=0))
  assert state == dict(step=5)
  _, rows = _execute(Plan(9), tmp_path / 'x', resume=True)
  assert [row['iteration'] for row in rows] == list(range(1, 10))


def test_a_folder_that_is_removed_ends_the_run(tmp_path):
  out = tmp_path / 'x'
  plan = _act_at(Plan(9), 4, lambda: shutil.rmtree(out))
  with pytest.raises(files.StorageError, match='the folder was removed'):
    _execute(plan, out)
  assert not out.exists()
  assert not any(trainable.is_open for trainable in plan.made)


@pytest.mark.parametrize('name', ['metrics.csv', 'state.npz'])
def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch, name):
  """The row or the checkpoint of step 4 cannot be written."""
  whole, out = tmp_path / 'whole', tmp_path / 'x'
  _execute(Plan(9), whole)
  reason = os_errors.why_not_written
  monkeypatch.setattr(
    os_errors, 'why_not_written', lambda _: 'the disk is full'
  )

  def fill():
    # No file may be opened under this name, as on a full disk.
    (out / name).rename(out / 'kept')
    (out / name).mkdir()

  with pytest.raises(files.StorageError, match=f'{name}: the disk is full'):
    _execute(_act_at(Plan(9), 3, fill), out)
  monkeypatch.setattr(os_errors, 'why_not_written', reason)
  (out / name).rmdir()
  (out / 'kept').rename(out / name)
  assert checkpoint.load(out / 'state.npz', dict(step=0)) == dict(step=2)
  _execute(Plan(9), out, resume=True)
  for file in ('metrics.csv', 'state.npz', 'config.json'):
    assert (out / file).read_bytes() == (whole / file).read_bytes()


def test_inconsistent_rows_are_reported(tmp_path):
  out = tmp_path / 'x'
  _execute(Plan(9), out, stop_at=5)
  state, rows = (out / 'state.npz'), (out / 'metrics.csv')
  saved, text = state.read_bytes(), rows.read_text()
  resume = lambda: Plan(9).open(out, resume=True, show_progress=False)
  for step, message in ((-1, 'impossible'), (3, 'older'), (10, 'impossible')):
    checkpoint.save(state, dict(step=step))
    with pytest.raises(run_folder.RunFolderError, match=message):
      resume()
  state.unlink()
  with pytest.raises(run_folder.RunFolderError, match='is missing'):
    resume()
  state.write_bytes(saved)
  rows.write_text('\n'.join(text.splitlines()[:3]) + '\n')
  with pytest.raises(run_folder.RunFolderError, match='has no row'):
    resume()
  rows.unlink()
  with pytest.warns(UserWarning, match='has no rows, though step 5 is done'):
    resume().close()
  rows.write_text('\n'.join(text.splitlines()[::5]) + '\n')
  with pytest.warns(UserWarning, match='lacks rows before step 5'):
    resume().close()
  rows.write_text(text)
  resume().close()
  # Killed before its first checkpoint.
  state.unlink()
  rows.write_text('\n'.join(text.splitlines()[:3]) + '\n')
  with pytest.warns(UserWarning, match='starts from the beginning'):
    _, all_rows = _execute(Plan(9), out, resume=True)
  assert len(all_rows) == 9
