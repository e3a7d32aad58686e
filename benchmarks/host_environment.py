"""Measures training in an environment on the host, and its parts alone.

An iteration acts for 29 steps in 64 streams and takes one learner step. It is
alternated with the steps of the environment and the learner step alone: what it
takes on top of those two is the cost of acting and of the loop.

  python -m benchmarks.host_environment --env gym:CartPole-v1 --json out.json
"""

import argparse
from collections.abc import Callable
import time
from typing import Any

import jax
import numpy as np

from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units
from disco_rl import agent as agent_lib
from disco_rl.config import batching as batching_lib
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib

_PARTS = 'environment + learner'


def benchmark(
  name: str,
  num_rounds: int,
  *,
  num_envs: int = 64,
  num_steps: int = 29,
  chunk: int = 5,
  overlap_acting: bool = False,
  size: str = 'published',
) -> list[dict[str, Any]]:
  """Times iterations, and their parts alone.

  Args:
    name: name of an environment on the host, with one array as observation.
    num_rounds: how often to measure.
    num_envs: number of streams, and batch size of the learner.
    num_steps: steps of a trajectory.
    chunk: iterations per call of the training loop.
    overlap_acting: whether to measure iterations in which acting and learning
      overlap, too.
    size: one of `sizes.NAMES`.

  Returns:
    Rows of `table.py`, each for one iteration: the whole, and its parts alone.
  """
  settings = sizes.agent_settings(size)
  env = registry.get_environment(name, num_envs)
  (observation,) = jax.tree.leaves(env.single_observation_spec())
  num_actions = int(env.single_action_spec().maximum) + 1
  problem = learner_programs.Problem(
    settings, num_actions, num_steps, num_envs, observation.shape
  )
  learner = learner_programs.Program('summary', problem)
  step_environment = _make_environment_steps(env, num_actions, num_steps)
  ways = {'iteration': False}
  if overlap_acting:
    ways['iteration, overlapped'] = True
  populations = {
    way: population_lib.Population(
      registry.environment_fn(name),
      settings,
      batching_lib.Batching(
        batch_size=num_envs, rollout_length=num_steps, num_envs=num_envs
      ),
      overlap_acting=overlap,
    )
    for way, overlap in ways.items()
  }
  measures = {
    _PARTS: lambda: step_environment() + learner.measure(),
    **{
      way: _make_iteration(population, problem.eta, chunk)
      for way, population in populations.items()
    },
    'environment alone': step_environment,
    'learner step alone': learner.measure,
    'acting network alone': _make_acting(problem.agent, env, num_steps),
  }
  timings = units.alternate(measures, num_rounds)
  for population in populations.values():
    population.close()
  env.close()
  return [
    table.row(
      f'{name}, {num_envs} streams: {part}',
      timing,
      baseline=_PARTS if part in ways else None,
      note=_on_top(timing) if part in ways else None,
      part=part,
      num_envs=num_envs,
      num_steps=num_steps,
    )
    for part, timing in timings.items()
    if part != _PARTS
  ]


def _on_top(timing: units.Timing) -> str:
  return f'{100 * (timing.ratio - 1):+.0f}% on top'


def _make_environment_steps(
  env: base.Environment, num_actions: int, num_steps: int
) -> Callable[[], float]:
  """Makes a function that times one rollout with random actions."""
  states, _ = env.reset(jax.random.PRNGKey(0))
  actions = np.random.RandomState(0).randint(
    num_actions, size=(num_steps, env.batch_size), dtype=np.int32
  )

  def measure() -> float:
    nonlocal states
    start = time.perf_counter()
    for action in actions:
      states, _ = env.step(states, action)
    return time.perf_counter() - start

  return measure


def _make_iteration(
  population: population_lib.Population, eta: Any, chunk: int
) -> Callable[[], float]:
  """Makes a function that times an iteration of training."""
  state = population.init()

  def measure() -> float:
    nonlocal state
    start = time.perf_counter()
    state, _ = population.run(eta, state, chunk)
    return (time.perf_counter() - start) / chunk

  return measure


def _make_acting(
  an_agent: agent_lib.Agent, env: base.Environment, num_steps: int
) -> Callable[[], float]:
  """Makes a function that times the choice of all actions of one rollout."""
  rng = jax.random.PRNGKey(0)
  params = an_agent.initial_learner_state(rng).params
  net_state = an_agent.initial_actor_state(rng, env.batch_size)
  _, timestep = env.reset(rng)
  act = jax.jit(
    lambda params, rng, timestep: (
      an_agent.actor_step(params, rng, timestep, net_state)[0].actions
    )
  )
  keys = np.asarray(jax.random.split(rng, num_steps))

  def measure() -> float:
    start = time.perf_counter()
    for key in keys:
      np.asarray(act(params, key, timestep))
    return time.perf_counter() - start

  return measure


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--env', default='gym:CartPole-v1')
  parser.add_argument('--streams', type=int, default=64)
  parser.add_argument('--steps', type=int, default=29, help='of a trajectory')
  parser.add_argument('--chunk', type=int, default=5)
  parser.add_argument(
    '--overlap', action='store_true', help='also overlap acting and learning'
  )
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument('--rounds', type=int, default=6)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  numbers = [arguments.streams, arguments.chunk, arguments.rounds]
  if min(numbers) < 1 or arguments.steps < 2:
    parser.error('--steps must be at least 2, and all others at least 1')
  rows = benchmark(
    arguments.env,
    arguments.rounds,
    num_envs=arguments.streams,
    num_steps=arguments.steps,
    chunk=arguments.chunk,
    overlap_acting=arguments.overlap,
    size=arguments.size,
  )
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
