"""Runs many cells in one folder, each of which is resumed if interrupted.

```text
spec.json        what the folder is for
diverged.json    cells whose training diverged, by seed
cells/CELL/      the run of a cell, as `disco-rl eval` writes it
```

A cell is finished if its run has saved the final parameters of its agents. If
training diverges with one seed, that is recorded, and the others are trained
again without it, since they share a program that has stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import json
import os
import pathlib
from typing import Any

from disco_rl import fields
from disco_rl.benchmarking import cells as cells_lib
from disco_rl.evaluation import plan as plan_lib
from disco_rl.evaluation import training
from disco_rl.processes import runtime
from disco_rl.runs import console
from disco_rl.runs import files
from disco_rl.runs import finite
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plain_settings
from disco_rl.runs import progress
from disco_rl.runs import reading
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_files
from disco_rl.runs import run_folder
from disco_rl.runs import trackers

FORMAT = 1
_SPEC = 'spec.json'
_DIVERGED = 'diverged.json'


class CampaignError(ValueError):
  """Raised for folders that are not those of this campaign."""


class CellError(RuntimeError):
  """Raised if a cell cannot be trained, for another reason than divergence.

  Attributes:
    is_user_facing: see `files.StorageError`.
  """

  is_user_facing = True


class Campaign:
  """The folder of a campaign.

  Attributes:
    path: its path.
    spec: what it is for, of JSON types; see `open_folder`.
  """

  def __init__(self, path: pathlib.Path, spec: Mapping[str, Any]):
    """Stores them; see `open_folder`."""
    self.path = path
    self.spec = spec
    self._diverged: dict[str, dict[str, str]] = {}
    if (path / _DIVERGED).exists():
      self._diverged = _read(path / _DIVERGED)
      if not all(_is_record(own) for own in self._diverged.values()):
        raise CampaignError(f'{path / _DIVERGED} was changed')

  def diverged(self, cell: cells_lib.Cell) -> dict[int, str]:
    """Returns the seeds with which a cell diverged, to the reasons."""
    found = self._diverged.get(cell.file_name, {})
    return {int(seed): reason for seed, reason in found.items()}

  def rows(self, cell: cells_lib.Cell) -> list[metrics.Row]:
    """Reads the rows of metrics of a cell, of seeds that did not diverge."""
    if len(self.diverged(cell)) == len(cell.seeds):
      return []  # The last run in the folder is of seeds that diverged.
    return metrics.read_csv(self._folder(cell) / 'metrics.csv')

  def is_finished(self, cell: cells_lib.Cell) -> bool:
    """Returns whether a cell is finished."""
    names = {path.name for path in run_files.find(self._folder(cell))}
    return all(f'params_{seed}.npz' in names for seed in self._left(cell))

  def run(
    self,
    cells: Sequence[cells_lib.Cell],
    *,
    show_progress: bool = True,
    track: Sequence[trackers.Chosen] = (),
  ) -> bool:
    """Runs all cells that are not finished, until the end or Ctrl-C.

    Args:
      cells: the cells.
      show_progress: whether to show one bar for all of them.
      track: trackers of the rows of every cell.

    Returns:
      Whether all are finished; False if a command is interrupted.

    Raises:
      CellError: if a cell cannot be trained.
      KeyboardInterrupt: after Ctrl-C outside of commands.
    """
    cells_lib.check_names(cells)
    total = sum(cell.steps for cell in cells)
    done = sum(cell.steps for cell in cells if self.is_finished(cell))
    bar = progress.Progress(total, done, enabled=show_progress)
    try:
      for cell in cells:
        if self.is_finished(cell):
          continue
        with _naming(cell):
          part = _Part(bar, cell.name, done)
          if not self._run_cell(cell, part, track):
            return False
        done += cell.steps
    finally:
      bar.close()
    return True

  def write(self, name: str, text: str) -> None:
    """Writes a text file of the folder, whole or not at all."""
    with files.atomic_writer(self.path / name) as file:
      file.write(text.encode())

  def write_json(self, name: str, content: Mapping[str, Any]) -> None:
    """Writes a JSON file of the folder, whole or not at all."""
    self.write(name, json.dumps(content, indent=2) + '\n')

  def _folder(self, cell: cells_lib.Cell) -> pathlib.Path:
    return self.path / 'cells' / cell.file_name

  def _left(self, cell: cells_lib.Cell) -> list[int]:
    """Returns the seeds with which a cell has not diverged."""
    return [seed for seed in cell.seeds if seed not in self.diverged(cell)]

  def _run_cell(
    self, cell: cells_lib.Cell, bar: Any, track: Sequence[trackers.Chosen]
  ) -> bool:
    """Runs a cell; returns whether it is finished."""
    while not self.is_finished(cell):
      with self._open(cell) as run:
        run.bar, run.trackers = bar, track
        try:
          outcome = run.execute()
        except finite.NonFiniteStateError as error:
          self._record(cell, {seed: str(error) for seed in self._left(cell)})
          continue
        if outcome.reason is loop.Reason.INTERRUPTED:
          return False
        if outcome.error is not None:
          assert isinstance(outcome.error, training.DivergenceError)
          self._record(cell, {outcome.error.seed: str(outcome.error)})
          continue
        assert run.folder is not None
        plan_lib.save_final_params(run, outcome.state)
        # With its replay, it is by far the largest file.
        run.folder.remove_checkpoint()
      if interrupts.is_requested():
        return False
    return True

  def _open(self, cell: cells_lib.Cell) -> run_lib.Run:
    """Starts the run of a cell, or resumes it."""
    path, seeds = self._folder(cell), self._left(cell)
    plan = cell.plan(seeds)
    is_begun = run_folder.holds_run(path)
    if is_begun:
      recorded = run_folder.read_config(path).get('settings', {})
      is_begun = list(recorded.get('seeds', ())) == seeds
    if not is_begun:
      # A run with a seed that diverged is replaced.
      return plan.start(path, overwrite=True, show_progress=False)
    with contextlib.ExitStack() as stack:
      folder = stack.enter_context(run_folder.RunFolder.reopen(path))
      run = plan.resume(folder, show_progress=False)
      stack.pop_all()
    if run.note:
      console.complain(f'note on {cell.name}: {run.note}')
    return run

  def _record(self, cell: cells_lib.Cell, reasons: Mapping[int, str]) -> None:
    """Records seeds with which a cell diverged."""
    own = self._diverged.setdefault(cell.file_name, {})
    own.update({str(seed): reason for seed, reason in reasons.items()})
    self.write_json(_DIVERGED, self._diverged)


@contextlib.contextmanager
def _naming(cell: cells_lib.Cell) -> Iterator[None]:
  """Adds the name of a cell to errors that users can correct."""
  try:
    yield
  except Exception as error:
    is_for_users = getattr(error, 'is_user_facing', False)
    if is_for_users or isinstance(error, ValueError):
      raise CellError(f'{cell.name}: {error}') from error
    raise


def open_folder(
  path: str | os.PathLike[str], spec: Mapping[str, Any], *, resume: bool
) -> Campaign:
  """Makes the folder of a campaign, or opens that of the same one again.

  Args:
    path: path of the folder.
    spec: what it is for, of JSON types: its `kind`, its `rules` by name, and
      all else that results depend on.
    resume: whether it is opened again. There may be more rules than before, and
      other `anchors`, which training does not depend on.

  Returns:
    The campaign.

  Raises:
    CampaignError: if the folder is not free, or of another campaign.
  """
  if runtime.current() is not None:
    raise CampaignError('benchmarks run in one process, not in several')
  path = pathlib.Path(path)
  spec = {'format': FORMAT, **plain_settings.to_plain(dict(spec))}
  if resume:
    _check_same(path, read_spec(path), spec)
  else:
    check_free(path)
    with files.storing(path):
      path.mkdir(parents=True, exist_ok=True)
  interrupts.defer()  # From here on there is something to save.
  campaign = Campaign(path, spec)
  campaign.write_json(_SPEC, spec)
  return campaign


def _check_same(
  path: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
  """Raises a `CampaignError` unless one campaign goes on with another."""
  old, new = (
    run_lib.flatten({k: v for k, v in spec.items() if k != 'anchors'})
    for spec in (before, now)
  )
  for name in sorted({*old, *new}):
    is_added = name not in old and name.startswith('rules.')
    if not is_added and old.get(name) != new.get(name):
      raise CampaignError(
        f'{path} is the folder of another benchmark: its {name} is '
        f'{fields.shorten(old.get(name))}, not {fields.shorten(new.get(name))}'
      )


def check_free(path: str | os.PathLike[str]) -> None:
  """Raises a `CampaignError` unless a folder is empty or does not exist."""
  path = pathlib.Path(path)
  if (path / _SPEC).exists():
    raise CampaignError(
      f'{path} already holds a benchmark: resume it (--resume {path}; in '
      'Python: resume=True), or choose another folder'
    )
  if path.exists() and (not path.is_dir() or any(path.iterdir())):
    raise CampaignError(f'{path} is not an empty folder: choose another one')


def read_spec(path: str | os.PathLike[str]) -> dict[str, Any]:
  """Reads what the folder of a campaign is for.

  Args:
    path: path of the folder.

  Returns:
    The `spec` that it was made with.

  Raises:
    CampaignError: if it is not such a folder.
  """
  path = pathlib.Path(path)
  if not (path / _SPEC).exists():
    raise CampaignError(f'{path} holds no benchmark: there is no {_SPEC} in it')
  spec = _read(path / _SPEC)
  kinds = dict(kind=str, suite=str, rules=dict, seeds=list)
  is_spec = all(isinstance(spec.get(x), kind) for x, kind in kinds.items())
  if is_spec:
    is_spec = all(isinstance(own, dict) for own in spec['rules'].values())
  if spec.get('format') != FORMAT or not is_spec:
    raise CampaignError(
      f'{path} was made by another version of disco_rl, or {_SPEC} was changed'
    )
  return spec


def _read(path: pathlib.Path) -> dict[str, Any]:
  try:
    return reading.read_json(path)
  except reading.UnreadableFileError as error:
    raise CampaignError(f'cannot read {path}: {error}') from None


def _is_record(reasons: Any) -> bool:
  """Returns whether an entry of the file on divergence is valid."""
  return isinstance(reasons, dict) and all(x.isdecimal() for x in reasons)


class _Part:
  """The part of a progress bar that one cell moves."""

  def __init__(self, bar: progress.Progress, label: str, before: int):
    self._bar = bar
    self._before = before
    self._is_first = True
    bar.label = label

  def update(self, done: int, note: str = '', **values: float) -> None:
    """Moves the bar; see `progress.Progress.update`."""
    if self._is_first:  # Mostly compilation.
      note = note or 'compiled'
    self._is_first = False
    self._bar.update(self._before + done, note, **values)

  def close(self) -> None:
    """Does nothing: the bar goes on with the next cell."""
