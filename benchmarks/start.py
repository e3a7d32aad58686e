"""Measures how long commands take to start, in fresh processes.

`disco-rl --help` is alternated with a Python that does nothing. For `disco-rl
eval`, the time from the start of the process to the end of the first iteration
is measured, and how much of it is not spent in tracing and compilation; nothing
is read from the compilation cache.

  python -m benchmarks.start --json results.json
"""

import argparse
from collections.abc import Sequence
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax

from benchmarks import table
from benchmarks import units
from disco_rl.cli import main as main_module
from disco_rl.evaluation import population as population_lib
from disco_rl.runs import files

_HELP = ('-m', 'disco_rl.cli.main', '--help')
_NOTHING = ('-c', 'pass')
# Chunks of one iteration, of which the first 31 only fill the replay.
_EVAL = ('eval', '--steps', '32', '--set', 'chunk_size=1')
# A batch of 4 from 2 environments.
_TINY = ('--set', 'batching.batch_size=4', '--set', 'batching.num_envs=2')


def benchmark(num_rounds: int, tiny: bool = False) -> list[dict[str, Any]]:
  """Times the start of two commands.

  Args:
    num_rounds: how often to start each of them.
    tiny: whether to evaluate with a small batch.

  Returns:
    Rows of `table.py`: the help, the first iteration, and the first iteration
    without tracing and compilation.
  """
  timings = units.alternate(
    dict(python=lambda: _seconds(_NOTHING), help=lambda: _seconds(_HELP)),
    num_rounds,
  )
  rows = [
    table.row(
      'start: disco-rl --help', timings['help'], baseline='python -c pass'
    )
  ]
  words = [*_EVAL, *(_TINY if tiny else ())]
  starts: list[dict[str, float]] = []

  def start_eval() -> float:
    starts.append(_first_iteration(words))
    return starts[-1]['total_seconds']

  # The warm-up round reads files from the disk.
  num_starts = max(1, num_rounds // 4)
  timing = units.alternate({'eval': start_eval}, num_starts)['eval']
  counted = starts[1:]
  middle = sorted(counted, key=lambda x: x['rest_seconds'])[len(counted) // 2]
  compile_seconds = middle['compile_seconds']
  rows += [
    table.row(
      'start: disco-rl eval, first iteration',
      timing,
      compile_seconds=compile_seconds,
    ),
    table.row(
      'start: the same without compilation',
      timing._replace(seconds=middle['rest_seconds']),
      compile_seconds=compile_seconds,
      total_seconds=middle['total_seconds'],
    ),
  ]
  return rows


def _seconds(words: Sequence[str]) -> float:
  """Runs Python with arguments in a fresh process; returns its seconds."""
  start = time.perf_counter()
  subprocess.run(
    [sys.executable, *words], check=True, stdout=subprocess.DEVNULL
  )
  return time.perf_counter() - start


def _first_iteration(words: Sequence[str]) -> dict[str, float]:
  """Runs a command in a fresh process until its first iteration is done."""
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'probe.json'
    out = str(pathlib.Path(folder) / 'run')
    start = time.time()
    subprocess.run(
      [sys.executable, '-m', 'benchmarks.start', '--probe', str(path), '--']
      + [*words, '--out', out],
      check=True,
      env={**os.environ, 'DISCO_RL_COMPILATION_CACHE': 'off'},
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
    )
    probe = json.loads(path.read_text())
  total = probe['first_iteration_at'] - start
  return dict(
    total_seconds=total,
    compile_seconds=probe['compile_seconds'],
    rest_seconds=total - probe['compile_seconds'],
  )


def _probe(path: str, words: Sequence[str]) -> int:
  """Runs a command in this process, and writes when it was doing what."""
  intervals: list[tuple[float, float]] = []

  def listen(event: str, duration_secs: float, **_: Any) -> None:
    if event.startswith('/jax/core/compile/'):
      end = time.time()
      intervals.append((end - duration_secs, end))

  jax.monitoring.register_event_duration_secs_listener(listen)
  run = population_lib.Population.run

  def run_once(self: Any, *args: Any, **kwargs: Any) -> Any:
    result = run(self, *args, **kwargs)
    jax.block_until_ready(result[1])
    done = time.time()
    # Only of the first call.
    population_lib.Population.run = run  # type: ignore[method-assign]
    content = dict(
      first_iteration_at=done, compile_seconds=covered_seconds(intervals)
    )
    with files.atomic_writer(path) as file:
      file.write(json.dumps(content).encode())
    return result

  population_lib.Population.run = run_once  # type: ignore[method-assign]
  return main_module.main(words)


def covered_seconds(intervals: Sequence[tuple[float, float]]) -> float:
  """Returns the length of a union of intervals, which may be nested."""
  covered, last_end = 0.0, float('-inf')
  for start, end in sorted(intervals):
    covered += max(0.0, end - max(start, last_end))
    last_end = max(last_end, end)
  return covered


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--rounds', type=int, default=9)
  parser.add_argument('--tiny', action='store_true', help='a small batch')
  parser.add_argument('--json', help='file to write the results to')
  parser.add_argument('--probe', metavar='FILE', help=argparse.SUPPRESS)
  parser.add_argument('words', nargs='*', help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.probe:
    sys.exit(_probe(arguments.probe, arguments.words))
  if arguments.rounds < 1:
    parser.error('--rounds must be at least 1')
  table.report(benchmark(arguments.rounds, arguments.tiny), arguments.json)


if __name__ == '__main__':
  main()
