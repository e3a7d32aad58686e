"""Collects experience of an agent that does not learn."""

from typing import Any

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.learning import actors


class Collector:
  """Acts with fixed parameters; compiles once for all of them."""

  def __init__(
    self,
    an_agent: agent_lib.Agent,
    env_fn: registry.EnvironmentFn,
    *,
    num_envs: int,
    num_steps: int,
    num_parts: int = 1,
    task_rng: jax.Array | None = None,
  ):
    """Makes the environment.

    Args:
      an_agent: the agent.
      env_fn: makes the environment from a batch size and a seed.
      num_envs: B, number of streams.
      num_steps: steps of each part.
      num_parts: P, number of successive parts, each of which can be a
        trajectory of its own (see `in_parts`).
      task_rng: key of the agent's task; None for one drawn from the seed.
    """
    self._env = env_fn(num_envs, 0)
    self._actor = actors.make(an_agent, self._env)
    self._num_steps = num_parts * num_steps
    self._starts = range(0, self._num_steps, num_steps)
    self._task_rng = task_rng
    if isinstance(self._actor, actors.DeviceActor):
      self._unroll = jax.jit(self._actor.unroll)

  def collect(
    self, params: types.AgentParams, seed: int = 0
  ) -> types.ActorRollout:
    """Acts from a reset.

    Args:
      params: θ.
      seed: seed of the reset and of the sampled actions.

    Returns:
      A rollout with leaves [P · num_steps, B, ...], and `states` of the network
      before each part, [P, B, ...].
    """
    env_rng, net_rng, act_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
    task_rng = env_rng if self._task_rng is None else self._task_rng
    state = self._actor.init(task_rng, net_rng, env_rng)
    keys = jax.random.split(act_rng, self._num_steps)
    if isinstance(self._actor, actors.HostActor):
      _, rollout = self._actor.unroll(params, state, keys, self._starts)
      return rollout
    _, rollout = self._unroll(params, state, keys)
    first = np.asarray(self._starts)
    return rollout.replace(
      states=jax.tree.map(lambda x: x[first], rollout.states)
    )

  def close(self) -> None:
    """Closes the environment."""
    self._env.close()


def in_parts(rollout: types.ActorRollout, num_steps: int) -> types.ActorRollout:
  """Cuts long trajectories into shorter ones.

  Args:
    rollout: leaves [P · num_steps, B, ...], from `Collector.collect`.
    num_steps: T+1, steps of each part.

  Returns:
    A rollout with leaves [T+1, P · B, ...], and `states` [1, P · B, ...].
  """

  def cut(x: Any) -> Any:
    x = x.reshape(-1, num_steps, *x.shape[1:])  # [P, T+1, B, ...]
    return x.swapaxes(0, 1).reshape(num_steps, -1, *x.shape[3:])

  states = jax.tree.map(
    lambda x: x.reshape(1, -1, *x.shape[2:]), rollout.states
  )
  return jax.tree.map(cut, rollout.replace(states=None)).replace(states=states)
