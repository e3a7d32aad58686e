"""A tracker gets every row once, and cannot stop a run."""

import threading

import pytest

from disco_rl.runs import loop
from disco_rl.runs import sinks
from disco_rl.runs import trackers
from disco_rl.runs import tracking
from tests.support import counter


class Recorder(trackers.Tracker):
  """Records its calls; raises an error in one of them."""

  def __init__(self, calls, fails_in='', error=RuntimeError):
    self.calls = calls
    self.fails_in = fails_in
    self.error = error
    self._call('init')

  def write(self, rows):
    self._call('write', [row['iteration'] for row in rows if not row['seed']])

  def finish(self, summary):
    self._call('finish', len(summary.table))

  def close(self):
    self._call('close')

  def _call(self, name, *args):
    self.calls.append((name, *args))
    if name == self.fails_in:
      raise self.error('the server is gone')


def _run(tmp_path, make, earlier=()):
  """Runs a counter of seven steps with a tracker; returns its rows."""
  rows = list(earlier)
  tracker = tracking.Tracking(
    trackers.Chosen('mine', make), trackers.RunInfo(tmp_path, {}), rows
  )
  outcome = loop.run(
    counter.Counter(),
    dict(step=len(earlier)),
    7,
    sinks=[sinks.Rows(rows), tracker],
  )
  assert outcome.reason is loop.Reason.FINISHED and outcome.done == 7
  return rows


def test_rows_come_in_order_after_those_of_before(tmp_path, capsys):
  calls = []
  earlier = [dict(iteration=1, seed=0, value=0.0)]
  rows = _run(tmp_path, lambda run: Recorder(calls), earlier)
  assert len(rows) == 5
  assert calls == [
    ('init',),
    ('write', [1]),
    ('write', [4]),
    ('write', [7]),
    ('finish', 2),
    ('close',),
  ]
  assert capsys.readouterr().err == ''


@pytest.mark.parametrize('fails_in', ['init', 'write', 'finish', 'close'])
@pytest.mark.parametrize('error', [OSError, SystemExit, KeyboardInterrupt])
def test_a_failure_is_reported_once_and_stops_nothing(
  tmp_path, capsys, fails_in, error
):
  calls = []
  rows = _run(tmp_path, lambda run: Recorder(calls, fails_in, error))
  assert [row['iteration'] for row in rows] == [3, 3, 6, 6, 7, 7]
  (line,) = capsys.readouterr().err.splitlines()
  assert line == (
    'warning: the tracker mine failed and is left out from here on '
    f'({error.__name__}: the server is gone); {tmp_path / "metrics.csv"} has '
    'all rows'
  )
  names = [name for name, *_ in calls]
  assert names.count('write') <= (1 if fails_in == 'write' else 3)
  assert names[-1] == ('init' if fails_in == 'init' else 'close')


@pytest.mark.parametrize('hangs_in', ['write', 'close'])
def test_a_tracker_that_hangs_is_left_behind(
  tmp_path, capsys, monkeypatch, hangs_in
):
  monkeypatch.setattr(tracking, 'SECONDS_TO_CLOSE', 0.2)
  go_on = threading.Event()

  class Hanging(trackers.Tracker):
    pass

  setattr(Hanging, hangs_in, lambda *_: go_on.wait(60))
  assert len(_run(tmp_path, Hanging)) == 6
  go_on.set()
  assert 'mine failed' in (error := capsys.readouterr().err)
  assert 'it has not ended after 0.2 s' in error and error.count('\n') == 1


def test_an_error_without_a_message_that_can_be_shown(tmp_path, capsys):
  class BrokenError(Exception):
    def __str__(self):
      raise ValueError

  class Broken(trackers.Tracker):
    def write(self, rows):
      raise BrokenError

  _run(tmp_path, Broken)
  assert '(BrokenError)' in capsys.readouterr().err
