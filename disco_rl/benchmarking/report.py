"""Tables and pictures of a benchmark.

scores.csv               one line per rule, task and seed
aggregates.csv           statistics of normalised scores, with intervals
table.md                 both, for readers
curves.png               learning curves, one panel per task
profiles.png             performance profiles
sample_efficiency.png    interquartile mean over the budget
"""

from collections.abc import Sequence
import csv
import io
from typing import Any

import numpy as np

from disco_rl.benchmarking import campaign as campaign_lib
from disco_rl.benchmarking import scores
from disco_rl.benchmarking import statistics
from disco_rl.environments import showing
from disco_rl.runs import metrics
from disco_rl.runs import plots

_FRACTIONS = np.arange(1, 21) / 20
_NUM_THRESHOLDS = 41
_DIVERGED = 'diverged'


def write(result: Any, campaign: campaign_lib.Campaign) -> None:
  """Writes all tables and, with matplotlib, all pictures.

  Args:
    result: a `benchmark.Benchmark`.
    campaign: its folder.
  """
  campaign.write('scores.csv', _to_csv(score_lines(result)))
  campaign.write('table.md', markdown(result))
  if result.anchors is not None:
    campaign.write('aggregates.csv', _to_csv(aggregate_lines(result)))
  if not plots.is_available():
    return
  plots.save(curves(result), campaign.path / 'curves.png')
  if result.anchors is not None:
    plots.save(profiles(result), campaign.path / 'profiles.png')
    plots.save(sample_efficiency(result), campaign.path / _EFFICIENCY)


_EFFICIENCY = 'sample_efficiency.png'


def score_lines(result: Any) -> list[dict[str, Any]]:
  """Returns one line per rule, task and seed.

  Args:
    result: a `benchmark.Benchmark`.

  Returns:
    Lines with `rule`, `task`, `seed`, `iterations`, `env_steps`, `episodes` of
    the last iterations, `return`, `score` (normalised; None without anchors)
    and `note`.
  """
  kept = {}
  if result.anchors is not None:
    tasks, _ = scores.kept_tasks(result.suite, result.anchors)
    kept = {task.name: task for task in tasks}
  lines = []
  for rule in result.rules:
    for task in result.suite.tasks:
      outcome = result.outcomes[rule, task.name]
      for seed, value in zip(
        result.seeds, outcome.returns(result.seeds), strict=True
      ):
        note = ''
        if not np.isfinite(value):
          note = 'no episode ended'
        if seed in outcome.diverged:
          note = f'{_DIVERGED}: {outcome.diverged[seed]}'
        score = None
        if task.name in kept:
          score = float(scores.normalize(value, task, result.anchors))
        lines.append(
          dict(
            rule=rule,
            task=task.name,
            seed=seed,
            iterations=outcome.steps,
            env_steps=outcome.steps * task.batching.env_steps,
            **{'return': float(value) if np.isfinite(value) else None},
            score=score,
            note=note,
          )
        )
  return lines


def aggregate_lines(result: Any) -> list[dict[str, Any]]:
  """Returns statistics of normalised scores, with 95% intervals over seeds.

  Args:
    result: a `benchmark.Benchmark` with anchors.

  Returns:
    Lines with `rule`, `statistic`, `other` (the rule it is compared with; empty
    for none), `value`, `low` and `high`.
  """
  by_rule = {rule: result.normalized(rule) for rule in result.rules}
  if not len(next(iter(by_rule.values()))):
    return []
  lines = []

  def add(
    rule: str, name: str, found: statistics.Estimate, other: str = ''
  ) -> None:
    numbers = {
      key: float(x) if np.isfinite(x) else None
      for key, x in found._asdict().items()
    }
    lines.append(dict(rule=rule, statistic=name, other=other, **numbers))

  for rule, own in by_rule.items():
    iqm = statistics.estimate(statistics.interquartile_mean, own)
    add(rule, 'interquartile mean', iqm)
    add(rule, 'mean', statistics.estimate(statistics.mean, own))
  for rule, own in by_rule.items():
    for other, theirs in by_rule.items():
      if other != rule:
        found = statistics.estimate(
          statistics.probability_of_improvement, own, theirs
        )
        add(rule, 'probability of improvement', found, other)
  return lines


def markdown(result: Any) -> str:
  """Returns the tables of all results, in Markdown.

  Args:
    result: a `benchmark.Benchmark`.
  """
  tasks = result.suite.tasks
  text = [
    f'# Benchmark `{result.suite.name}`\n',
    f'Average return over the last {metrics.LAST} iterations, mean of '
    f'{len(result.seeds)} seed{"s" * (len(result.seeds) > 1)} '
    f'({", ".join(map(str, result.seeds))}) with a 95% confidence interval.\n',
    _table(
      ['task', 'iterations', 'environment steps', *result.rules],
      [
        [
          task.name,
          f'{task.steps}',
          f'{task.env_steps}',
          *(_mean(result, rule, task.name) for rule in result.rules),
        ]
        for task in tasks
      ],
    ),
  ]
  text += _aggregates(result)
  notes = [*result.notes]
  for (rule, task), outcome in result.outcomes.items():
    for seed, reason in outcome.diverged.items():
      notes.append(
        f'{rule} in {task}, seed {seed}, diverged and counts as random: '
        f'{reason}'
      )
  notes += [
    f'{n} was removed: {why}' for n, why in result.suite.removed.items()
  ]
  text += [f'- {note}' for note in notes]
  return '\n'.join(text) + '\n'


def _aggregates(result: Any) -> list[str]:
  """Returns the part of the text on normalised scores."""
  if result.anchors is None:
    return [f'- {scores.no_anchors_reason(result.suite)}']
  kept, left_out = scores.kept_tasks(result.suite, result.anchors)
  text = [f'- {name} has no scores: {why}' for name, why in left_out.items()]
  if not kept:
    return text
  lines = aggregate_lines(result)
  names = ['interquartile mean', 'mean']
  found = {(x['rule'], x['statistic'], x['other']): x for x in lines}
  text.append(
    f'\nScores normalised by anchors (0: random policy; 1: best tuned '
    f'hand-designed rule at four times the budget), over {len(kept)} tasks, '
    'with 95% intervals of a bootstrap over seeds within each task.\n'
  )
  text.append(
    _table(
      ['rule', *names],
      [
        [rule, *(_interval(found[rule, name, '']) for name in names)]
        for rule in result.rules
      ],
    )
  )
  if len(result.rules) > 1:
    text.append('Probability that the rule of a line improves on a column.\n')
    name = 'probability of improvement'
    text.append(
      _table(
        ['rule', *result.rules],
        [
          [
            rule,
            *(
              '–' if rule == other else _interval(found[rule, name, other])
              for other in result.rules
            ),
          ]
          for rule in result.rules
        ],
      )
    )
  return text


def curves(result: Any) -> Any:
  """Draws the learning curves of all rules, one panel per task.

  Args:
    result: a `benchmark.Benchmark`.

  Returns:
    A matplotlib figure.
  """
  panels = {
    task.name: {
      rule: result.outcomes[rule, task.name].rows
      for rule in result.rules
      if result.outcomes[rule, task.name].rows
    }
    for task in result.suite.tasks
  }
  return plots.grid(
    panels,
    'average_return',
    x='env_steps',
    limits={
      task.name: showing.return_range(task.env) for task in result.suite.tasks
    },
    title=f'Learning curves in the suite {result.suite.name}',
  )


def profiles(result: Any) -> Any:
  """Draws performance profiles: the fraction of runs above each score.

  Args:
    result: a `benchmark.Benchmark` with anchors.

  Returns:
    A matplotlib figure.
  """
  by_rule = {rule: result.normalized(rule) for rule in result.rules}
  largest = max((x.max() for x in by_rule.values() if x.size), default=1.0)
  thresholds = np.linspace(0.0, max(1.0, float(largest)), _NUM_THRESHOLDS)
  bands = {
    rule: (
      thresholds,
      statistics.estimate(
        lambda x: statistics.fractions_above(x, thresholds), own
      ),
    )
    for rule, own in by_rule.items()
    if own.size
  }
  return plots.bands(
    bands,
    'normalised score (0: random, 1: best tuned rule)',
    'fraction of runs with a higher score',
    'How many runs exceed each score',
  )


def sample_efficiency(result: Any) -> Any:
  """Draws the interquartile mean over the budget.

  Args:
    result: a `benchmark.Benchmark` with anchors.

  Returns:
    A matplotlib figure.
  """
  kept, _ = scores.kept_tasks(result.suite, result.anchors)
  bands = {
    rule: (
      _FRACTIONS,
      statistics.estimate(
        statistics.interquartile_mean, result.normalized_at(rule, _FRACTIONS)
      ),
    )
    for rule in (result.rules if kept else ())
  }
  return plots.bands(
    bands,
    'fraction of the environment steps of each task',
    'interquartile mean of normalised scores',
    'Scores during training',
  )


def _mean(result: Any, rule: str, task: str) -> str:
  """Returns a mean with its interval, and how many runs it lacks."""
  values = result.outcomes[rule, task].returns(result.seeds)
  num_missing = int(np.sum(~np.isfinite(values)))
  if num_missing == len(values):
    return 'none'
  mean, band = map(float, metrics.mean_and_band(values))
  text = f'{mean:.3f}' if np.isnan(band) else f'{mean:.3f} ± {band:.3f}'
  return f'{text} ({num_missing} missing)' if num_missing else text


def _interval(line: dict[str, Any]) -> str:
  if line['low'] is None:
    return f'{line["value"]:.3f}'
  return f'{line["value"]:.3f} ({line["low"]:.3f} to {line["high"]:.3f})'


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
  """Returns a table in Markdown."""
  rows = [header, ['---'] * len(header), *lines]
  return '\n'.join(f'| {" | ".join(row)} |' for row in rows) + '\n'


def _to_csv(lines: Sequence[dict[str, Any]]) -> str:
  """Returns the text of a CSV file; None becomes an empty field."""
  text = io.StringIO()
  if lines:
    writer = csv.DictWriter(text, list(lines[0]), lineterminator='\n')
    writer.writeheader()
    writer.writerows(lines)
  return text.getvalue()
