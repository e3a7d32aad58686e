"""Measures the time of one learner step, in several ways that are alternated.

The first way is a plain one (`benchmarks/naive`), and all others are compared
with it. Units are defined in `units.py`, the arithmetic limit in
`arithmetic.py`.

  python -m benchmarks.learner_step --actions 3 18 --json results.json
"""

import argparse
from collections.abc import Sequence
import itertools
from typing import Any

from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units

_LABELS = {
  'naive': 'plain',
  'client': 'bare rule in jax.grad',
  'unroll': 'make_learner, unroll function',
  'whole': 'make_learner, whole outputs',
  'summary': 'agent',
}


def benchmark(
  num_actions: int,
  num_rounds: int,
  *,
  num_steps: int = 29,
  batch_size: int = 64,
  settings: Any = None,
  ways: Sequence[str] = tuple(learner_programs.WAYS),
) -> list[dict[str, Any]]:
  """Compiles and times learner steps.

  Args:
    num_actions: A.
    num_rounds: how often to measure.
    num_steps: T+1.
    batch_size: B.
    settings: agent settings; None for the published ones.
    ways: keys of `learner_programs.WAYS`; all are compared with the first.

  Returns:
    A row of `table.py` for each way, with its `way` and `ratio_to_naive` (if
    `naive` is the first) among the details.
  """
  if settings is None:
    settings = sizes.agent_settings('published')
  problem = learner_programs.Problem(
    settings, num_actions, num_steps, batch_size
  )
  programs = {way: learner_programs.Program(way, problem) for way in ways}
  timings = units.alternate(
    {way: program.measure for way, program in programs.items()},
    num_rounds,
    num_warm_up=2,
  )
  name = f'learner step, {num_actions} actions'
  if (num_steps, batch_size) != (29, 64):
    name += f', {batch_size} x {num_steps} steps'
  return [
    table.row(
      f'{name}: {_LABELS[way]}',
      timings[way],
      baseline=_LABELS[ways[0]],
      gflop=problem.gflop,
      temporaries_mb=program.temporaries_mb,
      compile_seconds=program.compile_seconds,
      way=way,
      num_actions=num_actions,
      num_steps=num_steps,
      batch_size=batch_size,
      ratio_to_naive=timings[way].ratio if ways[0] == 'naive' else None,
      xla_gflop=program.xla_gflop,
    )
    for way, program in programs.items()
  ]


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--actions', type=int, nargs='+', default=[3, 18])
  parser.add_argument(
    '--steps', type=int, nargs='+', default=[29], help='of a trajectory'
  )
  parser.add_argument('--batch', type=int, nargs='+', default=[64])
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument(
    '--ways',
    nargs='+',
    choices=learner_programs.WAYS,
    default=list(learner_programs.WAYS),
    help='all are compared with the first',
  )
  parser.add_argument('--rounds', type=int, default=9)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if min(*arguments.actions, *arguments.batch, arguments.rounds) < 1:
    parser.error('--actions, --batch and --rounds must be at least 1')
  if min(arguments.steps) < 2:
    parser.error('--steps must be at least 2: an action needs a next step')
  rows = []
  for num_actions, batch_size, num_steps in itertools.product(
    arguments.actions, arguments.batch, arguments.steps
  ):
    rows += benchmark(
      num_actions,
      arguments.rounds,
      num_steps=num_steps,
      batch_size=batch_size,
      settings=sizes.agent_settings(arguments.size),
      ways=arguments.ways,
    )
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
