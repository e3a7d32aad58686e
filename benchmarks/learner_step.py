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
import optax

from benchmarks import units
from disco_rl import agent
from disco_rl import optimizers
from disco_rl import types
from disco_rl.cli import huge_pages
from disco_rl.learning import rule_inputs
from disco_rl.rule_zoo import file_format

# The ways to learn that are compared: what agents do (a summary of outputs per
# action), with whole outputs, and the bare rule in a program of one's own.
_WAYS = ('summary', 'whole', 'client')


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


class _Program:
  """A compiled learner step, and its agent's state.

  Attributes:
    compile_seconds: seconds of tracing and compilation.
    temporaries_mb: megabytes of temporaries.
    gflop: arithmetic of a step, the bodies of loops counted once.
  """

  def __init__(
    self, way: str, an_agent: agent.Agent, eta: Any, rollout: Any, rng: Any
  ):
    """Compiles one of `_WAYS`."""
    self._inputs = (eta, rollout)
    learner_state = an_agent.initial_learner_state(rng)
    if way == 'client':
      step, state = _client(an_agent, learner_state, rng)
    else:

      def step(eta: Any, rollout: Any, state: Any) -> Any:
        state, out = an_agent.learner.update(
          eta, state, rollout, rng, False, whole_outputs=way == 'whole'
        )
        return state, out.log

      state = learner_state
    self._state = state
    start = time.perf_counter()
    jitted = jax.jit(step, donate_argnums=2)
    self._compiled: Any = jitted.lower(eta, rollout, state).compile()
    self.compile_seconds = time.perf_counter() - start
    memory: Any = self._compiled.memory_analysis()
    costs: Any = self._compiled.cost_analysis()
    self.temporaries_mb = memory.temp_size_in_bytes / 1e6
    self.gflop = costs['flops'] / 1e9

  def measure(self) -> float:
    """Returns the seconds of one step."""
    start = time.perf_counter()
    self._state, _ = jax.block_until_ready(
      self._compiled(*self._inputs, self._state)
    )
    return time.perf_counter() - start


def _client(
  an_agent: agent.Agent, state: agent.LearnerState, rng: Any
) -> tuple[Any, Any]:
  """Makes a step with the bare rule inside `jax.grad`, and its state.

  That is how a program of one's own uses a rule, and how the published harness
  learns: outputs of all actions are computed and differentiated at once.
  """
  unroll = an_agent.unroll_net
  hyper_params = dict(an_agent.settings.hyper_params)
  optimizer = optimizers.agent_optimizer(an_agent.settings)

  def step(eta: Any, rollout: Any, state: Any) -> Any:
    params, opt_state, meta_state = state
    weights = rule_inputs.step_weights(rollout.discounts, None)

    def loss_fn(params: Any) -> Any:
      agent_out, _ = unroll(params, {}, rollout)
      loss, new_meta_state, log = an_agent.update_rule(
        eta,
        params,
        {},
        rule_inputs.inputs_from_rollout(rollout, agent_out),
        hyper_params,
        meta_state,
        lambda params, net_state, *_: unroll(params, net_state, rollout),
        rng,
        None,
      )
      return jnp.sum(loss * weights), (new_meta_state, log)

    grads, (meta_state, log) = jax.grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return (optax.apply_updates(params, updates), opt_state, meta_state), log

  return step, (state.params, state.opt_state, state.meta_state)


def benchmark(
  rule: str | None, num_actions: int, num_rounds: int
) -> list[dict[str, Any]]:
  """Compiles and times the learner step of the reference setting.

  Args:
    rule: name or path of η; None for random η, which takes the same time.
    num_actions: A.
    num_rounds: how often to measure.

  Returns:
    For each of `_WAYS`, units and milliseconds (medians), seconds of
    compilation, megabytes of temporaries, and the arithmetic as a fraction of
    what matrix products do in the same time.
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
  rollout = random_rollout(rng, 29, 64, num_actions)
  programs = [_Program(way, an_agent, eta, rollout, rng) for way in _WAYS]

  unit = units.make_unit()
  unit_seconds: list[float] = []
  seconds: list[list[float]] = []
  for _ in range(num_rounds):
    unit_seconds.append(unit())
    seconds.append([program.measure() for program in programs])
  unit_median = float(np.median(unit_seconds[2:]))
  results = []
  for way, program, own in zip(
    _WAYS, programs, np.median(seconds[2:], axis=0), strict=True
  ):
    # XLA counts the body of a loop once: only the program without blocks has
    # all but the rule's small LSTMs.
    counted = programs[_WAYS.index('whole' if way == 'summary' else way)]
    in_units = float(own / unit_median)
    results.append(
      dict(
        num_actions=num_actions,
        way=way,
        units=in_units,
        milliseconds=1e3 * float(own),
        unit_milliseconds=1e3 * unit_median,
        compile_seconds=program.compile_seconds,
        temporaries_mb=program.temporaries_mb,
        gflop=counted.gflop,
        share_of_limit=counted.gflop / (units.UNIT_GFLOP * in_units),
      )
    )
  return results


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
  results = []
  for num_actions in arguments.actions:
    results += benchmark(arguments.rule, num_actions, arguments.rounds)
  units.report(results, arguments.json)


if __name__ == '__main__':
  huge_pages.restart()
  main()
