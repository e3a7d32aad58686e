"""Reads the folders of runs, and names runs for legends and tables."""

from collections.abc import Sequence
import dataclasses
import pathlib
from typing import Any

from disco_rl.cli import errors
from disco_rl.environments import showing
from disco_rl.runs import config_entries
from disco_rl.runs import metrics
from disco_rl.runs import run_folder


@dataclasses.dataclass(frozen=True)
class Run:
  """A run: its folder, config and rows of metrics."""

  path: pathlib.Path
  config: dict[str, Any]
  rows: list[metrics.Row]

  @property
  def command(self) -> str:
    """The command that made it, `eval` or `meta-train`."""
    return self.config['command']

  @property
  def env(self) -> Any:
    """Its environment; the list of them in meta-training."""
    return self.config['request']['env']


def read(path: pathlib.Path) -> Run:
  """Reads a run of `eval` or of `meta-train`.

  Args:
    path: path of its folder.

  Returns:
    The run.

  Raises:
    RunFolderError: if it holds no run, or a damaged one.
    UsageError: if it is of another command, or has no metrics yet.
  """
  config = run_folder.read_config(path)
  if config.get('command') not in ('eval', 'meta-train'):
    raise errors.UsageError(
      f'{path} is not a run of disco-rl eval or disco-rl meta-train'
    )
  rows = metrics.read_csv(path / 'metrics.csv')
  if not rows:
    raise errors.UsageError(f'{path} has no metrics yet')
  config_entries.check(path, config, ('request',))
  return Run(path, config, rows)


def check_alike(runs: Sequence[Run]) -> str:
  """Checks that runs can be compared.

  Args:
    runs: the runs.

  Returns:
    The command that made all of them.

  Raises:
    UsageError: if they are of different commands, or tables lack a column.
  """
  commands = {run.command for run in runs}
  if len(commands) > 1:
    raise errors.UsageError(
      'runs of eval and of meta-train measure different things and cannot be '
      'drawn in one picture: compare those of one command at a time'
    )
  command = commands.pop()
  for run in runs:
    for column in metrics.COLUMNS if command == 'eval' else ():
      if column not in run.rows[0]:
        raise errors.UsageError(f'{run.path}/metrics.csv has no {column}')
  return command


def of_evaluations(runs: Sequence[Run]) -> list[str]:
  """Names runs of `eval` by as little as distinguishes them.

  Args:
    runs: the runs.

  Returns:
    A different name for each.
  """
  rules = [run.config['rule'] for run in runs]
  levels = [
    [f'{rule} on {run.env}' for rule, run in zip(rules, runs, strict=True)],
    *(
      [
        # Folders are mostly named after the rule.
        shown if rule in shown else f'{rule} ({shown})'
        for rule, shown in zip(rules, folders, strict=True)
      ]
      for folders in _folders(runs)
    ),
  ]
  if len({run.env for run in runs}) == 1:
    levels.insert(0, rules)
  return _first_distinct(runs, levels)


def of_folders(runs: Sequence[Run]) -> list[str]:
  """Names runs by their folders, or by paths if folders have the same name."""
  return _first_distinct(runs, _folders(runs))


def return_limits(envs: Sequence[str]) -> tuple[float, float] | None:
  """Returns the range of returns in all of some environments, if known."""
  ranges = [showing.return_range(env) for env in envs]
  known = [own for own in ranges if own is not None]
  if not ranges or len(known) < len(ranges):
    return None
  return min(own[0] for own in known), max(own[1] for own in known)


def _folders(runs: Sequence[Run]) -> list[list[str]]:
  """Returns names of folders, and paths."""
  return [
    [run.path.resolve().name for run in runs],
    [str(run.path.resolve()) for run in runs],
  ]


def _first_distinct(
  runs: Sequence[Run], levels: Sequence[Sequence[str]]
) -> list[str]:
  """Returns the first names that differ; a run that is given twice is numbered.

  Args:
    runs: the runs.
    levels: names of all runs, from short ones to those that always differ.

  Returns:
    A different name for each run.
  """
  paths = [run.path.resolve() for run in runs]
  names = next(
    own
    for own in levels
    if len(set(own))
    == len(set(zip(own, paths, strict=True)))
    == len(set(paths))
  )
  return [
    name if (number := paths[:i].count(path)) == 0 else f'{name} #{number + 1}'
    for i, (name, path) in enumerate(zip(names, paths, strict=True))
  ]
