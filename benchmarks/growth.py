"""Measures how times grow with sizes, and draws one small plot for each size.

A learner step is measured for several numbers of actions, batch sizes and
lengths of trajectories; a meta-update for several numbers of agents, of inner
updates and of simulated devices. Plain programs (`benchmarks/naive`) alternate
with them where there are any. Each size has a process of its own, simulated
devices one for each number. Takes about twenty minutes on 2 cores.

  python -m benchmarks.growth --json growth.json --png growth.png
  python -m benchmarks.growth --from-json growth.json --png growth.png
"""

import argparse
from collections.abc import Sequence
import dataclasses
import sys
from typing import Any

from benchmarks import growth_plot
from benchmarks import sections
from benchmarks import table


@dataclasses.dataclass(frozen=True)
class Sweep:
  """Benchmarks that differ in one size.

  Attributes:
    quantity: name of the size, the label of its axis.
    detail: the entry of a row's details that has the size.
    work: what is measured, the title of its plot.
    sections: the benchmarks, see `sections.run`.
  """

  quantity: str
  detail: str
  work: str
  sections: tuple[str, ...]


_STEP = 'learner_step --ways naive summary --rounds 9'
_UPDATE = 'meta_update --rounds 5'
_BOTH = '--modes naive default'
SWEEPS = (
  Sweep(
    'actions',
    'num_actions',
    'learner step',
    (f'{_STEP} --actions 3 6 18',),
  ),
  Sweep(
    'trajectories in a batch',
    'batch_size',
    'learner step',
    (f'{_STEP} --actions 3 --batch 16 32 64 128',),
  ),
  Sweep(
    'steps of a trajectory',
    'num_steps',
    'learner step',
    (f'{_STEP} --actions 3 --steps 8 15 29 58',),
  ),
  Sweep(
    'agents',
    'num_agents',
    'meta-update, N = 2',
    (f'{_UPDATE} --agents 1 2 4 8 --inner 2 {_BOTH}',),
  ),
  Sweep(
    'inner updates N',
    'num_inner_updates',
    'meta-update, 1 agent',
    (
      f'{_UPDATE} --agents 1 --inner 1 2 4 8 {_BOTH}',
      # The plain one would need several gigabytes here.
      f'{_UPDATE} --agents 1 --inner 20',
    ),
  ),
  Sweep(
    'simulated devices',
    'num_devices',
    'meta-update, 2 agents, N = 2',
    tuple(
      f'{_UPDATE} --agents 2 --inner 2 --devices {n}' for n in (1, 2, 4, 8)
    ),
  ),
)

_TINY_STEP = 'learner_step --size small --rounds 1 --ways naive summary'
_TINY_UPDATE = 'meta_update --size small --rounds 1 --inner 1 --steps 3'
# The same at sizes that only show that everything runs.
TINY_SWEEPS = (
  Sweep(
    'actions',
    'num_actions',
    'learner step',
    (f'{_TINY_STEP} --batch 2 --steps 4 --actions 2 3',),
  ),
  Sweep(
    'simulated devices',
    'num_devices',
    'meta-update',
    tuple(f'{_TINY_UPDATE} --agents 1 --envs 2 --devices {n}' for n in (1, 2)),
  ),
)


def benchmark(
  sweeps: Sequence[Sweep],
) -> tuple[list[dict[str, Any]], list[str]]:
  """Runs all benchmarks of all sweeps.

  Args:
    sweeps: see `Sweep`.

  Returns:
    Rows of `table.py`, whose details have the `quantity`, its `value` and the
    `work`; and the sections that failed.
  """
  rows, failed = [], []
  for sweep in sweeps:
    new_rows, new_failed = sections.run(sweep.sections)
    for row in new_rows:
      row['details'].update(
        quantity=sweep.quantity,
        value=row['details'][sweep.detail],
        work=sweep.work,
      )
    rows += new_rows
    failed += new_failed
  return rows, failed


def main() -> int:
  """Measures and draws; returns 1 if a benchmark failed, else 0."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--json', help='file to write the results to')
  parser.add_argument('--png', help='file to draw the plots to')
  parser.add_argument(
    '--from-json', metavar='FILE', help='draw earlier results, measure nothing'
  )
  parser.add_argument(
    '--tiny', action='store_true', help='sizes that only show that it runs'
  )
  arguments = parser.parse_args()
  failed: list[str] = []
  if arguments.from_json:
    rows = table.read(arguments.from_json)
  else:
    rows, failed = benchmark(TINY_SWEEPS if arguments.tiny else SWEEPS)
  if rows and not arguments.from_json:
    table.report(rows, arguments.json)
  if rows and arguments.png:
    growth_plot.draw(rows, arguments.png)
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
