"""Collects experience of an agent that does not learn."""

from typing import Any

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.learning import actors


def collect(
  an_agent: agent_lib.Agent,
  env_fn: registry.EnvironmentFn,
  params: types.AgentParams,
  *,
  num_envs: int,
  num_steps: int,
  num_parts: int = 1,
  seed: int = 0,
  task_rng: jax.Array | None = None,
) -> types.ActorRollout:
  """Acts with fixed parameters.

  Args:
    an_agent: the agent.
    env_fn: makes the environment from a batch size and a seed.
    params: θ.
    num_envs: B, number of streams.
    num_steps: steps of each part.
    num_parts: P, number of successive parts, each of which can be a trajectory
      of its own (see `in_parts`).
    seed: seed of the environment and of the sampled actions.
    task_rng: key of the agent's task; None for one drawn from the seed.

  Returns:
    A rollout with leaves [P · num_steps, B, ...], and `states` of the network
    before each part, [P, B, ...].
  """
  env = env_fn(num_envs, seed)
  try:
    actor = actors.make(an_agent, env)
    key = jax.random.PRNGKey(seed)
    env_rng, net_rng, act_rng = jax.random.split(key, 3)
    if task_rng is None:
      task_rng = env_rng
    state = actor.init(task_rng, net_rng, env_rng)
    keys = jax.random.split(act_rng, num_parts * num_steps)
    starts = range(0, num_parts * num_steps, num_steps)
    if isinstance(actor, actors.HostActor):
      _, rollout = actor.unroll(params, state, keys, starts)
      return rollout
    _, rollout = jax.jit(actor.unroll)(params, state, keys)
    first = np.asarray(starts)
    return rollout.replace(
      states=jax.tree.map(lambda x: x[first], rollout.states)
    )
  finally:
    env.close()


def in_parts(rollout: types.ActorRollout, num_steps: int) -> types.ActorRollout:
  """Cuts long trajectories into shorter ones.

  Args:
    rollout: leaves [P · num_steps, B, ...], from `collect`.
    num_steps: T+1, steps of each part.

  Returns:
    A rollout with leaves [T+1, P · B, ...], and `states` [1, P · B, ...].
  """

  def cut(x: Any) -> Any:
    x = x.reshape(-1, num_steps, *x.shape[1:])  # [P, T+1, B, ...]
    return x.swapaxes(0, 1).reshape(num_steps, -1, *x.shape[3:])

  states = jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), rollout.states)
  return jax.tree.map(cut, rollout.replace(states=None)).replace(states=states)
