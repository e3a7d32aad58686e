"""The run loop: how runs end, and the calls of sinks and hooks."""

import pytest

from disco_rl.runs import hooks as hooks_lib
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import progress
from disco_rl.runs import sinks as sinks_lib
from tests.support import counter


class Recorder:
  """A sink and a hook that records its calls."""

  def __init__(self, fails_at=None):
    self.told = []
    self.fails_at = fails_at

  def write(self, rows):
    self.told.append(('rows', rows[-1]['iteration']))

  def start(self, done, state):
    assert state['step'] == done
    self.told.append(('start', done))

  def advanced(self, done, state, is_last):
    assert state['step'] == done
    if done == self.fails_at:
      raise OSError('the disk is full')
    self.told.append(('advanced', done, is_last))

  def close(self):
    self.told.append('closed')


def test_a_finished_run():
  rows, hook = [], Recorder()
  outcome = loop.run(
    counter.Counter(),
    dict(step=0),
    7,
    sinks=[sinks_lib.Rows(rows)],
    hooks=[hook],
  )
  assert outcome.reason is loop.Reason.FINISHED and outcome.error is None
  assert outcome.done == 7 and outcome.state == dict(step=7)
  assert [(row['iteration'], row['seed']) for row in rows] == [
    (step, seed) for step in (3, 6, 7) for seed in (0, 1)
  ]
  assert hook.told == [
    ('start', 0),
    ('advanced', 3, False),
    ('advanced', 6, False),
    ('advanced', 7, True),
    'closed',
  ]


def test_an_interrupted_run_ends_after_the_work_in_hand():
  asked = iter([False, False, False, True])
  hook = Recorder()
  outcome = loop.run(
    counter.Counter(),
    dict(step=0),
    99,
    hooks=[hook],
    should_stop=lambda: next(asked),
  )
  assert outcome.reason is loop.Reason.INTERRUPTED and outcome.error is None
  assert outcome.done == 6 and outcome.state == dict(step=6)
  assert hook.told[-2:] == [('advanced', 6, True), 'closed']
  # There is no work left to interrupt.
  asked = iter([False, True])
  outcome = loop.run(
    counter.Counter(), dict(step=0), 3, should_stop=lambda: next(asked)
  )
  assert outcome.reason is loop.Reason.FINISHED


def test_a_run_that_is_interrupted_in_a_hook_ends_there():
  """Otherwise an evaluation of this state would never be made again."""
  hook, other = Recorder(), Recorder()
  stop = lambda: ('advanced', 6, False) in other.told
  outcome = loop.run(
    counter.Counter(), dict(step=0), 99, hooks=[hook, other], should_stop=stop
  )
  assert outcome.reason is loop.Reason.INTERRUPTED and outcome.done == 6
  ends = [('advanced', 6, False), ('advanced', 6, True), 'closed']
  assert hook.told[-3:] == other.told[-3:] == ends


def test_a_run_that_is_interrupted_in_its_last_hook_is_not_finished():
  hook = Recorder()
  stop = lambda: ('advanced', 3, True) in hook.told
  outcome = loop.run(
    counter.Counter(), dict(step=0), 3, hooks=[hook], should_stop=stop
  )
  assert outcome.reason is loop.Reason.INTERRUPTED and outcome.done == 3
  again = loop.run(counter.Counter(), outcome.state, 3, hooks=[hook])
  assert again.reason is loop.Reason.FINISHED


def test_a_diverged_run_ends_with_its_last_finite_state():
  rows, hook = [], Recorder()
  outcome = loop.run(
    counter.Counter(diverges_at=5),
    dict(step=0),
    9,
    sinks=[sinks_lib.Rows(rows)],
    hooks=[hook],
  )
  assert outcome.reason is loop.Reason.DIVERGED
  assert outcome.done == 5 and outcome.state == dict(step=5)
  assert str(outcome.error) == 'too large'
  # Including the rows of the chunk that diverged.
  assert [row['iteration'] for row in rows] == [3, 3, 6, 6]
  # Hooks are not called, so that the run diverges again when it is resumed.
  assert hook.told[-2:] == [('advanced', 3, False), 'closed']


def test_a_run_that_is_done_already_does_nothing_more():
  """Hooks are called nevertheless: a checkpoint may be missing."""
  hook, rows = Recorder(), []
  outcome = loop.run(
    counter.Counter(),
    dict(step=7),
    7,
    sinks=[sinks_lib.Rows(rows)],
    hooks=[hook],
  )
  assert outcome.reason is loop.Reason.FINISHED and not rows
  assert hook.told == [('start', 7), ('advanced', 7, True), 'closed']


def test_sinks_come_before_hooks():
  both = Recorder()
  loop.run(counter.Counter(), dict(step=0), 3, sinks=[both], hooks=[both])
  assert both.told[:3] == [('start', 0), ('rows', 3), ('advanced', 3, True)]


def test_sinks_and_hooks_are_closed_after_an_error():
  sink, hook = Recorder(), Recorder(fails_at=6)
  with pytest.raises(OSError, match='the disk is full'):
    loop.run(counter.Counter(), dict(step=0), 9, sinks=[sink], hooks=[hook])
  assert sink.told == [('rows', 3), ('rows', 6), 'closed']
  assert hook.told == [('start', 0), ('advanced', 3, False), 'closed']


def test_errors_of_hooks_are_not_changed():
  """So that a mistake of ours is seen with its traceback."""

  class Mistaken(Recorder):
    def advanced(self, done, state, is_last):
      raise ValueError('a mistake')

  with pytest.raises(ValueError, match='a mistake') as caught:
    loop.run(counter.Counter(), dict(step=0), 3, hooks=[Mistaken()])
  assert not hasattr(caught.value, 'is_user_facing')


def test_all_sinks_get_all_rows(tmp_path, capsys):
  rows = []
  bar = progress.Progress(7)
  path = tmp_path / 'metrics.csv'
  loop.run(
    counter.Counter(),
    dict(step=0),
    7,
    sinks=[
      sinks_lib.Rows(rows),
      sinks_lib.Csv(path),
      sinks_lib.Progress(bar, lambda rows: ('', dict(num_rows=len(rows)))),
    ],
  )
  assert len(rows) == 6 and metrics.read_csv(path) == rows
  shown = capsys.readouterr().err
  assert '7/7' in shown and 'num_rows 2' in shown


def test_a_run_in_two_parts_is_the_same_run(tmp_path):
  """Including the calls of hooks."""
  whole, parts = [], []
  both = ((whole, [(0, 9)]), (parts, [(0, 6), (6, 9)]))
  for seen, spans in both:
    for first, last in spans:
      hook = hooks_lib.Periodic(
        3, lambda done, _, seen=seen: seen.append(done), at_start=True
      )
      loop.run(counter.Counter(), dict(step=first), last, hooks=[hook])
  assert parts == whole == [0, 3, 6, 9]
