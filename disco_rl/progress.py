"""A progress bar: one line on a terminal, now and then a line elsewhere."""

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
    self._first = self._done = done
    self._unit = unit
    self._stream = stream or sys.stderr
    self._enabled = enabled
    self._start = self._last_time = time.monotonic()
    self._last_line = -float('inf')
    self._rate: float | None = None
    self._width = 0

  def update(self, done: int, **values: float) -> None:
    """Shows that `done` of the total is done.

    Args:
      done: the total so far.
      **values: what else to show, by name.
    """
    now = time.monotonic()
    rate = (done - self._done) / max(now - self._last_time, 1e-9)
    if self._rate is None:
      self._rate = rate
      # The first piece of work is mostly compilation: it tells nothing.
      self._compiled = False
    elif not self._compiled:
      self._rate, self._compiled = rate, True
    else:
      self._rate += 0.2 * (rate - self._rate)
    self._done, self._last_time = done, now
    is_terminal = self._stream.isatty()
    is_due = now - self._last_line >= _SECONDS_BETWEEN_LINES
    if self._enabled and (is_terminal or is_due or done >= self._total):
      self._last_line = now
      self._write(self._line(values), is_terminal)

  def close(self) -> None:
    """Leaves the line of a terminal."""
    if self._enabled and self._width:
      self._stream.write('\n')
      self._stream.flush()
      self._width = 0

  def _line(self, values: dict[str, float]) -> str:
    share = min(1.0, self._done / max(self._total, 1))
    bar = '█' * int(_WIDTH * share) + '·' * (_WIDTH - int(_WIDTH * share))
    assert self._rate is not None
    left = (self._total - self._done) / max(self._rate, 1e-9)
    shown = ''.join(f'  {name} {x:.3g}' for name, x in values.items())
    return (
      f'{bar} {self._done}/{self._total}{shown}  {self._rate:.3g} '
      f'{self._unit}/s  {format_seconds(left)} left'
    )

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
