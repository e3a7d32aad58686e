"""Acting: from an agent and an environment to trajectories."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.environments import base


class ActorState(NamedTuple):
  """What acting carries from one rollout to the next."""

  env_state: Any
  timestep: types.EnvironmentTimestep  # Leaves [B, ...].
  net_state: types.HaikuState


def initial_actor_state(
  agent: agent_lib.Agent, env: base.Environment, rng: chex.PRNGKey
) -> ActorState:
  """Resets the environment and the network.

  Args:
    agent: who acts.
    env: where.
    rng: split in two, for the environment and for the network.

  Returns:
    The state before the first step.
  """
  env_rng, net_rng = jax.random.split(rng)
  env_state, timestep = env.reset(env_rng)
  net_state = agent.initial_actor_state(net_rng, env.batch_size)
  return ActorState(env_state, timestep, net_state)


def step_agent(
  agent: agent_lib.Agent,
  params: types.AgentParams,
  rng: chex.PRNGKey,
  timestep: types.EnvironmentTimestep,
  net_state: types.HaikuState,
  outputs: Sequence[str] = ('logits',),
) -> tuple[types.ActorTimestep, types.HaikuState]:
  """`Agent.actor_step`, keeping only some of the network's outputs.

  Args:
    agent: who acts.
    params: θ.
    rng: consumed whole.
    timestep: leaves [B, ...].
    net_state: the network's state before this step.
    outputs: which outputs to keep.

  Returns:
    The step of experience, and the network's state after it.
  """
  step, net_state = agent.actor_step(params, rng, timestep, net_state)
  kept = {name: step.agent_outs[name] for name in outputs}
  return step.replace(agent_outs=kept), net_state


def unroll_jittable(
  agent: agent_lib.Agent,
  env: base.Environment,
  params: types.AgentParams,
  state: ActorState,
  rng: chex.PRNGKey,
  num_steps: int,
  outputs: Sequence[str] = ('logits',),
) -> tuple[ActorState, types.ActorRollout]:
  """Acts in a pure-JAX environment; can be compiled.

  Args:
    agent: who acts.
    env: where; its `step` must be pure.
    params: θ.
    state: from `initial_actor_state` or the last rollout.
    rng: split into one key per step.
    num_steps: T+1, the steps of the rollout.
    outputs: which of the network's outputs the rollout keeps. Those left out
      are not even computed.

  Returns:
    The state after, and a rollout with leaves [T+1, B, ...].
  """
  step_keys = jax.random.split(rng, num_steps)
  return unroll_with_keys(agent, env, params, state, step_keys, outputs)


def unroll_with_keys(
  agent: agent_lib.Agent,
  env: base.Environment,
  params: types.AgentParams,
  state: ActorState,
  step_keys: chex.PRNGKey,
  outputs: Sequence[str] = ('logits',),
) -> tuple[ActorState, types.ActorRollout]:
  """`unroll_jittable` with the key of every step given.

  Args:
    agent: who acts.
    env: where; its `step` must be pure.
    params: θ.
    state: from `initial_actor_state` or the last rollout.
    step_keys: T+1 keys.
    outputs: which of the network's outputs the rollout keeps.

  Returns:
    The state after, and a rollout with leaves [T+1, B, ...].
  """

  def step(
    state: ActorState, rng: chex.PRNGKey
  ) -> tuple[ActorState, types.ActorTimestep]:
    actor_step, net_state = step_agent(
      agent, params, rng, state.timestep, state.net_state, outputs
    )
    env_state, timestep = env.step(state.env_state, actor_step.actions)
    return ActorState(env_state, timestep, net_state), actor_step

  state, steps = jax.lax.scan(step, state, step_keys)
  return state, types.ActorRollout.from_timestep(steps)


class HostUnroll:
  """Acts in an ordinary environment on the host, one step at a time."""

  def __init__(
    self,
    agent: agent_lib.Agent,
    num_steps: int,
    outputs: Sequence[str] = ('logits',),
  ):
    """Compiles nothing yet; the first call does.

    Args:
      agent: who acts.
      num_steps: T+1, the steps of a rollout.
      outputs: which of the network's outputs a rollout keeps.
    """
    self._num_steps = num_steps

    self._step = jax.jit(
      lambda params, rng, timestep, net_state: step_agent(
        agent, params, rng, timestep, net_state, outputs
      )
    )

  def __call__(
    self,
    env: base.Environment,
    params: types.AgentParams,
    state: ActorState,
    rng: chex.PRNGKey,
  ) -> tuple[ActorState, types.ActorRollout]:
    """Acts for one rollout; as `unroll_jittable`, step for step.

    Args:
      env: where; any environment.
      params: θ.
      state: from `initial_actor_state` or the last rollout.
      rng: split into one key per step.

    Returns:
      The state after, and a rollout on the host with leaves [T+1, B, ...].
    """
    env_state, timestep, net_state = state
    steps = []
    for step_rng in jax.random.split(rng, self._num_steps):
      actor_step, net_state = self._step(params, step_rng, timestep, net_state)
      env_state, timestep = env.step(env_state, np.asarray(actor_step.actions))
      steps.append(actor_step)
    stacked = jax.tree.map(
      lambda *xs: np.stack(xs), *[jax.device_get(step) for step in steps]
    )
    return (
      ActorState(env_state, timestep, net_state),
      types.ActorRollout.from_timestep(stacked),
    )
