"""Tables of a rule's evaluations in meta-training, and scores from them.

For every environment of its evaluations, a run of meta-training writes

```text
evaluations_ENV.csv   returns of fresh agents, one row per evaluation and
                      seed; those of the initial η are at meta-update 0
baseline_ENV.csv      the same for a hand-designed rule, evaluated once
```
"""

import collections
from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

import numpy as np

from disco_rl.runs import metrics
from disco_rl.runs import run_files

# The columns of both tables.
COLUMNS = ('iteration', 'seed', 'final_return')
# Fraction of the larger of two returns below which differences are noise.
_LEAST_SCALE = 0.1


def evaluations_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Returns the path of a run's evaluations in an environment."""
  return folder / f'evaluations_{run_files.as_file_name(env)}.csv'


def baseline_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Returns the path of a run's baseline in an environment."""
  return folder / f'baseline_{run_files.as_file_name(env)}.csv'


def mean_return(returns: Sequence[float]) -> float:
  """Averages returns, without those that are NaN; NaN if all are."""
  known = [value for value in returns if np.isfinite(value)]
  return float(np.mean(known)) if known else float('nan')


def returns_by_update(
  rows: Sequence[Mapping[str, float]],
) -> dict[int, float]:
  """Averages every evaluation over seeds; returns meta-update to average."""
  by_update: dict[int, list[float]] = {}
  for row in rows:
    by_update.setdefault(int(row['iteration']), []).append(row['final_return'])
  return {done: mean_return(x) for done, x in sorted(by_update.items())}


def normalized_score(value: float, initial: float, baseline: float) -> float:
  """Normalises a return, to compare environments.

  The score is `(value − initial) / scale`: 0 for the initial η, and 1 for a
  baseline that is better. The scale is `|baseline − initial|`, but at least a
  tenth of the larger of the two in absolute value, so that noise is not
  amplified if they are close; and 1 if that is 0. If only one of the two is
  known, it takes the place of both; if neither is, the score is the value.

  Args:
    value: average return of fresh agents.
    initial: average return with the initial η; NaN if not known.
    baseline: average return with the baseline; NaN if not known.

  Returns:
    The score; NaN if the value is.
  """
  known = [x for x in (initial, baseline) if np.isfinite(x)]
  if not known:
    return value
  distance = abs(known[-1] - known[0])
  scale = max(distance, _LEAST_SCALE * max(map(abs, known)))
  return (value - known[0]) / (scale or 1.0)


def environments(config: Mapping[str, Any]) -> list[str]:
  """Returns the environments of a run's evaluations.

  Args:
    config: contents of the run's `config.json`.

  Returns:
    Their names.
  """
  request = config['request']
  return list(request.get('eval_env') or request['env'])


def read(folder: pathlib.Path, env: str) -> tuple[list[metrics.Row], float]:
  """Reads the evaluations of a run in an environment.

  Args:
    folder: folder of the run.
    env: the environment's name.

  Returns:
    The table of `evaluations_ENV.csv`, and the average return of the baseline,
    NaN if there is none.

  Raises:
    UnreadableFileError: if a file is not such a table.
  """
  rows = metrics.read_csv(evaluations_path(folder, env), COLUMNS)
  baseline = metrics.read_csv(baseline_path(folder, env), COLUMNS)
  return rows, mean_return([row['final_return'] for row in baseline])


def evaluated(folder: pathlib.Path, envs: Sequence[str]) -> set[int]:
  """Returns the meta-updates with rows in the tables of all environments."""
  tables = (read(folder, env)[0] for env in envs)
  updates = ({int(row['iteration']) for row in rows} for rows in tables)
  return set.intersection(*updates)


def first_missing(
  rows: Sequence[Mapping[str, float]], done: int, every: int, num_seeds: int
) -> int | None:
  """Returns the first meta-update whose evaluation is not complete.

  Args:
    rows: the table of `evaluations_ENV.csv`.
    done: meta-updates done; without any row, its evaluation is still to come.
    every: meta-updates between two evaluations.
    num_seeds: rows of an evaluation.

  Returns:
    The meta-update; None if nothing is missing.
  """
  counts = collections.Counter(int(row['iteration']) for row in rows)
  due = {*range(0, done, every), *(n for n in counts if n <= done)}
  return min((n for n in due if counts[n] < num_seeds), default=None)


def scores(folder: pathlib.Path, envs: Sequence[str]) -> dict[int, float]:
  """Computes the score of the rule at every evaluation of a run.

  Args:
    folder: folder of the run.
    envs: the environments of its evaluations.

  Returns:
    Meta-update to the average of `normalized_score` over environments.
    Environments in which no agent ever ended an episode are left out; an
    evaluation that has no return in another environment has no score.
  """
  tables = []
  for env in envs:
    rows, baseline = read(folder, env)
    values = returns_by_update(rows)
    if not np.isfinite([*values.values(), baseline]).any():
      continue
    initial = values.get(0, float('nan'))
    tables.append(
      {
        done: normalized_score(value, initial, baseline)
        for done, value in values.items()
      }
    )
  if not tables:
    return {}
  complete = set.intersection(*map(set, tables))
  means = {
    done: float(np.mean([table[done] for table in tables]))
    for done in sorted(complete)
  }
  return {done: mean for done, mean in means.items() if np.isfinite(mean)}
