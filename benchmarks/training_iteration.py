"""Measures the time and memory of a whole training iteration.

An iteration acts, stores, samples and learns, in the published setting on
Catch. Chunks of iterations are alternated with plain learner steps
(`benchmarks/naive`) of the same sizes. Units are defined in `units.py`.

  python -m benchmarks.training_iteration --json results.json
"""

import argparse
import resource
import time
from typing import Any

import jax

from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib


def benchmark(
  chunk: int,
  num_chunks: int,
  num_seeds: int = 1,
  *,
  size: str = 'published',
  batch_size: int = 64,
) -> dict[str, Any]:
  """Times chunks of training iterations.

  Args:
    chunk: iterations per compiled program.
    num_chunks: how many chunks to measure.
    num_seeds: number of agents, trained in one program.
    size: one of `sizes.NAMES`.
    batch_size: B of the learner.

  Returns:
    A row of `table.py` for an iteration of one agent; the baseline is a plain
    learner step. Among the details are the seconds until the first chunk was
    done, and the process's peak memory before the baseline was compiled.
  """
  settings = sizes.agent_settings(size)
  batching = batching_lib.Batching(batch_size=batch_size)
  population = population_lib.Population(
    registry.environment_fn('catch'),
    settings,
    batching,
    seeds=range(num_seeds),
  )
  eta, _ = population.agent.update_rule.init_params(jax.random.PRNGKey(0))
  state = population.init()
  start = time.perf_counter()
  state, _ = population.run(eta, state, chunk)
  first_chunk_seconds = time.perf_counter() - start
  # Learning starts when the replay holds a batch.
  while int(state.iteration) < batching.num_warm_up:
    state, _ = population.run(eta, state, chunk)
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

  def measure() -> float:
    nonlocal state
    start = time.perf_counter()
    state, _ = population.run(eta, state, chunk)
    return (time.perf_counter() - start) / chunk / num_seeds

  problem = learner_programs.Problem(
    settings, 3, batching.rollout_length, batch_size
  )
  plain = learner_programs.Program('naive', problem)
  timings = units.alternate(
    {'plain': plain.measure, 'iteration': measure}, num_chunks
  )
  return table.row(
    'training iteration on Catch',
    timings['iteration'],
    baseline='plain learner step',
    gflop=problem.gflop,
    compile_seconds=first_chunk_seconds,
    note=f'{peak / 1e6:.2g} GB peak',
    chunk=chunk,
    seeds=num_seeds,
    peak_memory_mb=peak / 1e3,
  )


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--chunk', type=int, default=10)
  parser.add_argument('--chunks', type=int, default=10)
  parser.add_argument('--seeds', type=int, default=1)
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument('--batch', type=int, default=64)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  numbers = [arguments.chunk, arguments.chunks, arguments.seeds]
  if min(*numbers, arguments.batch) < 1:
    parser.error('all numbers must be at least 1')
  result = benchmark(
    arguments.chunk,
    arguments.chunks,
    arguments.seeds,
    size=arguments.size,
    batch_size=arguments.batch,
  )
  table.report([result], arguments.json)


if __name__ == '__main__':
  main()
