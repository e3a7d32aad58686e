"""Decides what a run is resumed from.

The rule: the state (`state.npz`) decides. Rows of metrics after it are computed
again, and rows up to it must confirm it.

  - A row is written before the checkpoint of the same step, and a later row
    after it. So the state is at a row, and at or after the last checkpoint that
    was due before the last row. Otherwise it is older than the run, or was
    changed, and nothing is resumed.
  - Without a state, a run begins again if no checkpoint was due: it was killed
    before its first one. Otherwise the state was removed, and nothing is
    resumed.
  - Without any rows, the state alone is trusted. Rows that are missing before
    the state do not matter to it. Both are said.
"""

from collections.abc import Sequence
import dataclasses

from disco_rl.runs import metrics
from disco_rl.runs import run_folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rhythm:
  """When a run writes what, in steps.

  Attributes:
    unit: name of a step, e.g. `'iteration'`.
    total: steps in all, as far as its `config.json` says.
    chunk_size: steps between two rows, at most.
    checkpoint_every: steps between two checkpoints, at multiples of it.
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
  rhythm: Rhythm,
) -> str:
  """Checks that a state and the rows of metrics are of the same run.

  Args:
    folder: folder of the run.
    rows: all its rows of metrics.
    done: steps done in the state; None if there is no state.
    rhythm: when the run writes what.

  Returns:
    What the user should know: one sentence, or nothing.

  Raises:
    RunFolderError: if they are not.
  """
  others = {int(row['seed']) for row in rows} - {*(rhythm.seeds or ())}
  if others and rhythm.seeds is not None:
    raise run_folder.RunFolderError(
      f'{folder.metrics_path} has rows of the seed {min(others)}, which is not '
      'in this run: the file was changed, or is of another run'
    )
  ends = sorted({int(row['iteration']) for row in rows})
  due = _last_due(ends, rhythm.checkpoint_every)
  if done is None:
    return _check_without_state(folder, ends, due, rhythm)
  where, unit = folder.state_path, rhythm.unit
  if not 0 <= done <= rhythm.total:
    raise run_folder.RunFolderError(
      f'{where} is at {unit} {done}, which is impossible in a run of '
      f'{rhythm.total}: the file was changed, or is of another run'
    )
  if not ends:
    return _without_rows(folder, done, unit)
  if done < due:
    raise run_folder.RunFolderError(
      f'{where} is older than the run: it is at {unit} {done}, but '
      f'metrics.csv shows a checkpoint of {unit} {due}. Restore the newer one; '
      f'or remove metrics.csv, to go on from {unit} {done}'
    )
  if done and done not in ends:
    raise run_folder.RunFolderError(
      f'{where} is at {unit} {done}, of which metrics.csv has no row: one of '
      'the two was changed or replaced. Restore it; or remove metrics.csv, to '
      'go on from the state'
    )
  missing = _first_missing(rows, done, rhythm.chunk_size)
  if missing is None:
    return ''
  return (
    f'{folder.metrics_path} lacks rows before {unit} {missing}; they were '
    'removed, and are not computed again'
  )


def _check_without_state(
  folder: run_folder.RunFolder, ends: list[int], due: int, rhythm: Rhythm
) -> str:
  """Returns what to say of a run without a checkpoint, if it never had one."""
  if due or folder.shows_checkpoint():
    at = f' of {rhythm.unit} {due}' if due else ''
    raise run_folder.RunFolderError(
      f'{folder.state_path} is missing: the run made a checkpoint{at}, and '
      'would begin again without it. Restore the file; or start a new run in '
      'its folder (--overwrite)'
    )
  lost = f', after {rhythm.unit} {ends[-1]}' if ends else ''
  return (
    f'{folder.path} was stopped before its first checkpoint{lost}: the run '
    'begins again'
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
    chunk_size: steps between two rows, at most.
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
