"""Learner steps, compiled in several ways that compute the same."""

from collections.abc import Callable
import math
import time
from typing import Any

from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import arithmetic
from benchmarks.naive import step as naive
from disco_rl import agent
from disco_rl import optimizers
from disco_rl import types
from disco_rl.learning import learner as learner_lib
from disco_rl.networks import nets

CATCH = (8, 8, 1)  # Shape of an observation.

Step = Callable[[Any, Any, Any], tuple[Any, Any]]


class Problem:
  """An agent, a rule's parameters and a batch of experience.

  Attributes:
    agent: the agent.
    network: its network, as pure functions.
    eta: random η, which takes the same time as a trained one.
    rollout: random experience.
    gflop: the arithmetic of a learner step, see `arithmetic.learner_step`.
  """

  def __init__(
    self,
    settings: Any,
    num_actions: int,
    num_steps: int,
    batch_size: int,
    observation_shape: tuple[int, ...] = CATCH,
  ):
    """Initialises the problem.

    Args:
      settings: agent settings, see `sizes.agent_settings`.
      num_actions: A.
      num_steps: T+1.
      batch_size: B.
      observation_shape: shape of an observation.
    """
    action_spec = dm_env_specs.BoundedArray((), np.int32, 0, num_actions - 1)
    self.rng = jax.random.PRNGKey(0)
    self.agent = agent.Agent(
      single_observation_spec={
        'observation': types.ArraySpec(observation_shape, np.float32)
      },
      single_action_spec=action_spec,
      agent_settings=settings,
      batch_axis_name=None,
    )
    rule = self.agent.update_rule
    self.network = nets.get_network(
      settings.net_settings.name,
      out_spec=rule.flat_output_spec(action_spec),
      action_spec=action_spec,
      model_out_spec=rule.model_output_spec(action_spec),
      **settings.net_settings.net_args,
    )
    self.eta, _ = rule.init_params(self.rng)
    self.rollout = random_rollout(
      self.rng, num_steps, batch_size, num_actions, observation_shape
    )
    self.gflop = arithmetic.total(
      arithmetic.learner_step(
        settings,
        num_actions,
        num_steps,
        batch_size,
        math.prod(observation_shape),
      )
    )


def random_rollout(
  rng: jax.Array,
  num_steps: int,
  batch_size: int,
  num_actions: int,
  observation_shape: tuple[int, ...],
) -> types.ActorRollout:
  """Makes random experience with sparse observations, like boards.

  Args:
    rng: key.
    num_steps: T+1.
    batch_size: B.
    num_actions: A.
    observation_shape: shape of an observation.

  Returns:
    A rollout with leaves [T+1, B, ...], of a network without memory.
  """
  keys = jax.random.split(rng, 5)
  shape = (num_steps, batch_size)
  logits = jax.random.normal(keys[4], (*shape, num_actions))
  board = jax.random.bernoulli(keys[0], 2 / 64, (*shape, *observation_shape))
  return types.ActorRollout(
    observations=board.astype(jnp.float32),
    actions=jax.random.randint(keys[1], shape, 0, num_actions),
    rewards=jax.random.normal(keys[2], shape),
    discounts=jax.random.bernoulli(keys[3], 6 / 7, shape),
    agent_outs=dict(logits=logits),
    states={},
    logits=logits,
  )


class Program:
  """A compiled learner step, and its agent's state.

  Attributes:
    compile_seconds: seconds of tracing and compilation.
    temporaries_mb: megabytes of temporaries.
    xla_gflop: XLA's count of the arithmetic, the bodies of loops once.
  """

  def __init__(self, way: str, problem: Problem):
    """Compiles one of `WAYS`."""
    # Copied, since states are donated.
    state = jax.tree.map(
      jnp.copy, problem.agent.initial_learner_state(problem.rng)
    )
    step = WAYS[way](problem)
    start = time.perf_counter()
    jitted = jax.jit(step, donate_argnums=2)
    self._compiled: Any = jitted.lower(
      problem.eta, problem.rollout, state
    ).compile()
    self.compile_seconds = time.perf_counter() - start
    self._inputs = (problem.eta, problem.rollout)
    self._state = state
    memory: Any = self._compiled.memory_analysis()
    costs: Any = self._compiled.cost_analysis()
    self.temporaries_mb = memory.temp_size_in_bytes / 1e6
    self.xla_gflop = costs['flops'] / 1e9

  def measure(self) -> float:
    """Returns the seconds of one step."""
    start = time.perf_counter()
    self._state, _ = jax.block_until_ready(
      self._compiled(*self._inputs, self._state)
    )
    return time.perf_counter() - start


def _naive(problem: Problem) -> Step:
  """Makes the plain step, see `benchmarks/naive`."""
  num_actions = problem.rollout.logits.shape[-1]
  return naive.make_step(problem.agent.settings, num_actions)


def _client(problem: Problem) -> Step:
  """Makes a step with the bare rule inside a program's own `jax.grad`."""
  settings = problem.agent.settings
  optimizer = optimizers.agent_optimizer(settings)
  unroll: Any = problem.network.unroll

  def step(eta: Any, rollout: Any, state: Any) -> Any:
    inputs = types.UpdateRuleInputs(
      observations=rollout.observations,
      actions=rollout.actions,
      rewards=rollout.rewards[1:],
      is_terminal=rollout.discounts[1:] == 0,
      agent_out={},
      behaviour_agent_out=rollout.agent_outs,
    )
    mask = jnp.asarray(rollout.discounts[:-1] > 0, jnp.float32)

    def loss_fn(params: Any) -> Any:
      outs, _ = unroll(params, {}, rollout.observations, None)
      loss, meta_state, log = problem.agent.update_rule(
        meta_params=eta,
        params=params,
        state={},
        rollout=inputs.replace(agent_out=outs),
        hyper_params=dict(settings.hyper_params),
        meta_state=state.meta_state,
        unroll_policy_fn=unroll,
        rng=problem.rng,
        axis_name=None,
      )
      return (loss * mask).sum() / mask.sum(), (meta_state, log)

    grads, (meta_state, log) = jax.grad(loss_fn, has_aux=True)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    new_state = state.replace(
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
      meta_state=meta_state,
    )
    return new_state, log

  return step


def _make_learner(problem: Problem, network: Any, **options: Any) -> Step:
  """Makes a step of `disco_rl.make_learner` that returns scalars only."""
  settings = problem.agent.settings
  learner = learner_lib.make_learner(
    problem.agent.update_rule,
    network,
    optimizers.agent_optimizer(settings),
    dict(settings.hyper_params),
    **options,
  )

  def step(eta: Any, rollout: Any, state: Any) -> Any:
    state, out = learner.update(eta, state, rollout, problem.rng)
    return state, out.log

  return step


def _summary(problem: Problem) -> Step:
  """Makes the step of `Agent`, evaluation and the commands."""

  def step(eta: Any, rollout: Any, state: Any) -> Any:
    state, _, log = problem.agent.learner_step(
      problem.rng, rollout, state, {}, eta, False
    )
    return state, log

  return step


# The plain step; the bare rule in a program of one's own; `make_learner` with a
# network that is only an unroll function; with whole outputs; and agents, whose
# outputs per action are summarised.
WAYS: dict[str, Callable[[Problem], Step]] = {
  'naive': _naive,
  'client': _client,
  'unroll': lambda problem: _make_learner(problem, problem.network.unroll),
  'whole': lambda problem: _make_learner(
    problem, problem.network, with_outputs=True
  ),
  'summary': _summary,
}
