"""Draws several runs in one picture, with a table.

disco-rl compare runs/catch-disco_103 runs/catch-actor_critic --out both.png
"""

import argparse
import pathlib

import numpy as np

from disco_rl import installation
from disco_rl import metrics_table
from disco_rl import plots
from disco_rl import run_folder
from disco_rl.cli import errors
from disco_rl.cli import tables

HELP = 'draw several runs in one picture'


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Describes the command's options."""
  add = parser.add_argument
  add('runs', nargs='+', metavar='RUN', help='folder of a run')
  add(
    '--out',
    default='comparison.png',
    metavar='FILE',
    help='the picture (default: comparison.png)',
  )
  add('--overwrite', action='store_true', help='replace --out if it exists')
  add(
    '--x',
    choices=('iteration', 'env_steps'),
    default='iteration',
    help='horizontal axis (default: iteration)',
  )
  add(
    '--column',
    default='average_return',
    help='vertical axis, a column of metrics.csv (default: average_return)',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  with errors.as_usage_errors():
    out = pathlib.Path(arguments.out)
    if out.exists() and not arguments.overwrite:
      raise errors.UsageError(f'{out} exists; say --overwrite to replace it')
    runs: dict[str, list[metrics_table.Row]] = {}
    table = []
    envs = set()
    for path in arguments.runs:
      config = run_folder.read_config(path)
      if config.get('command') != 'eval':
        raise errors.UsageError(
          f'{path} is no run of disco-rl eval: only learning curves of agents '
          'can be compared'
        )
      rows = metrics_table.read_csv(pathlib.Path(path) / 'metrics.csv')
      if not rows:
        raise errors.UsageError(f'{path} has no metrics yet')
      name = config['rule']
      runs[f'{name} ({path})' if name in runs else name] = rows
      table.append(_line(path, config, rows))
      envs.add(config['asked']['env'])
    if plots.is_available():
      figure = plots.learning_curves(
        runs, arguments.column, arguments.x, ', '.join(sorted(envs))
      )
      plots.save(figure, out)
  print(
    tables.format_table(
      ('run', 'rule', 'env', 'seeds', 'iterations', 'last 100', 'whole run'),
      table,
    )
  )
  if plots.is_available():
    print(f'picture: {out}')
  else:
    print(f'no picture; for one: {installation.install_hint("plots")}')
  return 0


def _line(
  path: str, config: dict, rows: list[metrics_table.Row]
) -> tuple[str, ...]:
  finals = np.asarray(list(metrics_table.final_returns(rows).values()))
  at, values = metrics_table.curves(rows, 'average_return')
  whole, _ = metrics_table.mean_and_band(values.T)
  return (
    path,
    config['rule'],
    config['asked']['env'],
    str(len(finals)),
    str(int(at[-1])),
    tables.with_band(*map(float, metrics_table.mean_and_band(finals))),
    tables.with_band(*map(float, metrics_table.mean_and_band(whole))),
  )
