"""Draws the metrics of meta-training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from disco_rl.environments import showing
from disco_rl.meta_training import returns
from disco_rl.runs import metrics
from disco_rl.runs import plots

RETURNS = 'returns'
EVALUATIONS = 'evaluations'
# Name of a picture to its panels: title to columns of the table.
_PANELS: Mapping[str, Mapping[str, Sequence[str]]] = {
  'rewards': {'rewards per meta-update': ('pos_rewards', 'neg_rewards')},
  'training': {
    'meta-loss': ('meta_loss', 'pg_loss', 'reg_loss'),
    'norm of the meta-gradient': ('meta_grad_norm',),
    'norm of the update of η': ('meta_up_norm',),
    'average reward': ('rewards',),
  },
}
PICTURES = (RETURNS, *_PANELS)


def return_columns(rows: Sequence[metrics.Row]) -> dict[str, str]:
  """Finds the columns with the returns of episodes.

  Args:
    rows: rows of `training.Training`.

  Returns:
    Name of an environment, or of a group of agents, to its column.
  """
  names = rows[0] if rows else {}
  return {
    name.partition('/')[2]: name for name in names if name.startswith('return/')
  }


def draw(name: str, rows: Sequence[metrics.Row]) -> Any:
  """Draws one of `PICTURES`.

  Args:
    name: name of the picture. `'returns'` shows the average return of the
      episodes that ended in a meta-update, one panel per environment.
    rows: rows of `training.Training`, one per meta-update.

  Returns:
    A matplotlib figure.
  """
  if name == RETURNS:
    panels: dict[str, Sequence[str]] = {}
    for env, column in return_columns(rows).items():
      panels[f'return of agents in training: {env}'] = (column,)
      panels |= _more_returns(rows, env)
    return plots.panels(rows, panels)
  return plots.panels(rows, _PANELS[name])


def _more_returns(
  rows: Sequence[metrics.Row], env: str
) -> dict[str, Sequence[str]]:
  """Finds the panels of an environment with further returns, see `returns`."""
  titles = {
    f'{returns.LAST}/{env}': f'at the end of lifetimes: {env}',
    f'{returns.FAMILY}/{env}': f'by family: {env}',
    f'{returns.LAST_FAMILY}/{env}': f'by family, at the end: {env}',
  }
  names = rows[0] if rows else {}
  panels = {
    title: [x for x in names if start in (x, x.rpartition('/')[0])]
    for start, title in titles.items()
  }
  return {title: columns for title, columns in panels.items() if columns}


def draw_evaluations(
  evaluations: Mapping[str, Sequence[metrics.Row]],
  baselines: Mapping[str, float],
  baseline_name: str,
) -> Any:
  """Draws the returns of fresh agents over meta-updates.

  Args:
    evaluations: name of an environment to a table with the columns
      `iteration` (meta-updates), `seed` and `final_return`.
    baselines: name of an environment to the return of the baseline, if there is
      one.
    baseline_name: name of the baseline.

  Returns:
    A matplotlib figure with one panel per environment, with horizontal lines
    for the baseline and for the initial η (meta-update 0).
  """
  panels, lines = {}, {}
  for env, rows in evaluations.items():
    title = f'return of fresh agents: {env}'
    panels[title] = {'trained η': rows}
    first = [row['final_return'] for row in rows if row['iteration'] == 0]
    initial, _ = metrics.mean_and_band(np.asarray(first, float))
    lines[title] = {'initial η': float(initial)}
    if env in baselines:
      lines[title][baseline_name] = baselines[env]
  limits = {
    title: showing.return_range(env)
    for title, env in zip(panels, evaluations, strict=True)
  }
  return plots.grid(panels, 'final_return', lines, limits=limits)
