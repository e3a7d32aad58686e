"""Scores of finished cells: final returns, normalised by fixed anchors.

A run's score in a task is its average return over the episodes of the last 100
iterations. Normalised, it is 0 for a random policy and 1 for the best tuned
hand-designed rule at four times the budget. A run that diverged, or in which
no episode ended, counts as random.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl.benchmarking import suites
from disco_rl.runs import metrics
from disco_rl.runs import reading


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The results of one cell.

  Attributes:
    rows: rows of metrics of the seeds that did not diverge.
    diverged: seeds that did, to the reasons.
    steps: iterations of the cell.
  """

  rows: Sequence[metrics.Row]
  diverged: Mapping[int, str]
  steps: int

  def returns(self, seeds: Sequence[int]) -> np.ndarray:
    """Returns the average final return of each seed, [S].

    Args:
      seeds: the S seeds.

    Returns:
      [S], NaN for a run that counts as random.
    """
    found = metrics.average_returns(self.rows, metrics.LAST)
    return np.asarray([found.get(seed, np.nan) for seed in seeds])

  def returns_at(
    self, seeds: Sequence[int], fractions: np.ndarray
  ) -> np.ndarray:
    """Returns average returns at fractions of the budget, [N, S].

    Args:
      seeds: the S seeds.
      fractions: [N], increasing, above 0 and at most 1.

    Returns:
      [N, S], each over the iterations since the fraction before; NaN if no
      episode has ended until then, or the run diverged.
    """
    values = np.full((len(fractions), len(seeds)), np.nan)
    for k, seed in enumerate(seeds):
      own = [row for row in self.rows if row['seed'] == seed]
      first, last = 0.0, np.nan
      for n, fraction in enumerate(fractions * self.steps):
        part = [row for row in own if first < row['iteration'] <= fraction]
        mean = metrics.weighted_mean(
          [row['average_return'] for row in part],
          [row['episodes'] for row in part],
        )
        last = mean if np.isfinite(mean) else last
        values[n, k] = last
        first = fraction
    return values


def read(
  what: str,
  suite: suites.Suite,
  given: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> dict[str, Any] | None:
  """Reads the anchors or the tuned settings of a suite, and checks them.

  Args:
    what: `'anchors'` or `'tuned'`.
    suite: the suite.
    given: their file, or its contents; None for the file that is shipped with
      the library, if there is one.

  Returns:
    The contents; None if there are none.

  Raises:
    ValueError: if they cannot be read, or are those of other tasks.
  """
  where: Any = given
  if given is None:
    where = suites.data_file(suite.name, what)
    if not where.is_file():
      return None
  content = where
  if not isinstance(where, Mapping):
    if given is not None:
      fields.check_path(what, where)
    try:
      content = reading.read_json(where)
    except reading.UnreadableFileError as error:
      raise ValueError(
        f'cannot read {what} from {os.fspath(where)}: {error}'
      ) from None
  label = 'the given mapping' if where is content else os.fspath(where)
  if content.get('kind') != what:
    raise ValueError(
      f'{label} has no {what} of a suite: they are written by disco-rl '
      f'benchmark {"--anchors" if what == "anchors" else "--tune"}'
    )
  recorded = content.get('suite_tasks')
  for task in suite.tasks:
    is_same = isinstance(recorded, Mapping) and (
      recorded.get(task.name) == task.to_plain()
    )
    if not is_same:
      raise ValueError(
        f'{label} has {what} of another setting of the task {task.name} in the '
        f'suite {suite.name}: compute them again'
      )
  try:
    _CHECKS[what](content, suite)
  except (AttributeError, KeyError, TypeError, ValueError):
    raise ValueError(
      f'{label} has {what} that are not complete: it was changed'
    ) from None
  return dict(content)


def _check_anchors(content: Mapping[str, Any], suite: suites.Suite) -> None:
  """Raises some error for anchors that are not complete."""
  for task in suite.tasks:
    own = content['tasks'][task.name]
    needed = [own['random']]
    if own['is_told_apart']:
      needed.append(own['best'])
      if not own['best'] > own['random']:
        raise ValueError
    if not np.isfinite(needed).all():
      raise ValueError


def _check_tuned(content: Mapping[str, Any], suite: suites.Suite) -> None:
  """Raises some error for tuned settings that are not complete."""
  for rule in content['rules'].values():
    for own in (rule['one'], *(rule['tasks'][x.name] for x in suite.tasks)):
      own['settings'].items()


_CHECKS = {'anchors': _check_anchors, 'tuned': _check_tuned}


def no_anchors_reason(suite: suites.Suite) -> str:
  """Returns a sentence on missing anchors."""
  return (
    f'normalised scores need anchors of the suite {suite.name}, and none are '
    f'stored: compute them with disco-rl benchmark --anchors --suite '
    f'{suite.name} --tuned FILE --out DIR, and give the file (--anchors-file '
    'FILE; in Python: anchors=...)'
  )


def kept_tasks(
  suite: suites.Suite, anchors: Mapping[str, Any]
) -> tuple[list[suites.Task], dict[str, str]]:
  """Separates the tasks that can be normalised from all others.

  Args:
    suite: the suite.
    anchors: its anchors.

  Returns:
    The tasks, and the names of the others, to the reasons.
  """
  kept, left_out = [], {}
  for task in suite.tasks:
    own = anchors['tasks'][task.name]
    if own['is_told_apart']:
      kept.append(task)
    else:
      best = 'diverged' if own['best'] is None else f'{own["best"]:.3g}'
      left_out[task.name] = (
        f'a random policy ({own["random"]:.3g}) and the best tuned rule '
        f'({best}) cannot be told apart'
      )
  return kept, left_out


def normalize(
  returns: Any, task: suites.Task, anchors: Mapping[str, Any]
) -> np.ndarray:
  """Normalises returns in one task.

  Args:
    returns: [...], NaN for runs that count as random.
    task: the task, one of `kept_tasks`.
    anchors: the anchors of its suite.

  Returns:
    [...], the scores.
  """
  own = anchors['tasks'][task.name]
  scores = (np.asarray(returns) - own['random']) / (own['best'] - own['random'])
  return np.where(np.isfinite(scores), scores, 0.0)
