"""Accounts for the time of a program: where does every millisecond go?

It profiles learner steps and meta-updates. A profile has the operations of
every thread that starts them. At every moment, the time is divided equally
among the operations that are running, and added up by kind, so that the parts
sum to the time of a call:

  products      matrix products, with the softmax that XLA fuses into some
  element-wise  everything else that computes
  copies        copies, slices, broadcasts, concatenations
  between       no operation is running: calls, loops, waiting for a thread

The arithmetic limit is the products of the traced program (`arithmetic.py`) at
the speed of large products, measured in the same process. The number of busy
cores includes threads that help with an operation, which a profile does not
show.

  python -m benchmarks.account --actions 3 18 --json account.json
  python -m benchmarks.account --actions 3 --ways naive client summary
  python -m benchmarks.account --actions 3 --meta-updates published small
"""

import argparse
from collections.abc import Iterable
import re
import time
from typing import Any

from benchmarks import learner_programs
from benchmarks import meta_update
from benchmarks import profiles
from benchmarks import sizes
from benchmarks import table
from benchmarks import units

# Agents, inner updates and environments of a meta-update, by its size.
MEASURED_UPDATES = {'published': (2, 2, 32), 'small': (8, 4, 16)}

PARTS = ('products', 'element-wise', 'copies', 'between')

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


def times_of_parts(
  threads: Iterable[Iterable[tuple[str, float, float]]],
) -> dict[str, float]:
  """Divides time among the operations that are running.

  Args:
    threads: for each thread, its operations: their name, start and end.

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
  name: str, program: Any, gflop: float, num_calls: int = 10
) -> dict[str, Any]:
  """Profiles a program.

  Args:
    name: what it computes.
    program: its method `measure` runs it once and returns seconds.
    gflop: the arithmetic that it cannot avoid.
    num_calls: how many calls to profile.

  Returns:
    Milliseconds of a call by part, their total, the arithmetic limit, and the
    number of operations.
  """
  timing = units.alternate({name: program.measure}, num_calls, 2)[name]

  def measure() -> tuple[float, float]:
    busy = time.process_time()
    seconds = sum(program.measure() for _ in range(num_calls))
    return seconds, time.process_time() - busy

  (seconds, busy), threads = profiles.record(measure, 'tf_XLA')
  times = times_of_parts(threads)
  parts = {k: 1e-6 * x / num_calls for k, x in times.items()}
  total = 1e3 * seconds / num_calls
  parts['between'] = total - sum(parts.values())
  num_operations = sum(
    not _CONTAINERS.match(name) for events in threads for name, *_ in events
  )
  return {
    'program': name,
    'call_ms': 1e3 * timing.seconds,
    'profiled_ms': total,
    'limit_ms': 1e3 * timing.unit_seconds * gflop / units.UNIT_GFLOP,
    'busy_cores': busy / seconds,
    **parts,
    'operations': num_operations // num_calls,
  }


def learner_step(
  num_actions: int, size: str, num_calls: int, way: str = 'summary'
) -> dict[str, Any]:
  """Profiles learner steps.

  Args:
    num_actions: A.
    size: one of `sizes.NAMES`.
    num_calls: how many steps to profile.
    way: one of `learner_programs.WAYS`; the default is that of agents.

  Returns:
    See `account`.
  """
  problem = learner_programs.Problem(
    sizes.agent_settings(size), num_actions, num_steps=29, batch_size=64
  )
  program = learner_programs.Program(way, problem)
  name = f'learner step ({way}), {num_actions} actions'
  return account(name, program, problem.gflop, num_calls)


def meta_updates(size: str, num_calls: int) -> dict[str, Any]:
  """Profiles meta-updates, of the sizes that `benchmarks.all` measures.

  Args:
    size: one of `sizes.NAMES`.
    num_calls: how many meta-updates to profile.

  Returns:
    See `account`.
  """
  num_agents, num_updates, num_envs = MEASURED_UPDATES[size]
  program = meta_update.trainer_program(
    meta_update.agent_settings(size),
    num_agents,
    meta_update.config(num_updates, num_envs, num_steps=16),
  )
  name = f'{size} meta-update, {num_agents} agents, N = {num_updates}'
  return account(name, program, program.gflop, num_calls)


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--actions', type=int, nargs='*', default=[3, 18])
  parser.add_argument(
    '--ways',
    nargs='+',
    choices=learner_programs.WAYS,
    default=['summary'],
    help='of learner steps',
  )
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument(
    '--meta-updates', nargs='*', choices=sizes.NAMES, default=[]
  )
  parser.add_argument('--calls', type=int, default=10)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if min(*arguments.actions, arguments.calls, 1) < 1:
    parser.error('--actions and --calls must be at least 1')
  if not arguments.actions and not arguments.meta_updates:
    parser.error('nothing to do without --actions and --meta-updates')
  rows = [
    learner_step(number, arguments.size, arguments.calls, way)
    for number in arguments.actions
    for way in arguments.ways
  ]
  rows += [meta_updates(x, arguments.calls) for x in arguments.meta_updates]
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
