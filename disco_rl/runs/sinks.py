"""Sinks of the run loop: where the measured rows go."""

from collections.abc import Callable, Mapping
import os

from disco_rl.runs import metrics
from disco_rl.runs import progress


class Rows:
  """Keeps all rows in a list."""

  def __init__(self, rows: list[metrics.Row]):
    """Keeps them in `rows`."""
    self._rows = rows

  def write(self, rows: list[metrics.Row]) -> None:
    """Appends rows."""
    self._rows += rows

  def close(self) -> None:
    """Does nothing."""


class Csv:
  """Appends rows to a file."""

  def __init__(self, path: str | os.PathLike[str]):
    """Appends to the file at `path`."""
    self._path = path

  def write(self, rows: list[metrics.Row]) -> None:
    """Appends rows."""
    metrics.append_csv(self._path, rows)

  def close(self) -> None:
    """Does nothing: every row is on the disk already."""


class Progress:
  """Shows rows in a progress bar."""

  def __init__(
    self,
    bar: progress.Progress,
    describe: Callable[[list[metrics.Row]], tuple[str, Mapping[str, float]]],
  ):
    """Shows rows in a bar.

    Args:
      bar: the bar.
      describe: from the rows of one piece of work to a note, or an empty text,
        and what to show, by name.
    """
    self._bar = bar
    self._describe = describe

  def write(self, rows: list[metrics.Row]) -> None:
    """Moves the bar to the last row."""
    note, values = self._describe(rows)
    self._bar.update(int(rows[-1]['iteration']), note=note, **values)

  def close(self) -> None:
    """Leaves the line of a terminal."""
    self._bar.close()
