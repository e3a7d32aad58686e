"""Accounts for the time of a learner step: where does every millisecond go?

A profile of the program has the operations of every thread. Their times,
without those of the operations inside them, are added up by kind and averaged
over the cores, so that the parts sum to the time of a step:

  products      matrix products, with the softmax that XLA fuses into some
  element-wise  everything else that computes
  copies        copies, slices, broadcasts, concatenations
  scheduling    starting operations, waiting for another thread
  idle          no operation on this core, e.g. at the ends of operations that
                cannot be divided evenly, and between calls

The arithmetic limit is that of `arithmetic.py` at the speed of large products,
measured in the same process.

  python -m benchmarks.step_account --actions 3 18 --json account.json
"""

import argparse
import collections
from collections.abc import Iterable
import os
import pathlib
import re
import tempfile
from typing import Any

import jax

from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units

PARTS = ('products', 'element-wise', 'copies', 'scheduling', 'idle')

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
_SCHEDULING = re.compile(
  r'ThunkExecutor|while|conditional|call|SlinkyThread|end:'
)


def part_of(name: str) -> str:
  """Returns the part of `PARTS` that an operation belongs to."""
  if _SCHEDULING.match(name):
    return 'scheduling'
  if _PRODUCTS.match(name):
    return 'products'
  if _COPIES.match(name) and not _COMPUTING.search(name):
    return 'copies'
  return 'element-wise'


def exclusive_times(events: Iterable[_Event]) -> dict[str, float]:
  """Adds up the times of operations, without the operations inside them.

  Args:
    events: the operations of one thread, properly nested.

  Returns:
    Name to time, in the unit of the events.
  """
  times: dict[str, float] = collections.defaultdict(float)
  open_events: list[_Event] = []
  for event in sorted(events, key=lambda x: (x[1], -x[2])):
    name, start, end = event
    while open_events and open_events[-1][2] <= start:
      open_events.pop()
    times[name] += end - start
    if open_events:
      times[open_events[-1][0]] -= min(end, open_events[-1][2]) - start
    open_events.append(event)
  return dict(times)


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
      seconds = sum(program.measure() for _ in range(num_calls))
    (path,) = pathlib.Path(folder).rglob('*.xplane.pb')
    profile = jax.profiler.ProfileData.from_file(str(path))
  num_cores = len(os.sched_getaffinity(0))
  parts = dict.fromkeys(PARTS, 0.0)
  for plane in profile.planes:
    for line in plane.lines:
      if not line.name.startswith('tf_XLA'):
        continue  # Of Python.
      times = exclusive_times(
        (e.name, e.start_ns, e.start_ns + e.duration_ns)
        for e in line.events
        # The main thread waits for the others.
        if 'wait for completion' not in e.name
      )
      for name, nanoseconds in times.items():
        parts[part_of(name)] += 1e-6 * nanoseconds / num_calls / num_cores
  total = 1e3 * seconds / num_calls
  parts['idle'] = total - sum(parts.values())
  limit = 1e3 * timing.unit_seconds * problem.gflop / units.UNIT_GFLOP
  return {
    'actions': num_actions,
    'step_ms': 1e3 * timing.seconds,
    'profiled_ms': total,
    'limit_ms': limit,
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
