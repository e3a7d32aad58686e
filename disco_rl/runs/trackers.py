"""Trackers: where the metrics of a run are shown, besides its own files.

```python
class Printer(trackers.Tracker):
  def write(self, rows):
    print(rows[-1])

disco_rl.register_tracker('printer', Printer)
disco_rl.evaluate('catch', out='runs/catch', track=['printer'])
```

A tracker is written to by `tracking.py`, in a thread, and its failure does not
stop the run. `metrics.csv` stays the record of the run: after a resume, a new
tracker gets all of its rows again.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import importlib
import importlib.util
import pathlib
from typing import Any, NamedTuple

from disco_rl import fields
from disco_rl import installation
from disco_rl import utils
from disco_rl.runs import metrics
from disco_rl.runs import run_files


@dataclasses.dataclass(frozen=True)
class RunInfo:
  """The run that a tracker is made for.

  Attributes:
    folder: the folder of the run.
    config: contents of its `config.json`: all settings, and their origins.
  """

  folder: pathlib.Path
  config: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Summary:
  """The end of a run.

  Attributes:
    pictures: paths of its pictures (PNG), perhaps none.
    columns: columns of the final table.
    table: its lines, one per seed; perhaps with NaN.
  """

  pictures: tuple[pathlib.Path, ...]
  columns: tuple[str, ...]
  table: tuple[tuple[float, ...], ...]


class Tracker:
  """A tracker that ignores everything; others override what they need."""

  def __init__(self, run: RunInfo):
    """Starts tracking; called once, in the thread of all other calls.

    Args:
      run: the run.
    """

  def write(self, rows: list[metrics.Row]) -> None:
    """Takes rows of metrics; first of all, those from before a resume.

    Args:
      rows: rows of one or more chunks, each with `iteration`, `seed` and
        `env_steps`; averages without any values are NaN.
    """

  def finish(self, summary: Summary) -> None:
    """Takes the final results, also of a run that was interrupted.

    Args:
      summary: the results.
    """

  def close(self) -> None:
    """Closes the tracker; called once, also after one of its errors."""


Make = Callable[[RunInfo], Any]


class Chosen(NamedTuple):
  """A tracker that is installed and ready to be made."""

  name: str
  make: Make


def _make_tensorboard(run: RunInfo) -> Any:
  from disco_rl.runs import tensorboard_tracker

  return tensorboard_tracker.TensorBoard(run)


def _make_wandb(run: RunInfo) -> Any:
  from disco_rl.runs import wandb_tracker

  return wandb_tracker.Wandb(run)


TRACKERS: dict[str, Make] = {
  'tensorboard': _make_tensorboard,
  'wandb': _make_wandb,
}
# Name of a tracker, and of its extra, to the package that it needs.
_PACKAGES = {'tensorboard': 'tensorboardX', 'wandb': 'wandb'}
BUILT_IN = frozenset(TRACKERS)


def register_tracker(name: str, make: Make) -> None:
  """Registers a tracker of your own for `--track` and `track=`.

  Args:
    name: its name. Registering a name again replaces the earlier tracker;
      built-in names cannot be replaced.
    make: makes the tracker, an object with the methods of `Tracker`, from a
      `RunInfo`; a subclass of `Tracker`, for example.
  """
  utils.check_name(name, 'tracker', BUILT_IN)
  if not callable(make):
    raise ValueError(
      'register_tracker needs a class of trackers, or a function that makes '
      f'one, got {fields.shorten(make)}'
    )
  TRACKERS[name] = make


def find(
  names: Sequence[str | Make], *, has_folder: bool = True
) -> tuple[Chosen, ...]:
  """Finds trackers, and imports the packages that they need.

  Args:
    names: names of trackers; or functions that make them.
    has_folder: whether the run has a folder, which trackers need.

  Returns:
    The trackers, not made yet.

  Raises:
    ValueError: if one is unknown, given twice, or not installed.
  """
  if isinstance(names, str) or not isinstance(names, Sequence):
    raise ValueError(
      f"track must be a list of trackers, such as ['tensorboard'], got "
      f'{fields.shorten(names)}'
    )
  found: dict[str, Chosen] = {}
  for given in names:
    if callable(given):
      chosen = Chosen(getattr(given, '__name__', 'tracker'), given)
    else:
      chosen = Chosen(given, utils.lookup(TRACKERS, given, 'tracker'))
      if given in _PACKAGES:
        _import(given, _PACKAGES[given])
    if chosen.name in found:
      raise ValueError(f'the tracker {chosen.name} is given twice')
    found[chosen.name] = chosen
  if found and not has_folder:
    raise ValueError('trackers (track) need the folder of the run, out=...')
  return tuple(found.values())


def summarize(folder: pathlib.Path, rows: Sequence[metrics.Row]) -> Summary:
  """Summarises a run for trackers.

  Args:
    folder: folder of the run.
    rows: all rows of the run.

  Returns:
    Its pictures, and the last row of every seed. An average return is that of
    the last 100 iterations, as in all reports.
  """
  pictures = [x for x in run_files.find(folder) if x.suffix == '.png']
  last = {int(row['seed']): dict(row) for row in rows}
  if rows and 'average_return' in rows[0]:
    for seed, value in metrics.average_returns(rows, metrics.LAST).items():
      last[seed]['average_return'] = value
  columns = tuple(rows[0]) if rows else ()
  table = [tuple(last[seed][x] for x in columns) for seed in sorted(last)]
  return Summary(tuple(pictures), columns, tuple(table))


def _import(name: str, package: str) -> None:
  """Raises a `ValueError` if the package of a tracker cannot be imported."""
  try:
    importlib.import_module(package)
  except ImportError as error:
    if importlib.util.find_spec(package) is None:
      reason = f'needs the package {package}: {installation.install_hint(name)}'
    else:
      reason = f'needs the package {package}, which cannot be imported: {error}'
    raise ValueError(f'the tracker {name} {reason}') from error
  except Exception as error:
    raise ValueError(
      f'the tracker {name} needs the package {package}, which cannot be '
      f'imported: {type(error).__name__}: {error}'
    ) from error
