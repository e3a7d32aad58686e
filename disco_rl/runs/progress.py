"""Shows progress: a bar on a terminal, and one line per minute elsewhere."""

import math
import sys
import time
from typing import TextIO

from disco_rl.runs import console

_WIDTH = 24
_LEAST_BAR = 4
_LINE_WIDTH = 500  # Elsewhere than on a terminal.
_LEAST_FOR_TEXT = 12  # Columns that are kept free for further text.
_SECONDS_BETWEEN_LINES = 60.0
# Marks of steps done and left, and their ASCII replacements.
_MARKS = ('█', '·')
_ASCII_MARKS = ('#', '.')


class Progress:
  """Shows the progress of a run, its speed and some metrics.

  Attributes:
    label: name of the current part of the work; empty for none.
  """

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
      total: steps in all.
      done: steps that are done already.
      unit: unit of the steps, for the speed.
      stream: stream to write to; by default the standard error.
      enabled: whether to write at all.
    """
    self.label = ''
    self._total = total
    self._done = done
    self._unit = unit
    self._stream: TextIO | None = stream or sys.stderr
    self._enabled = enabled
    self._last_time = time.monotonic()
    self._last_line = self._last_time
    self._rate: float | None = None  # Steps per second of typical chunks.
    self._is_first = True
    self._width = 0

  def update(self, done: int, note: str = '', **values: float) -> None:
    """Shows the progress after a chunk of steps.

    The time left is estimated from typical chunks only. The first is never
    typical, since it is mostly compilation.

    Args:
      done: steps done.
      note: why the chunk was not typical, e.g. `'filling the replay'`, which is
        shown instead of an estimate; empty if it was.
      **values: metrics to show, by name; NaN is left out.
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
    is_live = console.can_rewrite(self._stream)
    is_due = now - self._last_line >= _SECONDS_BETWEEN_LINES
    if self._enabled and (is_live or is_due or done >= self._total):
      self._last_line = now
      self._write(self._line(note, values), is_live)

  def close(self) -> None:
    """Ends the line of a terminal."""
    if self._enabled and self._width:
      console.write(self._stream, '\n')
      self._width = 0

  def _line(self, note: str, values: dict[str, float]) -> list[str]:
    """Returns the parts of a line, the count first."""
    parts = [f'{self._done}/{self._total}']
    parts += [self.label] * bool(self.label)
    parts += [f'{k} {x:.3g}' for k, x in values.items() if not math.isnan(x)]
    if self._rate is not None:
      left = (self._total - self._done) / max(self._rate, 1e-9)
      parts.append(f'{self._rate:.3g} {self._unit}/s')
      if not note:
        parts.append(f'{format_seconds(left)} left')
    if note:
      parts.append(note)
    return parts

  def _fit(self, parts: list[str], width: int) -> str:
    """Adds the bar, and joins as many parts as fit; the last is kept longest.

    Args:
      parts: from `_line`.
      width: number of columns.
    """
    size = min(_WIDTH, width - len(parts[0]) - 1 - _LEAST_FOR_TEXT)
    if size >= _LEAST_BAR:
      share = min(1.0, self._done / max(self._total, 1))
      is_shown = console.can_show(self._stream, ''.join(_MARKS))
      full, empty = _MARKS if is_shown else _ASCII_MARKS
      num_full = int(size * share)
      bar = full * num_full + empty * (size - num_full)
      parts = [f'{bar} {parts[0]}', *parts[1:]]
    while len(parts) > 1 and len('  '.join(parts)) > width:
      del parts[-2 if len(parts) > 2 else -1]
    return '  '.join(parts)[:width]

  def _write(self, parts: list[str], is_live: bool) -> None:
    width = _LINE_WIDTH
    if console.is_terminal(self._stream):
      # The last column is left free: some terminals wrap when it is written.
      width = console.width(self._stream) - 1
    line = self._fit(parts, width)
    if is_live:
      padded = line.ljust(min(self._width, width))
      console.write(self._stream, f'\r{padded}')
      self._width = len(line)
    else:
      console.write(self._stream, f'{line}\n')


def format_seconds(seconds: float) -> str:
  """Formats seconds, e.g. as `'4 s'`, `'3:05'` or `'1:00:00'`."""
  seconds = round(seconds)
  if seconds < 60:
    return f'{seconds} s'
  minutes, seconds = divmod(seconds, 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f'{hours}:{minutes:02}:{seconds:02}'
  return f'{minutes}:{seconds:02}'
