"""Measures the time and memory of a whole training iteration.

An iteration acts, stores, samples and learns, in the published setting on
Catch. Units are defined in `units.py`; they are measured between chunks of
iterations.

  python -m benchmarks.training_iteration --rule disco_103 --json results.json
"""

import argparse
import resource
import time

import jax
import numpy as np

from benchmarks import units
from disco_rl import agent
from disco_rl.cli import huge_pages
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.rule_zoo import file_format


def benchmark(
  rule: str | None, chunk: int, num_chunks: int, num_seeds: int = 1
) -> dict[str, float]:
  """Times chunks of training iterations.

  Args:
    rule: name or path of η; None for random η, which takes the same time.
    chunk: iterations per compiled program.
    num_chunks: how many chunks to measure.
    num_seeds: number of agents, trained in one program.

  Returns:
    Units and milliseconds of an iteration of one agent (medians), seconds until
    the first chunk was done, and the process's peak memory.
  """
  batching = batching_lib.Batching()
  population = population_lib.Population(
    registry.environment_fn('catch'),
    agent.get_settings_disco(),
    batching,
    seeds=range(num_seeds),
  )
  if rule is None:
    init_params = population.agent.update_rule.init_params
    eta, _ = init_params(jax.random.PRNGKey(0))
  else:
    eta = file_format.load(rule)
  state = population.init()
  start = time.perf_counter()
  state, _ = population.run(eta, state, chunk)
  first_chunk_seconds = time.perf_counter() - start
  # Learning starts when the replay holds a batch.
  while int(state.iteration) < batching.num_warm_up:
    state, _ = population.run(eta, state, chunk)

  unit = units.make_unit()
  unit_seconds, iteration_seconds = [], []
  for _ in range(num_chunks):
    unit_seconds += [unit() for _ in range(5)]
    start = time.perf_counter()
    state, _ = population.run(eta, state, chunk)
    iteration_seconds.append((time.perf_counter() - start) / chunk / num_seeds)
  unit_seconds += [unit() for _ in range(5)]
  milliseconds = 1e3 * float(np.median(iteration_seconds))
  unit_milliseconds = 1e3 * float(np.median(unit_seconds))
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return dict(
    chunk=chunk,
    seeds=num_seeds,
    units=milliseconds / unit_milliseconds,
    milliseconds=milliseconds,
    unit_milliseconds=unit_milliseconds,
    first_chunk_seconds=first_chunk_seconds,
    peak_memory_mb=peak / 1e3,
  )


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--rule', help='name or path; random without it')
  parser.add_argument('--chunk', type=int, default=20)
  parser.add_argument('--chunks', type=int, default=8)
  parser.add_argument('--seeds', type=int, default=1)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if min(arguments.chunk, arguments.chunks, arguments.seeds) < 1:
    parser.error('--chunk, --chunks and --seeds must be at least 1')
  result = benchmark(
    arguments.rule, arguments.chunk, arguments.chunks, arguments.seeds
  )
  units.report([result], arguments.json)


if __name__ == '__main__':
  huge_pages.restart()
  main()
