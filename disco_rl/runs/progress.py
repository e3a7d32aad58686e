"""A progress bar: one line on a terminal, now and then a line elsewhere."""

import math
import sys
import time
from typing import TextIO

_WIDTH = 24
_SECONDS_BETWEEN_LINES = 15.0


class Progress:
  """Shows how far a long work is, how fast it goes, and what it measures."""

  def __init__(
    self,
    total: int,
    done: int = 0,
    *,
    unit: str = 'it',
    stream: TextIO | None = None,
    enabled: bool = True,
  ):
    """Starts the clock.

    Args:
      total: how much there is to do.
      done: how much of it was done before.
      unit: what is counted.
      stream: where to write; by default the standard error.
      enabled: whether to write at all.
    """
    self._total = total
    self._done = done
    self._unit = unit
    self._stream = stream or sys.stderr
    self._enabled = enabled
    self._last_time = time.monotonic()
    self._last_line = -float('inf')
    self._rate: float | None = None  # Of the work that is typical.
    self._is_first = True
    self._width = 0

  def update(self, done: int, note: str = '', **values: float) -> None:
    """Shows that `done` of the total is done.

    The time left is estimated from typical work only. The first piece of work
    never is: it is mostly compilation.

    Args:
      done: the total so far.
      note: why the work since the last call was not typical, e.g. `'filling
        the replay'`; shown instead of an estimate.
      **values: what else to show, by name; those that are NaN are left out.
    """
    now = time.monotonic()
    rate = (done - self._done) / max(now - self._last_time, 1e-9)
    if self._is_first:
      note = note or 'compiled'
    elif not note:
      old = rate if self._rate is None else self._rate
      self._rate = old + 0.2 * (rate - old)
    self._is_first = False
    self._done, self._last_time = done, now
    is_terminal = self._stream.isatty()
    is_due = now - self._last_line >= _SECONDS_BETWEEN_LINES
    if self._enabled and (is_terminal or is_due or done >= self._total):
      self._last_line = now
      self._write(self._line(note, values), is_terminal)

  def close(self) -> None:
    """Leaves the line of a terminal."""
    if self._enabled and self._width:
      self._stream.write('\n')
      self._stream.flush()
      self._width = 0

  def _line(self, note: str, values: dict[str, float]) -> str:
    share = min(1.0, self._done / max(self._total, 1))
    bar = '█' * int(_WIDTH * share) + '·' * (_WIDTH - int(_WIDTH * share))
    parts = [f'{bar} {self._done}/{self._total}']
    parts += [f'{k} {x:.3g}' for k, x in values.items() if not math.isnan(x)]
    if self._rate is not None:
      left = (self._total - self._done) / max(self._rate, 1e-9)
      parts.append(f'{self._rate:.3g} {self._unit}/s')
      if not note:
        parts.append(f'{format_seconds(left)} left')
    if note:
      parts.append(note)
    return '  '.join(parts)

  def _write(self, line: str, is_terminal: bool) -> None:
    if is_terminal:
      self._stream.write('\r' + line.ljust(self._width))
      self._width = len(line)
    else:
      self._stream.write(line + '\n')
    self._stream.flush()


def format_seconds(seconds: float) -> str:
  """E.g. `'4 s'`, `'3:05'`, `'1:00:00'`."""
  seconds = round(seconds)
  if seconds < 60:
    return f'{seconds} s'
  minutes, seconds = divmod(seconds, 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f'{hours}:{minutes:02}:{seconds:02}'
  return f'{minutes}:{seconds:02}'
