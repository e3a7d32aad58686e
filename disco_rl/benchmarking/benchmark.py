"""The benchmark in one call: trains rules × tasks × seeds, and compares them.

```python
result = disco_rl.benchmark(['disco_103', 'ppo@tuned'], 'small', out='runs/b')
print(result.table())
```

The same is done by `disco-rl benchmark`. See docs/benchmark.md.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl.benchmarking import campaign as campaign_lib
from disco_rl.benchmarking import cells as cells_lib
from disco_rl.benchmarking import report
from disco_rl.benchmarking import rows as rows_lib
from disco_rl.benchmarking import scores
from disco_rl.benchmarking import suites
from disco_rl.benchmarking import tuning
from disco_rl.config import arguments
from disco_rl.runs import trackers

KIND = 'benchmark'


@dataclasses.dataclass(frozen=True)
class Benchmark:
  """The result of a benchmark.

  Attributes:
    suite: the suite.
    rules: names of the rows.
    seeds: the seeds.
    outcomes: (rule, task) to the results of a cell.
    anchors: the anchors of the suite; None if there are none.
    notes: sentences on what is missing.
  """

  suite: suites.Suite
  rules: tuple[str, ...]
  seeds: tuple[int, ...]
  outcomes: Mapping[tuple[str, str], scores.Outcome]
  anchors: Mapping[str, Any] | None
  notes: tuple[str, ...] = ()

  def returns(self, rule: str) -> np.ndarray:
    """Returns the final returns of a rule, [T, S].

    Args:
      rule: name of its row.

    Returns:
      [T, S] for T tasks and S seeds; NaN for runs that count as random.
    """
    return np.asarray(
      [
        self.outcomes[rule, task.name].returns(self.seeds)
        for task in self.suite.tasks
      ]
    )

  def normalized(self, rule: str) -> np.ndarray:
    """Returns the normalised scores of a rule, [T, S].

    Args:
      rule: name of its row.

    Returns:
      [T, S] for the T tasks in which random and best policy can be told apart.

    Raises:
      ValueError: if the suite has no anchors.
    """
    anchors = self._checked_anchors()
    kept, _ = scores.kept_tasks(self.suite, anchors)
    return np.asarray(
      [
        scores.normalize(
          self.outcomes[rule, task.name].returns(self.seeds), task, anchors
        )
        for task in kept
      ]
    ).reshape(len(kept), len(self.seeds))

  def normalized_at(self, rule: str, fractions: np.ndarray) -> np.ndarray:
    """Returns normalised scores at fractions of the budget, [N, T, S].

    Args:
      rule: name of its row.
      fractions: [N], increasing, above 0 and at most 1.

    Returns:
      [N, T, S], see `normalized`; 0 before the first episode has ended.

    Raises:
      ValueError: if the suite has no anchors.
    """
    anchors = self._checked_anchors()
    kept, _ = scores.kept_tasks(self.suite, anchors)
    by_task = [
      scores.normalize(
        self.outcomes[rule, task.name].returns_at(self.seeds, fractions),
        task,
        anchors,
      )
      for task in kept
    ]
    return np.stack(by_task, axis=1)

  def table(self) -> str:
    """Returns the tables of all results, in Markdown."""
    return report.markdown(self)

  def _checked_anchors(self) -> Mapping[str, Any]:
    if self.anchors is None:
      raise ValueError(scores.no_anchors_reason(self.suite))
    return self.anchors


def benchmark(
  rules: Sequence[str],
  suite: str | suites.Suite = 'small',
  *,
  out: str | os.PathLike[str],
  seeds: int | Sequence[int] = 5,
  tuned: str | os.PathLike[str] | Mapping[str, Any] | None = None,
  anchors: str | os.PathLike[str] | Mapping[str, Any] | None = None,
  num_env_steps: int | None = None,
  resume: bool = False,
  track: Sequence[str | trackers.Make] = (),
  show_progress: bool = False,
) -> Benchmark:
  """Trains fresh agents with several rules in all tasks, and compares them.

  Args:
    rules: texts of rows, see `benchmarking.rows`: names or files of rules, with
      `@tuned` or `@one` for tuned settings. Rules whose file is not on this
      machine are left out.
    suite: name of the suite (`'small'`, `'minatar'`), or a suite.
    out: folder for all runs and the results.
    seeds: number of seeds, from 0 on; or the seeds.
    tuned: tuned settings, or their file; None for those of the suite.
    anchors: anchors for normalised scores, or their file; None for those of the
      suite.
    num_env_steps: the budget of every task in environment steps of one agent,
      rounded up to whole iterations; None for those of the suite.
    resume: whether to resume the benchmark in `out`. There may be more rules
      than in the first call, and other anchors; all else must be the same.
    track: trackers of the rows of every cell, see `runs.trackers`.
    show_progress: whether to show a progress bar.

  Returns:
    The results, which are also written to `out`.

  Raises:
    ValueError: if an argument is not valid, or the folder of another purpose.
    KeyboardInterrupt: after Ctrl-C, when all is saved.
  """
  arguments.check_flag('show_progress', show_progress)
  job = Job(
    rules,
    suite,
    out=out,
    seeds=seeds,
    tuned=tuned,
    anchors=anchors,
    num_env_steps=num_env_steps,
    resume=resume,
    track=track,
  )
  if not job.run(show_progress=show_progress):
    raise KeyboardInterrupt
  return job.finish()


class Job:
  """A benchmark that is checked, and ready to be run; see `benchmark`.

  Attributes:
    suite: the suite.
    notes: sentences on what is left out.
    num_done: how many cells were finished before.
    cells: (rule, task) to the cell.
  """

  def __init__(
    self,
    rules: Sequence[str],
    suite: str | suites.Suite = 'small',
    *,
    out: str | os.PathLike[str],
    seeds: int | Sequence[int] = 5,
    tuned: Any = None,
    anchors: Any = None,
    num_env_steps: int | None = None,
    resume: bool = False,
    track: Sequence[str | trackers.Make] = (),
  ):
    """Checks everything, and makes or opens the folder; see `benchmark`."""
    arguments.check_flag('resume', resume)
    fields.check_path('out', out)
    tuning.check_rules(rules)
    self._track = trackers.find(track)
    self.suite = suites.with_budget(suites.get_suite(suite), num_env_steps)
    self._seeds = tuning.reported_seeds(seeds)
    if not resume:
      campaign_lib.check_free(out)
    found = scores.read('tuned', self.suite, tuned)
    missing = {name: rows_lib.missing_reason(name) for name in rules}
    self.notes = [reason for reason in missing.values() if reason is not None]
    before = campaign_lib.read_spec(out) if resume else {}
    recorded = before.get('rules', {})
    if anchors is None and before.get('suite') == self.suite.name:
      anchors = before.get('anchors')
    self._anchors = scores.read('anchors', self.suite, anchors)
    rows = [
      rows_lib.make(name, self.suite, found, recorded.get(name))
      for name in rules
      if missing[name] is None
    ]
    if not rows:
      raise ValueError(f'no rule is left (--rules): {"; ".join(self.notes)}')
    self.cells = {
      (row.name, task.name): cells_lib.Cell(
        f'{row.name}-{task.name}',
        row.rule,
        task,
        self._seeds,
        task.steps,
        row.settings[task.name],
      )
      for row in rows
      for task in self.suite.tasks
    }
    self._rules = tuple(row.name for row in rows)
    cells_lib.check_names(list(self.cells.values()))
    for cell in self.cells.values():
      cell.plan()  # All settings are checked before anything is written.
    spec = dict(
      kind=KIND,
      suite=self.suite.name,
      suite_tasks={t.name: t.to_plain() for t in self.suite.tasks},
      rules={row.name: row.to_plain() for row in rows},
      seeds=list(self._seeds),
      env_steps=num_env_steps,
      anchors=self._anchors,
    )
    self._campaign = campaign_lib.open_folder(out, spec, resume=resume)
    self.num_done = sum(map(self._campaign.is_finished, self.cells.values()))

  def run(self, *, show_progress: bool = False) -> bool:
    """Runs all cells that are not finished; see `Campaign.run`."""
    cells = list(self.cells.values())
    return self._campaign.run(
      cells, show_progress=show_progress, track=self._track
    )

  def finish(self) -> Benchmark:
    """Collects the results of all cells, and writes tables and pictures."""
    result = Benchmark(
      suite=self.suite,
      rules=self._rules,
      seeds=self._seeds,
      outcomes={
        key: scores.Outcome(
          self._campaign.rows(cell), self._campaign.diverged(cell), cell.steps
        )
        for key, cell in self.cells.items()
      },
      anchors=self._anchors,
      notes=tuple(self.notes),
    )
    report.write(result, self._campaign)
    return result
