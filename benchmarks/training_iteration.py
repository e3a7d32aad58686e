"""How long a whole training iteration takes, and how much memory it needs.

Act, store, sample, learn, in the published setting on Catch. Units are
explained in `units.py`; they are measured between chunks of iterations.

  python -m benchmarks.training_iteration --rule disco_103 --json results.json
"""

import argparse
import resource
import time

import jax
import numpy as np

from benchmarks import units
from disco_rl import agent
from disco_rl import evaluation
from disco_rl import rule_params
from disco_rl.environments import registry


def benchmark(
  rule: str | None, chunk: int, num_chunks: int
) -> dict[str, float]:
  """Trains for a while, and measures.

  Args:
    rule: name or path of η, None for random η: the time is the same.
    chunk: iterations per compiled program.
    num_chunks: how many chunks to measure.

  Returns:
    Units and milliseconds of an iteration (medians), seconds until the first
    chunk was done, and the process's peak memory.
  """
  config = evaluation.Config()
  env = registry.get_environment('catch', config.num_envs)
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=agent.get_settings_disco(),
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)
  if rule is None:
    eta, _ = an_agent.update_rule.init_params(rng)
  else:
    eta = rule_params.load(rule)
  experiment = evaluation.Experiment(an_agent, env, config)
  state = experiment.init(rng)
  start = time.perf_counter()
  state, _ = experiment.run(eta, state, chunk)
  first_chunk_seconds = time.perf_counter() - start
  # Learning begins when the replay holds a batch.
  while int(state.iteration) * config.num_envs < config.first_fill:
    state, _ = experiment.run(eta, state, chunk)

  unit = units.make_unit()
  unit_seconds, iteration_seconds = [], []
  for _ in range(num_chunks):
    unit_seconds += [unit() for _ in range(5)]
    start = time.perf_counter()
    state, _ = experiment.run(eta, state, chunk)
    iteration_seconds.append((time.perf_counter() - start) / chunk)
  unit_seconds += [unit() for _ in range(5)]
  milliseconds = 1e3 * float(np.median(iteration_seconds))
  unit_milliseconds = 1e3 * float(np.median(unit_seconds))
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return dict(
    chunk=chunk,
    units=milliseconds / unit_milliseconds,
    milliseconds=milliseconds,
    unit_milliseconds=unit_milliseconds,
    first_chunk_seconds=first_chunk_seconds,
    peak_memory_mb=peak / 1e3,
  )


def main() -> None:
  """Prints a table, and writes it as JSON if asked to."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--rule', help='name or path; random without it')
  parser.add_argument('--chunk', type=int, default=20)
  parser.add_argument('--chunks', type=int, default=8)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if arguments.chunk < 1 or arguments.chunks < 1:
    parser.error('--chunk and --chunks must be at least 1')
  result = benchmark(arguments.rule, arguments.chunk, arguments.chunks)
  units.report([result], arguments.json)


if __name__ == '__main__':
  main()
