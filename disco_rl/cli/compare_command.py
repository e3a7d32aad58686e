"""Draws several runs in one picture, with a table.

  disco-rl compare runs/catch-disco_103 runs/catch-actor_critic --out both.png
  disco-rl compare runs/meta-catch runs/meta-catch-2

Runs of `eval` are compared by the learning curves of their agents; runs of
`meta-train` by the returns in each environment: those of the agents in training
and, with --eval-every, those of fresh agents.
"""

import argparse
from collections.abc import Sequence
import pathlib
from typing import Any

import numpy as np

from disco_rl import installation
from disco_rl.cli import errors
from disco_rl.cli import run_names
from disco_rl.cli import tables
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import pictures
from disco_rl.runs import metrics
from disco_rl.runs import plot_style
from disco_rl.runs import plots

_FRESH = 'final_return'  # Column of the tables of evaluations.


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add('runs', nargs='+', metavar='RUN', help='folder of a run')
  add(
    '--out',
    default='comparison.png',
    metavar='FILE',
    help='file of the picture, .png, .svg, .pdf, ... (default: comparison.png)',
  )
  add('--overwrite', action='store_true', help='replace --out if it exists')
  add(
    '--x',
    choices=('iteration', 'env_steps'),
    default='iteration',
    help='horizontal axis; the other one is drawn above if all runs have the '
    'same number of environment steps per iteration (default: iteration; for '
    'runs of meta-train, the meta-update)',
  )
  add(
    '--column',
    help='vertical axis, a column of metrics.csv (default: average_return; for '
    'runs of meta-train, the returns in each environment)',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  with errors.as_usage_errors():
    out = pathlib.Path(arguments.out)
    if plots.is_available():
      plots.check_path(out)
    if out.exists() and not arguments.overwrite:
      raise errors.UsageError(
        f'{out} exists already: replace it with --overwrite'
      )
    runs = [run_names.read(pathlib.Path(path)) for path in arguments.runs]
    compare = dict(eval=_compare_agents)
    compare['meta-train'] = _compare_rules
    command = run_names.check_alike(runs)
    table, figure = compare[command](runs, arguments)
    if figure is not None:
      plots.save(figure, out)
  print(table)
  if figure is not None:
    print(f'picture: {out}')
  else:
    print(f'no picture; to draw one: {installation.install_hint("plots")}')
  return 0


def _compare_agents(
  runs: list[run_names.Run], arguments: argparse.Namespace
) -> tuple[str, Any]:
  """Compares runs of `eval`; returns a table, and a figure or None."""
  figure = None
  if plots.is_available():
    figure = draw_agents(runs, arguments.column, arguments.x)
  table = tables.format_table(
    ('run', 'rule', 'env', 'seeds', 'iterations', 'last 100', 'whole run'),
    [_line(str(run.path), run.config, run.rows) for run in runs],
  )
  return table, figure


def draw_agents(
  runs: Sequence[run_names.Run],
  column: str | None = None,
  x: str = 'iteration',
) -> Any:
  """Draws the learning curves of runs of `eval`.

  Args:
    runs: the runs.
    column: column of the vertical axis; None for average returns.
    x: column of the horizontal axis.

  Returns:
    A matplotlib figure.
  """
  envs = list(dict.fromkeys(run.env for run in runs))
  column, limits = column or 'average_return', {}
  title = 'Learning curves'
  if column == 'average_return':
    limits = {env: run_names.return_limits([env]) for env in envs}
  else:
    title = f'{plot_style.name(column)} during training'.capitalize()
  panels = {
    env: _tables([run for run in runs if run.env == env]) for env in envs
  }
  if len(envs) > 1:  # Their returns differ in scale.
    return plots.grid(panels, column, x=x, limits=limits, title=title)
  ((env, by_name),) = panels.items()
  of_rule = f' of {next(iter(by_name))}' if len(runs) == 1 else ''
  title = f'{title}{of_rule} on {env}'
  return plots.learning_curves(by_name, column, x, title, limits.get(env))


def _tables(runs: Sequence[run_names.Run]) -> dict[str, list[metrics.Row]]:
  """Returns the names of runs in one environment, to their rows."""
  names = run_names.of_evaluations(runs)
  return {name: run.rows for name, run in zip(names, runs, strict=True)}


def _compare_rules(
  runs: list[run_names.Run], arguments: argparse.Namespace
) -> tuple[str, Any]:
  """Compares runs of `meta-train`; returns a table, and a figure or None."""
  if arguments.x != 'iteration':
    raise errors.UsageError(
      f'--x {arguments.x} is for runs of eval; those of meta-train are drawn '
      'over meta-updates'
    )
  figure = None
  if plots.is_available():
    figure = draw_rules(runs, arguments.column)
  return tables.format_table(*rule_table(runs)), figure


def draw_rules(runs: Sequence[run_names.Run], column: str | None = None) -> Any:
  """Draws runs of `meta-train` over meta-updates.

  Args:
    runs: the runs.
    column: column of the metrics; None for the returns in each environment, of
      agents in training and of fresh ones.

  Returns:
    A matplotlib figure.
  """
  names = run_names.of_folders(runs)
  panels: dict[str, dict[str, list[metrics.Row]]] = {}
  limits: dict[str, Any] = {}
  for name, run in zip(names, runs, strict=True):
    drawn: dict[str, list[metrics.Row]] = {}
    if column:
      drawn[column] = _column(run.rows, column)
    columns = pictures.return_columns(run.rows)
    for env in () if column else _environments(run):
      fresh, _ = evaluation_tables.read(run.path, env)
      of_env = {f'return of fresh agents: {env}': _column(fresh, _FRESH)}
      if env in columns:
        returns = _column(run.rows, columns[env])
        of_env = {f'return of agents in training: {env}': returns, **of_env}
      limits |= dict.fromkeys(of_env, run_names.return_limits([env]))
      drawn |= of_env
    for title, rows in drawn.items():
      if rows:
        panels.setdefault(title, {})[name] = rows
  title = f'Meta-training: {", ".join(names)}'
  y_label = '' if column else 'average return per episode'
  return plots.grid(
    panels, 'value', limits=limits, title=title, y_label=y_label
  )


def rule_table(
  runs: Sequence[run_names.Run],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
  """Returns the names of columns, and a line per run and environment.

  Args:
    runs: runs of `meta-train`.
  """
  header = (
    *('run', 'init', 'env', 'meta-updates', 'first 10%', 'last 10%'),
    *('fresh: initial', 'fresh: best', 'baseline'),
  )
  lines = []
  for run in runs:
    columns = pictures.return_columns(run.rows)
    for env in _environments(run):
      fresh, baseline = evaluation_tables.read(run.path, env)
      lines.append(_rule_line(run, env, columns.get(env), fresh, baseline))
  return header, lines


def _environments(run: run_names.Run) -> list[str]:
  """Returns the environments of training and of evaluations."""
  columns = pictures.return_columns(run.rows)
  return list(
    dict.fromkeys([*columns, *evaluation_tables.environments(run.config)])
  )


def _column(rows: list[metrics.Row], column: str) -> list[metrics.Row]:
  """Extracts one column of a table, as the column `value`."""
  if rows and column not in rows[0]:
    known = sorted(rows[0])
    raise errors.UsageError(f'no column {column!r}; there are {known}')
  return [
    dict(iteration=row['iteration'], seed=row['seed'], value=row[column])
    for row in rows
  ]


def _rule_line(
  run: run_names.Run,
  env: str,
  column: str | None,
  fresh: list[metrics.Row],
  baseline: float,
) -> tuple[str, ...]:
  part = max(1, len(run.rows) // 10)
  first, last = (
    (
      [row[column] for row in rows] if column else [],
      [row.get(f'episodes/{env}', 1.0) for row in rows] if column else [],
    )
    for rows in (run.rows[:part], run.rows[-part:])
  )
  by_update = evaluation_tables.returns_by_update(fresh)
  show = lambda x: f'{x:.3f}' if np.isfinite(x) else '-'
  return (
    str(run.path),
    run.config['init'],
    env,
    str(int(run.rows[-1]['iteration'])),
    *(show(metrics.weighted_mean(*own)) for own in (first, last)),
    show(by_update.get(0, np.nan)),
    show(max(filter(np.isfinite, by_update.values()), default=np.nan)),
    show(baseline),
  )


def _line(path: str, config: dict, rows: list[metrics.Row]) -> tuple[str, ...]:
  finals, whole = (
    np.asarray(list(metrics.average_returns(rows, last).values()))
    for last in (metrics.LAST, None)
  )
  return (
    path,
    config['rule'],
    config['request']['env'],
    str(len(finals)),
    str(int(rows[-1]['iteration'])),
    tables.with_band(*map(float, metrics.mean_and_band(finals))),
    tables.with_band(*map(float, metrics.mean_and_band(whole))),
  )
