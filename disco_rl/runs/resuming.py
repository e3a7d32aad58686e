"""Checks whether a run can be resumed from its checkpoint.

A run is resumed from its state (`states.py`). Rows of metrics after it are
computed again, and rows up to it must be consistent with it:

- The row of a step is written before its checkpoint, and the next row after
  it. So there is a row at the state's step, and no checkpoint was due between
  the state and the last row. Otherwise the state is older than the run, or
  was changed, and the run is not resumed.
- Without a state, a run starts from the beginning if no checkpoint was due:
  it was killed before its first one. Otherwise the state was removed, and the
  run is not resumed.
- Without any rows, the state alone is trusted. Rows that are missing before
  the state are not needed. Both are reported in a note.
"""

from collections.abc import Sequence
import dataclasses

from disco_rl.runs import metrics
from disco_rl.runs import run_folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Periods:
  """The periods at which a run writes rows and checkpoints, in steps.

  Attributes:
    unit: name of a step, e.g. `'iteration'`.
    total: steps in all, according to its `config.json`.
    chunk_size: largest number of steps between two rows.
    checkpoint_every: steps between two checkpoints, made at its multiples.
    seeds: the seeds of its rows; None for any.
  """

  unit: str
  total: int
  chunk_size: int
  checkpoint_every: int
  seeds: Sequence[int] | None = None


def check(
  folder: run_folder.RunFolder,
  rows: Sequence[metrics.Row],
  done: int | None,
  periods: Periods,
  shown: int = 0,
) -> str:
  """Checks that a state and the rows of metrics belong to the same run.

  Args:
    folder: folder of the run.
    rows: all its rows of metrics.
    done: steps done in the state; None if there is no state.
    periods: periods of rows and checkpoints.
    shown: the step of a checkpoint that must have existed according to other
      files; 0 for none.

  Returns:
    A note for the user, in one sentence; empty if there is nothing to report.

  Raises:
    RunFolderError: if they do not, or if the state is missing.
  """
  others = {int(row['seed']) for row in rows} - {*(periods.seeds or ())}
  if others and periods.seeds is not None:
    raise run_folder.RunFolderError(
      f'{folder.metrics_path} has rows of the seed {min(others)}, which is not '
      'in this run: the file was changed, or is of another run'
    )
  ends = sorted({int(row['iteration']) for row in rows})
  due = _last_due(ends, periods.checkpoint_every)
  if done is None:
    return _check_without_state(folder, ends, max(due, shown), periods)
  where, unit = folder.last_state_path, periods.unit
  if not 0 <= done <= periods.total:
    raise run_folder.RunFolderError(
      f'{where} is at {unit} {done}, which is impossible in a run of '
      f'{periods.total}: the file was changed, or is of another run'
    )
  if not ends:
    return _without_rows(folder, done, unit)
  if done < due:
    raise run_folder.RunFolderError(
      f'{where} is older than the run: it is at {unit} {done}, but '
      f'metrics.csv shows a checkpoint of {unit} {due}. Restore the newer one; '
      f'or remove metrics.csv, to resume from {unit} {done}'
    )
  if done and done not in ends:
    raise run_folder.RunFolderError(
      f'{where} is at {unit} {done}, for which metrics.csv has no row: one of '
      'the two was changed or replaced. Restore it; or remove metrics.csv, to '
      'resume from the state'
    )
  missing = _first_missing(rows, done, periods.chunk_size)
  if missing is None:
    return ''
  return (
    f'{folder.metrics_path} lacks rows before {unit} {missing}; they were '
    'removed, and are not computed again'
  )


def _check_without_state(
  folder: run_folder.RunFolder, ends: list[int], due: int, periods: Periods
) -> str:
  """Returns the note for a run that never had a checkpoint, or raises."""
  if due or folder.shows_checkpoint():
    at = f' of {periods.unit} {due}' if due else ''
    raise run_folder.RunFolderError(
      f'{folder.state_path} is missing: the run made a checkpoint{at}, and '
      'would start from the beginning without it. Restore the file; or remove '
      'the run (in the command: --overwrite) and start a new one'
    )
  lost = f', after {periods.unit} {ends[-1]}' if ends else ''
  return (
    f'{folder.path} was stopped before its first checkpoint{lost}: the run '
    'starts from the beginning'
  )


def _without_rows(folder: run_folder.RunFolder, done: int, unit: str) -> str:
  if not done:
    return ''
  return (
    f'{folder.metrics_path} has no rows, though {unit} {done} is done: they '
    'were removed, and are not computed again'
  )


def _last_due(ends: Sequence[int], every: int) -> int:
  """Returns the step of the last checkpoint that must exist; 0 for none.

  Args:
    ends: steps at which there are rows, in increasing order.
    every: steps between two checkpoints.
  """
  due, before = 0, 0
  for end in ends[:-1]:  # After the last row, the checkpoint may be missing.
    if end // every > before // every:
      due = end
    before = end
  return due


def _first_missing(
  rows: Sequence[metrics.Row], done: int, chunk_size: int
) -> int | None:
  """Returns the first step before which rows are missing, or None.

  Args:
    rows: all rows.
    done: steps up to which there should be rows.
    chunk_size: largest number of steps between two rows.
  """
  seeds_at: dict[int, set[float]] = {}
  for row in rows:
    if row['iteration'] <= done:
      seeds_at.setdefault(int(row['iteration']), set()).add(row['seed'])
  all_seeds = set().union(*seeds_at.values())
  before = 0
  for end in sorted(seeds_at):
    if end - before > chunk_size or seeds_at[end] != all_seeds:
      return end
    before = end
  return None
