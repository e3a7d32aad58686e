"""Measures the speed of environments, and of overlapping acting with learning.

  python -m benchmarks.environments catch gym:CartPole-v1 atari:Pong
  python -m benchmarks.environments --train gym:CartPole-v1 --rule disco_103

Without `--train`: steps per second of a batch of streams with random actions,
on the device in one compiled loop, on the host in this process and in two
workers. With `--train`: training iterations per second, with and without
overlap of acting and learning.
"""

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import table
from disco_rl.config import batching as batching_lib
from disco_rl.config import resolve
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.rule_zoo import rule as rule_lib


def steps_per_second(env: base.Environment, num_steps: int) -> float:
  """Measures the steps of all streams per second, with random legal actions."""
  num_actions = env.single_action_spec().maximum + 1
  actions = np.random.RandomState(0).randint(
    num_actions, size=(num_steps, env.batch_size), dtype=np.int32
  )
  states, timestep = env.reset(jax.random.PRNGKey(0))
  mask = timestep.action_mask
  if env.is_jittable:

    @jax.jit
    def play(states: Any, mask: Any, actions: Any) -> Any:
      def step(carry: Any, action: Any) -> Any:
        states, timestep = env.step(carry[0], _legal(action, carry[1]))
        return (states, timestep.action_mask), timestep.reward

      return jax.lax.scan(step, (states, mask), actions)

    inputs = states, mask, jnp.asarray(actions)
    compiled = play.lower(*inputs).compile()
    start = time.perf_counter()
    jax.block_until_ready(compiled(*inputs))
  else:
    start = time.perf_counter()
    for action in actions:
      states, timestep = env.step(states, _legal(action, mask))
      mask = timestep.action_mask
  return num_steps * env.batch_size / (time.perf_counter() - start)


def _legal(actions: Any, mask: Any) -> Any:
  """Returns the first legal action from each of `actions` on, [B]."""
  if mask is None:
    return actions
  num_actions = mask.shape[1]
  distance = (np.arange(num_actions) - actions[:, None]) % num_actions
  return (distance + num_actions * ~mask).argmin(axis=1).astype(np.int32)


def benchmark_steps(
  name: str, batch_size: int, num_steps: int
) -> list[dict[str, Any]]:
  """Measures an environment, with and without workers if it can have them."""
  workers = [0, 2] if 'num_workers' in registry.default_settings(name) else [0]
  rows = []
  for num_workers in workers:
    settings = dict(num_workers=num_workers) if len(workers) > 1 else {}
    env = registry.get_environment(name, batch_size, **settings)
    rate = steps_per_second(env, num_steps)
    env.close()
    where = 'device' if env.is_jittable else 'host'
    rows.append(
      dict(
        environment=name,
        where=where,
        streams=batch_size,
        workers=num_workers,
        steps_per_second=rate,
      )
    )
  return rows


def benchmark_overlap(
  name: str, rule: str, num_iterations: int, **sizes: Any
) -> list[dict[str, Any]]:
  """Measures training iterations per second, with and without overlap."""
  loaded = rule_lib.load_rule(rule)
  batching = batching_lib.Batching(**sizes)
  rows = []
  for overlap in (False, True):
    population = population_lib.Population(
      registry.environment_fn(name),
      resolve.agent_settings(loaded, name),
      batching,
      devices=jax.devices()[:1],
      overlap_acting=overlap,
    )
    eta = loaded.eta or {}
    state = population.init()
    warm_up = batching.num_warm_up + 2
    state, _ = population.run(eta, state, warm_up)
    start = time.perf_counter()
    state, _ = population.run(eta, state, num_iterations)
    seconds = time.perf_counter() - start
    population.close()
    rows.append(
      dict(
        environment=name,
        rule=rule,
        overlap=overlap,
        iterations_per_second=num_iterations / seconds,
        env_steps_per_second=(num_iterations * batching.env_steps / seconds),
      )
    )
  return rows


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('names', nargs='+', help='environments')
  parser.add_argument('--train', action='store_true')
  parser.add_argument('--rule', default='actor_critic', help='with --train')
  parser.add_argument('--streams', type=int, default=32)
  parser.add_argument('--steps', type=int, default=1000)
  parser.add_argument('--iterations', type=int, default=40)
  parser.add_argument('--num-envs', type=int, default=2)
  parser.add_argument('--batch-size', type=int, default=64)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  rows = []
  for name in arguments.names:
    if arguments.train:
      rows += benchmark_overlap(
        name,
        arguments.rule,
        arguments.iterations,
        num_envs=arguments.num_envs,
        batch_size=arguments.batch_size,
      )
    else:
      rows += benchmark_steps(name, arguments.streams, arguments.steps)
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
