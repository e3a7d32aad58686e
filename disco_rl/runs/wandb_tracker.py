"""Writes runs of wandb: offline, unless `WANDB_MODE` says otherwise.

`wandb sync DIR/wandb/offline-run-*` uploads an offline run. The axis of all
scalars is the number of environment steps of one agent.
"""

import os
import uuid

import numpy as np

from disco_rl.runs import metrics
from disco_rl.runs import tracker_files
from disco_rl.runs import trackers


class Wandb(trackers.Tracker):
  """Writes one run of wandb; scalars of several seeds have their own names."""

  def __init__(self, run: trackers.RunInfo):
    """Removes the offline runs that were written before, and starts one."""
    import wandb

    self._wandb = wandb
    tracker_files.remove(run.folder, (tracker_files.WANDB,))
    path = run.folder.resolve()
    self._run = wandb.init(
      dir=path,
      id=f'{tracker_files.WANDB_ID}{uuid.uuid4().hex[:12]}',
      mode=None if os.environ.get('WANDB_MODE') else 'offline',
      project=None if os.environ.get('WANDB_PROJECT') else 'disco_rl',
      name=None if os.environ.get('WANDB_NAME') else path.name,
      config=dict(run.config),
      # A program that uses the library may have a run of its own.
      reinit='create_new',
      settings=wandb.Settings(
        silent=True, console='off', disable_git=True, disable_code=True
      ),
    )
    self._run.define_metric('env_steps')
    self._run.define_metric('*', step_metric='env_steps')
    self._has_seeds = len(run.config['settings'].get('seeds', ())) > 1

  def write(self, rows: list[metrics.Row]) -> None:
    """Logs the values of rows, all seeds of an iteration at once."""
    by_iteration: dict[int, dict[str, float]] = {}
    for row in rows:
      at = dict(iteration=row['iteration'], env_steps=row['env_steps'])
      own = by_iteration.setdefault(int(row['iteration']), at)
      own.update(
        (self._name(name, int(row['seed'])), float(value))
        for name, value in row.items()
        if name not in ('seed', *at) and not np.isnan(value)
      )
    for values in by_iteration.values():
      self._run.log(values)

  def finish(self, summary: trackers.Summary) -> None:
    """Logs pictures and the final table."""
    wandb = self._wandb
    table = wandb.Table(
      columns=list(summary.columns), data=[list(x) for x in summary.table]
    )
    pictures = {x.stem: wandb.Image(str(x)) for x in summary.pictures}
    self._run.log({'final': table, **pictures})

  def close(self) -> None:
    """Ends the run of wandb."""
    self._run.finish()

  def _name(self, name: str, seed: int) -> str:
    """Returns the name of a scalar, with the seed if there are several."""
    return f'{name}/seed_{seed}' if self._has_seeds else name
