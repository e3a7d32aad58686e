"""Accounts for the time of a learner step: where does every millisecond go?

A profile of the program has the operations of every thread that starts them. At
every moment, the time is divided equally among the operations that are running,
and added up by kind, so that the parts sum to the time of a step:

  products      matrix products, with the softmax that XLA fuses into some
  element-wise  everything else that computes
  copies        copies, slices, broadcasts, concatenations
  between       no operation is running: calls, loops, waiting for a thread

The arithmetic limit is that of `arithmetic.py` at the speed of large products,
measured in the same process. The number of busy cores includes threads that
help with an operation, which a profile does not show.

  python -m benchmarks.step_account --actions 3 18 --json account.json
"""

import argparse
from collections.abc import Iterable
import pathlib
import re
import tempfile
import time
from typing import Any

import jax

from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units

PARTS = ('products', 'element-wise', 'copies', 'between')

# An operation: its name, start and end.
_Event = tuple[str, float, float]

_PRODUCTS = re.compile(r'(wrapped_)?dot|ynn|onednn')
_COPIES = re.compile(
  r'(wrapped_)?(copy|slice|dynamic|broadcast|concatenate|pad|transpose|iota)'
  r'[-_\w]*'
)
_COMPUTING = re.compile(
  r'add|subtract|multiply|divide|exp|log|tanh|sqrt|reduce|max|select|compare'
)
# Operations that only contain others, and functions of the profiled library.
_CONTAINERS = re.compile(r'.*::|while|conditional|call|end:')


def part_of(name: str) -> str:
  """Returns the part of `PARTS` that an operation belongs to."""
  if _PRODUCTS.match(name):
    return 'products'
  if _COPIES.match(name) and not _COMPUTING.search(name):
    return 'copies'
  return 'element-wise'


def times_of_parts(threads: Iterable[Iterable[_Event]]) -> dict[str, float]:
  """Divides time among the operations that are running.

  Args:
    threads: for each thread, its operations.

  Returns:
    Time by part, without `'between'`, in the unit of the events.
  """
  changes = []
  for thread, events in enumerate(threads):
    for index, (name, start, end) in enumerate(events):
      if not _CONTAINERS.match(name) and end > start:
        changes.append((start, 1, (thread, index), name))
        changes.append((end, 0, (thread, index), name))
  times = dict.fromkeys(PARTS[:-1], 0.0)
  running: dict[tuple[int, int], str] = {}
  before = 0.0
  for moment, is_start, key, name in sorted(changes):
    for other in running.values():
      times[part_of(other)] += (moment - before) / len(running)
    before = moment
    if is_start:
      running[key] = name
    else:
      del running[key]
  return times


def account(
  num_actions: int, size: str = 'published', num_calls: int = 10
) -> dict[str, Any]:
  """Profiles learner steps.

  Args:
    num_actions: A.
    size: one of `sizes.NAMES`.
    num_calls: how many steps to profile.

  Returns:
    Milliseconds by part, with their total, and the arithmetic limit.
  """
  problem = learner_programs.Problem(
    sizes.agent_settings(size), num_actions, num_steps=29, batch_size=64
  )
  program = learner_programs.Program('summary', problem)
  timing = units.alternate({'step': program.measure}, num_calls, 2)['step']
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
      busy = time.process_time()
      seconds = sum(program.measure() for _ in range(num_calls))
      busy = time.process_time() - busy
    (path,) = pathlib.Path(folder).rglob('*.xplane.pb')
    profile = jax.profiler.ProfileData.from_file(str(path))
  lines = [
    [(e.name, e.start_ns, e.start_ns + e.duration_ns) for e in line.events]
    for plane in profile.planes
    for line in plane.lines
    if line.name.startswith('tf_XLA')  # Others are of Python.
  ]
  times = times_of_parts(lines)
  parts = {k: 1e-6 * x / num_calls for k, x in times.items()}
  total = 1e3 * seconds / num_calls
  parts['between'] = total - sum(parts.values())
  limit = 1e3 * timing.unit_seconds * problem.gflop / units.UNIT_GFLOP
  return {
    'actions': num_actions,
    'step_ms': 1e3 * timing.seconds,
    'profiled_ms': total,
    'limit_ms': limit,
    'busy_cores': busy / seconds,
    **parts,
  }


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--actions', type=int, nargs='+', default=[3, 18])
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument('--calls', type=int, default=10)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if min(*arguments.actions, arguments.calls) < 1:
    parser.error('--actions and --calls must be at least 1')
  rows = [
    account(number, arguments.size, arguments.calls)
    for number in arguments.actions
  ]
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
