"""What a progress bar shows, and what it leaves out."""

import io

import numpy as np
import pytest

from disco_rl.evaluation import training
from disco_rl.runs import progress
from disco_rl.runs import sinks


@pytest.fixture
def clock(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])
  return now


class _Terminal(io.StringIO):
  def isatty(self):
    return True


def _row(iteration, loss):
  return dict(iteration=iteration, average_return=-0.5, total_loss=loss)


def test_compilation_and_an_empty_replay_are_no_part_of_the_estimate(clock):
  stream = _Terminal()
  bar = progress.Progress(1000, stream=stream)
  sink = sinks.Progress(bar, training.describe_rows)
  lines = []
  for seconds, rows in (
    (30.0, [_row(20, np.nan)]),  # Compiles.
    (1.0, [_row(40, np.nan)]),  # Only acts.
    (10.0, [_row(60, 2.0), _row(60, 4.0)]),  # Two seeds that learn.
    (10.0, [_row(80, 3.0)]),
  ):
    clock[0] += seconds
    sink.write(rows)
    lines.append(stream.getvalue().split('\r')[-1].strip())
  for line in lines[:2]:
    assert 'filling the replay' in line and 'left' not in line
  assert 'nan' not in ''.join(lines)
  assert 'loss 3' in lines[2] and '2 it/s' in lines[2]
  assert lines[2].endswith('7:50 left')  # 940 iterations at 2 a second.
  assert lines[3].endswith('7:40 left')


def test_the_first_piece_of_work_makes_no_estimate(clock):
  stream = _Terminal()
  bar = progress.Progress(10, stream=stream)
  clock[0] += 60
  bar.update(1, meta_loss=1.0)
  assert 'left' not in stream.getvalue() and 'it/s' not in stream.getvalue()
  clock[0] += 2
  bar.update(2, meta_loss=1.0)
  assert stream.getvalue().strip().endswith('0.5 it/s  16 s left')
