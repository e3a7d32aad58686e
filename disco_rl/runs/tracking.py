"""Writes the rows of a run to a tracker, as a sink of the run loop."""

from collections.abc import Callable
import queue
import threading

from disco_rl import fields
from disco_rl.runs import console
from disco_rl.runs import metrics
from disco_rl.runs import trackers

# How long the end of a run waits for a tracker.
SECONDS_TO_CLOSE = 60.0

_MAX_MESSAGE = 300


class Tracking:
  """Passes rows to a tracker in a thread of its own.

  A tracker that raises an error gets no more rows, and one that hangs is left
  behind at the end of the run. Either is reported once; neither stops the run.
  """

  def __init__(
    self,
    chosen: trackers.Chosen,
    run: trackers.RunInfo,
    rows: list[metrics.Row],
    before_print: Callable[[], None] = lambda: None,
  ):
    """Stores what the tracker needs; it is made with the first rows.

    Args:
      chosen: the tracker.
      run: the run.
      rows: all rows of the run so far, which the tracker gets first; the run
        appends to them.
      before_print: called before a line is printed.
    """
    self._chosen = chosen
    self._run = run
    self._rows = rows
    self._earlier = list(rows)
    self._before_print = before_print
    self._queue: queue.SimpleQueue[list[metrics.Row] | None] = (
      queue.SimpleQueue()
    )
    self._thread: threading.Thread | None = None
    self._failure = ''
    self._is_reported = False

  def write(self, rows: list[metrics.Row]) -> None:
    """Passes rows on, without waiting for the tracker."""
    self._start()
    if not self._failure:
      self._queue.put(list(rows))
    self._report(self._failure)

  def close(self) -> None:
    """Passes the final results on, and waits until the tracker is closed."""
    thread = self._start()
    self._queue.put(None)
    thread.join(SECONDS_TO_CLOSE)
    if thread.is_alive() and not self._failure:
      self._report(f'it has not ended after {SECONDS_TO_CLOSE:g} s')
    self._report(self._failure)

  def _start(self) -> threading.Thread:
    if self._thread is None:
      # A daemon, so that a tracker that hangs does not keep the process alive.
      self._thread = threading.Thread(
        target=self._work, name=f'tracker {self._chosen.name}', daemon=True
      )
      self._thread.start()
    return self._thread

  def _work(self) -> None:
    """Calls the tracker; errors of any kind end in `_failure`."""
    tracker = None
    try:
      tracker = self._chosen.make(self._run)
      if self._earlier:
        tracker.write(self._earlier)
      for rows in iter(self._queue.get, None):
        tracker.write(rows)
      tracker.finish(trackers.summarize(self._run.folder, self._rows))
    except BaseException as error:
      self._failure = _describe(error)
    if tracker is not None:
      try:
        tracker.close()
      except BaseException as error:
        self._failure = self._failure or _describe(error)

  def _report(self, failure: str) -> None:
    """Prints a failure, unless there is none, or one was printed before."""
    if failure and not self._is_reported:
      self._is_reported = True
      self._before_print()
      console.complain(
        f'warning: the tracker {self._chosen.name} failed and is left out from '
        f'here on ({failure}); {self._run.folder / "metrics.csv"} has all rows'
      )


def _describe(error: BaseException) -> str:
  try:
    message = str(error)
  except Exception:  # Its `__str__` may fail, too.
    message = ''
  text = ': '.join(filter(None, [type(error).__name__, message]))
  return fields.printable(text, _MAX_MESSAGE)
