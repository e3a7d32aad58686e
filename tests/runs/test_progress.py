"""What a progress bar shows."""

import io

import numpy as np
import pytest

from disco_rl.evaluation import training
from disco_rl.runs import progress
from disco_rl.runs import sinks


@pytest.fixture
def clock(monkeypatch):
  now = [0.0]
  monkeypatch.setenv('TERM', 'xterm')
  monkeypatch.setenv('COLUMNS', '80')
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


def test_the_part_of_the_work_is_named(clock):
  stream = _Terminal()
  bar = progress.Progress(10, stream=stream)
  for done, bar.label in ((1, 'first'), (2, 'second')):
    clock[0] += 1
    bar.update(done)
  first, second = stream.getvalue().split('\r')[1:]
  assert '1/10  first  compiled' in first
  assert '2/10  second  1 it/s  8 s left' in second


@pytest.mark.parametrize('columns', [1, 12, 20, 40, 80, 200])
def test_a_line_never_wraps(clock, monkeypatch, columns):
  monkeypatch.setenv('COLUMNS', str(columns))
  stream = _Terminal()
  bar = progress.Progress(1000, stream=stream)
  names = [f'return/environment_{i}' for i in range(5)]
  for done in range(1, 10):
    clock[0] += 7
    bar.update(100 * done, **dict.fromkeys(names, 0.125 * done))
  lines = stream.getvalue().split('\r')[1:]
  assert len(lines) == 9 and max(map(len, lines)) <= columns - 1
  if columns >= 20:
    assert lines[-1].startswith('900/1000') == (columns < 40)
    assert '900/1000' in lines[-1] and lines[-1].strip().endswith(' s left')
  if columns == 200:
    assert all(name in lines[-1] for name in names)


def test_elsewhere_there_is_a_line_per_minute(clock, monkeypatch):
  for terminal in (False, True):  # A dumb terminal.
    monkeypatch.setenv('TERM', 'dumb' if terminal else 'xterm')
    stream = _Terminal() if terminal else io.StringIO()
    bar = progress.Progress(1000, stream=stream)
    for done in range(1, 1001):
      clock[0] += 1
      bar.update(done)
    bar.close()
    shown = stream.getvalue()
    assert '\r' not in shown and '\033' not in shown
    lines = shown.splitlines()
    assert len(lines) == 17  # One for each of 16 minutes, and the last.
    assert '1000/1000' in lines[-1]


def test_an_encoding_without_blocks(clock):
  stream = io.TextIOWrapper(io.BytesIO(), encoding='ascii')
  bar = progress.Progress(2, stream=stream)
  bar.update(1)
  clock[0] += 1
  bar.update(2)
  stream.seek(0)
  assert '#' * 24 + ' 2/2' in stream.read()


def test_a_broken_stream_stops_nothing(clock):
  stream = _Terminal()
  stream.close()
  for broken in (stream, None):
    bar = progress.Progress(2, stream=broken)
    bar.update(2)
    bar.close()
