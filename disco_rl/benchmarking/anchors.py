"""Computes the anchors of a suite: random = 0, the best tuned rule = 1.

The best is that of several tuned hand-designed rules, each trained for four
times the budget on seeds that are used for nothing else.
"""

from collections.abc import Mapping, Sequence
import os
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl import schema
from disco_rl.benchmarking import campaign as campaign_lib
from disco_rl.benchmarking import cells as cells_lib
from disco_rl.benchmarking import random_policy
from disco_rl.benchmarking import rows
from disco_rl.benchmarking import scores
from disco_rl.benchmarking import suites
from disco_rl.benchmarking import tuning
from disco_rl.environments import registry
from disco_rl.runs import metrics

KIND = 'anchors'
FIRST_SEED = 2000
DEFAULT_SEEDS = 3
BUDGET_FACTOR = 4


def compute(
  rules: Sequence[str],
  suite: str | suites.Suite = 'small',
  *,
  tuned: str | os.PathLike[str] | Mapping[str, Any] | None = None,
  out: str | os.PathLike[str],
  num_seeds: int = DEFAULT_SEEDS,
  resume: bool = False,
  show_progress: bool = False,
) -> dict[str, Any] | None:
  """Computes the anchors of a suite, and writes `anchors.json`.

  Args:
    rules: names of tuned hand-designed rules.
    suite: name of the suite, or a suite.
    tuned: results of `tuning.tune`, or their file; None for those that are
      shipped with the library.
    out: folder for all runs and the result.
    num_seeds: seeds per rule, from `FIRST_SEED` on.
    resume: whether to resume the computation in `out`.
    show_progress: whether to show a progress bar.

  Returns:
    The contents of `anchors.json`; None if a command was interrupted.

  Raises:
    ValueError: if an argument is not valid, or the folder of another purpose.
  """
  fields.check_path('out', out)
  suite = suites.get_suite(suite)
  if not resume:
    campaign_lib.check_free(out)
  tuning.check_rules(rules)
  seeds = tuple(
    FIRST_SEED + k for k in range(schema.check('num_seeds', num_seeds))
  )
  found = scores.read('tuned', suite, tuned)
  names = [x if rows.parse(x)[1] else f'{x}@{rows.TUNED}' for x in rules]
  tuning.check_rules(names)
  recorded = campaign_lib.read_spec(out)['rules'] if resume else {}
  made = [rows.make(x, suite, found, recorded.get(x)) for x in names]
  table = {
    (row.name, task.name): cells_lib.Cell(
      f'{row.name}-{task.name}',
      row.rule,
      task,
      seeds,
      BUDGET_FACTOR * task.steps,
      row.settings[task.name],
    )
    for row in made
    for task in suite.tasks
  }
  cells_lib.check_names(list(table.values()))
  for cell in table.values():
    cell.plan()  # All settings are checked before anything is written.
  spec = dict(
    kind=KIND,
    suite=suite.name,
    suite_tasks={task.name: task.to_plain() for task in suite.tasks},
    rules={row.name: row.to_plain() for row in made},
    seeds=list(seeds),
    budget_factor=BUDGET_FACTOR,
  )
  campaign = campaign_lib.open_folder(out, spec, resume=resume)
  if not campaign.run(list(table.values()), show_progress=show_progress):
    return None
  tasks = {}
  for task in suite.tasks:
    returns = {}
    for row in made:
      cell = table[row.name, task.name]
      outcome = scores.Outcome(
        campaign.rows(cell), campaign.diverged(cell), cell.steps
      )
      returns[row.name] = outcome.returns(seeds)
    tasks[task.name] = anchor(_random_returns(task), returns)
  result = {**campaign.spec, 'tasks': tasks}
  campaign.write_json('anchors.json', result)
  return result


def anchor(
  random: np.ndarray, returns: Mapping[str, np.ndarray]
) -> dict[str, Any]:
  """Computes the anchors of one task.

  Args:
    random: [N], returns of a random policy.
    returns: name of a rule to its final returns, [S], NaN if it diverged.

  Returns:
    `random` and `best`, the averages, with the half-widths of their 95%
    intervals; `best_rule`; and `is_told_apart`, whether the averages differ by
    more than both half-widths together. With one seed, its own counts as 0.
  """
  mean, band = map(float, metrics.mean_and_band(random))
  # A rule with a run that diverged is not taken.
  averages = {
    name: float(np.mean(values))
    for name, values in returns.items()
    if np.isfinite(values).all()
  }
  best_rule = max(averages, key=lambda name: averages[name], default=None)
  best, best_band = float('nan'), 0.0
  if best_rule is not None:
    best = averages[best_rule]
    own = float(metrics.mean_and_band(returns[best_rule])[1])
    best_band = own if np.isfinite(own) else 0.0
  return dict(
    random=mean,
    random_band=band,
    random_episodes=len(random),
    best=best if np.isfinite(best) else None,
    best_band=best_band,
    best_rule=best_rule,
    returns={
      name: [float(x) if np.isfinite(x) else None for x in values]
      for name, values in returns.items()
    },
    is_told_apart=bool(best - mean > band + best_band),
  )


def _random_returns(task: suites.Task) -> np.ndarray:
  env = registry.environment_fn(task.env, **task.env_settings)
  return random_policy.returns(env, seed=FIRST_SEED)
