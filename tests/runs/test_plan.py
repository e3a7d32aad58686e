"""Plans start and resume runs of anything trainable."""

import pytest

from disco_rl.runs import hooks
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plan as plan_lib
from disco_rl.runs import run_folder
from tests.support import counter


class Settings(dict):
  """Settings that may be read as attributes."""

  __getattr__ = dict.__getitem__


class Plan(plan_lib.Plan):
  """The plan of a counter."""

  command, unit = 'count', 'step'

  def __init__(self, steps, **settings):
    self.request = dict(steps=steps, settings={})
    self._set_config(Settings(steps=steps, **settings), {}, needs_objects=False)
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
  # A row after the checkpoint is dropped, and made again.
  metrics.append_csv(parts / 'metrics.csv', wanted[3:4])
  outcome, rows = _execute(Plan(7), parts, resume=True)
  assert outcome.reason is loop.Reason.FINISHED and rows == wanted
  texts = [(run / 'metrics.csv').read_text() for run in (whole, parts)]
  assert texts[0] == texts[1]
  # More steps than were asked for at first.
  outcome, rows = _execute(Plan(9), parts, resume=True)
  assert outcome.done == len(rows) == 9


def test_a_run_that_cannot_be_resumed_says_why(tmp_path):
  with pytest.raises(ValueError, match='resume=True needs the folder'):
    Plan(3).open(None, resume=True)
  _execute(Plan(3, size=1), tmp_path / 'x')
  for plan, message in [
    (Plan(2, size=1), 'is at step 3 already, after 2'),
    (Plan(3, size=2), 'made with other settings, .* size was 1, is 2'),
  ]:
    with pytest.raises(ValueError, match=message):
      plan.open(tmp_path / 'x', resume=True)
    assert not any(trainable.is_open for trainable in plan.made)
  with pytest.raises(run_folder.RunFolderError, match='already holds a run'):
    Plan(3, size=1).open(tmp_path / 'x')
  # It is left as it was, and free.
  _, rows = _execute(Plan(4, size=1), tmp_path / 'x', resume=True)
  assert len(rows) == 4


def test_a_run_made_of_objects_is_not_resumed_by_its_name(tmp_path):
  config = dict(format=run_folder.FORMAT, is_by_name=False, request={})
  with run_folder.RunFolder.create(tmp_path, config) as folder:
    with pytest.raises(run_folder.RunFolderError, match='was made in Python'):
      plan_lib.request_of_folder(folder, None, is_complete=False)
    request = plan_lib.request_of_folder(folder, 8, is_complete=True)
  assert request == dict(steps=8)
