"""Handles Ctrl-C, so that a run can finish its current chunk and be saved."""

import signal
import sys
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
  """Handles Ctrl-C within a block: the first one only sets `requested`.

  A second one raises `KeyboardInterrupt`. SIGTERM is handled like Ctrl-C.

  Attributes:
    requested: whether to stop.
  """

  def __init__(self) -> None:
    self.requested = False
    self._previous: dict[int, Any] = {}

  def __enter__(self) -> 'Interrupts':
    for number in _SIGNALS:
      self._previous[number] = signal.signal(number, self._handle)
    return self

  def __exit__(self, *exception: object) -> None:
    for number, handler in self._previous.items():
      signal.signal(number, handler)

  def _handle(self, number: int, frame: Any) -> None:
    del number, frame
    if self.requested:
      raise KeyboardInterrupt
    self.requested = True
    print(
      '\nStopping after the current work; press Ctrl-C again to stop at once.',
      file=sys.stderr,
    )
