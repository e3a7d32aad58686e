"""Tunes rules on a suite: a grid of learning rates and entropy costs.

Every rule gets the same number of trials in every task, on seeds that are not
those of benchmarks. The result of a rule is the best setting of every task, and
the one setting that is best for all tasks together.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import itertools
import os
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl import schema
from disco_rl.benchmarking import campaign as campaign_lib
from disco_rl.benchmarking import cells as cells_lib
from disco_rl.benchmarking import rows
from disco_rl.benchmarking import scores
from disco_rl.benchmarking import suites
from disco_rl.config import agents
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib

KIND = 'tuned'
FIRST_SEED = 1000  # Benchmarks have seeds below this.
DEFAULT_TRIALS = 12
DEFAULT_SEEDS = 2
_LEARNING_RATES = (3e-4, 3e-2)
_ENTROPY_COSTS = (1e-3, 1e-1)
_LEARNING_RATE = 'agent.learning_rate'


def tune(
  rules: Sequence[str],
  suite: str | suites.Suite = 'small',
  *,
  out: str | os.PathLike[str],
  trials: int = DEFAULT_TRIALS,
  num_seeds: int = DEFAULT_SEEDS,
  resume: bool = False,
  show_progress: bool = False,
) -> dict[str, Any] | None:
  """Tunes rules on a suite, and writes `tuned.json`.

  Args:
    rules: texts of rules, see `rows.load`.
    suite: name of the suite, or a suite.
    out: folder for all runs and the result.
    trials: settings tried for each rule and task.
    num_seeds: seeds per trial, from `FIRST_SEED` on.
    resume: whether to resume the tuning in `out`.
    show_progress: whether to show a progress bar.

  Returns:
    The contents of `tuned.json`; None if a command was interrupted.

  Raises:
    ValueError: if an argument is not valid, or the folder of another purpose.
  """
  fields.check_path('out', out)
  suite = suites.get_suite(suite)
  trials = fields.check(
    fields.Field(int, low=1, limit=fields.MAX_LANES), 'trials', trials
  )
  seeds = tuple(
    FIRST_SEED + k for k in range(schema.check('num_seeds', num_seeds))
  )
  check_rules(rules)
  if not resume:
    campaign_lib.check_free(out)
  loaded = {name: rows.load(name) for name in rules}
  table = {
    (name, task.name): [
      cells_lib.Cell(
        f'{name}-{task.name}-{i}', rule, task, seeds, task.steps, settings
      )
      for i, settings in enumerate(grid(rule, trials))
    ]
    for name, rule in loaded.items()
    for task in suite.tasks
  }
  cells = list(itertools.chain(*table.values()))
  cells_lib.check_names(cells)
  for cell in cells:
    cell.plan()  # All settings are checked before anything is written.
  spec = dict(
    kind=KIND,
    suite=suite.name,
    suite_tasks={task.name: task.to_plain() for task in suite.tasks},
    rules={
      name: dict(eta=file_format.digest(rule.eta or {}))
      for name, rule in loaded.items()
    },
    trials=trials,
    seeds=list(seeds),
  )
  campaign = campaign_lib.open_folder(out, spec, resume=resume)
  if not campaign.run(cells, show_progress=show_progress):
    return None
  found = {
    name: _choose(
      {task.name: table[name, task.name] for task in suite.tasks}, campaign
    )
    for name in rules
  }
  result = {**campaign.spec, 'rules': found}
  campaign.write_json('tuned.json', result)
  return result


def check_rules(names: Sequence[str]) -> None:
  """Raises a `ValueError` unless there are rules, each once.

  Args:
    names: their texts.
  """
  is_list = isinstance(names, list | tuple) and all(
    isinstance(name, str) and name for name in names
  )
  if not is_list or not names:
    raise ValueError(
      'rules (--rules) must be one or more names or files of rules, got '
      f'{fields.shorten(names)}'
    )
  for name in names:
    if names.count(name) > 1:
      raise ValueError(
        f'the rule {name} is given twice (--rules): give it once'
      )


def grid(rule: rule_lib.Rule, trials: int) -> list[dict[str, float]]:
  """Makes the settings that are tried for a rule.

  Args:
    rule: the rule.
    trials: their number. If the rule has an entropy cost, it is divided into
      two factors that are as close as possible, the larger one for the
      learning rates; otherwise all of them are learning rates.

  Returns:
    Settings by path; each factor is spaced evenly on a logarithmic scale.
  """
  entropy = _entropy_path(rule)
  num_costs = 1
  if entropy is not None:
    divisors = (n for n in range(1, trials + 1) if trials % n == 0)
    num_costs = max(n for n in divisors if n * n <= trials)
  rates = _spaced(_LEARNING_RATES, trials // num_costs)
  if entropy is None:
    return [{_LEARNING_RATE: rate} for rate in rates]
  costs = _spaced(_ENTROPY_COSTS, num_costs)
  return [
    {_LEARNING_RATE: rate, entropy: cost} for rate in rates for cost in costs
  ]


def _entropy_path(rule: rule_lib.Rule) -> str | None:
  config = agents.for_rule(rule)
  for group in rule_lib.SETTINGS_GROUPS:
    if 'entropy_cost' in config[group]:
      return f'agent.{group}.entropy_cost'
  return None


def _spaced(limits: tuple[float, float], number: int) -> list[float]:
  """Returns numbers between limits; a single one is in the middle."""
  if number == 1:
    return [float(f'{np.sqrt(limits[0] * limits[1]):.3g}')]
  return [float(f'{x:.3g}') for x in np.geomspace(*limits, number)]


def _choose(
  cells: Mapping[str, Sequence[cells_lib.Cell]],
  campaign: campaign_lib.Campaign,
) -> dict[str, Any]:
  """Chooses the best settings of one rule.

  Args:
    cells: name of a task to the cells of all trials.
    campaign: their folder.

  Returns:
    `tasks`, task to the best `settings` with their `score`; `one`, those that
    are best for all tasks together; `trials`, all of them with their returns.
  """
  record: list[dict[str, Any]] = []
  relative, best = [], {}
  for name, trials in cells.items():
    means = []
    for cell in trials:
      outcome = scores.Outcome(
        campaign.rows(cell), campaign.diverged(cell), cell.steps
      )
      returns = outcome.returns(cell.seeds)
      record.append(
        dict(
          task=name,
          settings=dict(cell.settings),
          returns=[float(x) if np.isfinite(x) else None for x in returns],
          diverged=sorted(outcome.diverged),
        )
      )
      # With one seed that fails, a setting is not chosen unless all fail.
      means.append(float(np.mean(returns)))
    known = np.asarray(means)
    is_known = np.isfinite(known)
    finite = [x for x in means if np.isfinite(x)] or [0.0]
    low = min(finite)
    span = (max(finite) - low) or 1.0
    relative.append(np.where(is_known, (known - low) / span, 0.0))
    i = int(np.argmax(np.where(is_known, known, -np.inf)))
    best[name] = dict(
      settings=dict(trials[i].settings),
      score=means[i] if is_known[i] else None,
    )
  average = np.mean(relative, axis=0)  # [trials]
  i = int(np.argmax(average))
  first = next(iter(cells.values()))
  return dict(
    tasks=best,
    one=dict(settings=dict(first[i].settings), score=float(average[i])),
    trials=record,
  )


def reported_seeds(seeds: Any) -> tuple[int, ...]:
  """Checks the seeds of a benchmark, which are disjoint from those of tuning.

  Args:
    seeds: a number of seeds, from 0 on; or a list of seeds.

  Returns:
    The seeds.

  Raises:
    ValueError: if they are not valid, or not below `FIRST_SEED`.
  """
  if isinstance(seeds, bool) or not hasattr(seeds, '__iter__'):
    number = dataclasses.replace(schema.SCHEMA['num_seeds'], limit=FIRST_SEED)
    seeds = range(fields.check(number, 'seeds (--seeds)', seeds))
  checked = schema.check_as('seeds', 'seeds', list(seeds))
  if not checked or len(set(checked)) < len(checked):
    raise ValueError('seeds must be one or more different ones')
  if max(checked) >= FIRST_SEED:
    raise ValueError(
      f'seeds must be below {FIRST_SEED}, got {max(checked)}: later ones are '
      'for tuning and anchors'
    )
  return checked
