"""Sinks of the run loop, which take rows of metrics."""

from collections.abc import Callable, Mapping
import os

from disco_rl.runs import metrics
from disco_rl.runs import progress


class Rows:
  """Keeps all rows in a list."""

  def __init__(self, rows: list[metrics.Row]):
    """Sets the list to append to."""
    self._rows = rows

  def write(self, rows: list[metrics.Row]) -> None:
    """Appends rows."""
    self._rows += rows

  def close(self) -> None:
    """Does nothing."""


class Guard:
  """Calls a check before rows are written; goes before the sink of a file."""

  def __init__(self, check: Callable[[], None]):
    """Sets the check, which raises an error to stop the run."""
    self._check = check

  def write(self, rows: list[metrics.Row]) -> None:
    """Calls the check."""
    del rows
    self._check()

  def close(self) -> None:
    """Does nothing."""


class Csv:
  """Appends rows to a CSV file, whose columns are read once."""

  def __init__(self, path: str | os.PathLike[str]):
    """Sets the path of the file."""
    self._path = path
    self._columns: list[str] = []

  def write(self, rows: list[metrics.Row]) -> None:
    """Appends rows."""
    self._columns = metrics.append_csv(self._path, rows, self._columns)

  def close(self) -> None:
    """Does nothing: all rows are written already."""


class Progress:
  """Shows rows in a progress bar."""

  def __init__(
    self,
    bar: progress.Progress,
    describe: Callable[[list[metrics.Row]], tuple[str, Mapping[str, float]]],
  ):
    """Sets the bar.

    Args:
      bar: the progress bar.
      describe: returns, for the rows of one chunk, a note (or an empty string)
        and the metrics to show, by name.
    """
    self._bar = bar
    self._describe = describe

  def write(self, rows: list[metrics.Row]) -> None:
    """Moves the bar to the last row."""
    note, values = self._describe(rows)
    self._bar.update(int(rows[-1]['iteration']), note=note, **values)

  def close(self) -> None:
    """Ends the line of a terminal."""
    self._bar.close()
