"""Measures the time of one learner step, in units of matrix products.

Units are defined in `units.py`. Units and steps are measured alternately, so
that other load on the machine slows both equally.

  python -m benchmarks.learner_step --rule disco_103 --json results.json
"""

import argparse
import time
from typing import Any

from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import units
from disco_rl import agent
from disco_rl import types
from disco_rl.cli import huge_pages
from disco_rl.rule_zoo import file_format


def random_rollout(
  rng: jax.Array, num_steps: int, batch_size: int, num_actions: int
) -> types.ActorRollout:
  """Makes random experience of the sizes of Catch 8x8, with any A."""
  keys = jax.random.split(rng, 5)
  shape = (num_steps, batch_size)
  logits = jax.random.normal(keys[4], (*shape, num_actions))
  board = jax.random.bernoulli(keys[0], 2 / 64, (*shape, 8, 8, 1))
  return types.ActorRollout(
    observations=board.astype(jnp.float32),
    actions=jax.random.randint(keys[1], shape, 0, num_actions),
    rewards=jax.random.normal(keys[2], shape),
    discounts=jax.random.bernoulli(keys[3], 6 / 7, shape),
    agent_outs=dict(logits=logits),
    states={},
    logits=logits,
  )


def benchmark(
  rule: str | None, num_actions: int, num_rounds: int
) -> dict[str, float]:
  """Compiles and times the learner step of the reference setting.

  Args:
    rule: name or path of η; None for random η, which takes the same time.
    num_actions: A.
    num_rounds: how often to measure.

  Returns:
    Units and milliseconds (medians), seconds of compilation, megabytes of
    temporaries, and the arithmetic as a fraction of what matrix products do in
    the same time.
  """
  spec = types.ArraySpec((8, 8, 1), jnp.float32)
  an_agent = agent.Agent(
    single_observation_spec={'observation': spec},
    single_action_spec=dm_env_specs.BoundedArray(
      (), np.int32, 0, num_actions - 1
    ),
    agent_settings=agent.get_settings_disco(),
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)
  if rule is None:
    eta, _ = an_agent.update_rule.init_params(rng)
  else:
    eta = file_format.load(rule)
  state = an_agent.initial_learner_state(rng)
  rollout = random_rollout(rng, 29, 64, num_actions)

  def learner_step(eta: Any, rollout: Any, state: Any) -> Any:
    state, _, log = an_agent.learner_step(rng, rollout, state, {}, eta, False)
    return state, log

  start = time.perf_counter()
  compiled = (
    jax.jit(learner_step, donate_argnums=2).lower(eta, rollout, state).compile()
  )
  compile_seconds = time.perf_counter() - start

  unit = units.make_unit()
  unit_seconds, steps = [], []
  for _ in range(num_rounds):
    unit_seconds.append(unit())
    start = time.perf_counter()
    state, log = compiled(eta, rollout, state)
    jax.block_until_ready((state, log))
    steps.append(time.perf_counter() - start)
  step_seconds = float(np.median(steps[2:]))
  unit_median = float(np.median(unit_seconds[2:]))
  memory: Any = compiled.memory_analysis()
  costs: Any = compiled.cost_analysis()
  # XLA counts the body of a loop once, so the rule's small LSTMs are missing.
  gflop = costs['flops'] / 1e9
  return dict(
    num_actions=num_actions,
    units=step_seconds / unit_median,
    milliseconds=1e3 * step_seconds,
    unit_milliseconds=1e3 * unit_median,
    compile_seconds=compile_seconds,
    temporaries_mb=memory.temp_size_in_bytes / 1e6,
    gflop=gflop,
    share_of_limit=gflop / (units.UNIT_GFLOP * step_seconds / unit_median),
  )


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--rule', help='name or path; random without it')
  parser.add_argument('--actions', type=int, nargs='+', default=[3, 18])
  parser.add_argument('--rounds', type=int, default=20)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if arguments.rounds < 3:
    parser.error('--rounds must be at least 3: the first two do not count')
  results = [
    benchmark(arguments.rule, num_actions, arguments.rounds)
    for num_actions in arguments.actions
  ]
  units.report(results, arguments.json)


if __name__ == '__main__':
  huge_pages.restart()
  main()
