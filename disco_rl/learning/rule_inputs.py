"""Makes the inputs of an update rule from a rollout."""

from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types


def inputs_from_rollout(
  rollout: types.ActorRollout,
  agent_out: types.AgentOuts,
  value_out: types.ValueOuts | None = None,
) -> types.UpdateRuleInputs:
  """Makes the inputs of a rule from a rollout.

  Args:
    rollout: leaves [T+1, B, ...].
    agent_out: the network's outputs at the current θ, leaves [T+1, B, ...].
    value_out: the critic's estimates, or None.

  Returns:
    The inputs; `behaviour_agent_out` is that of the rollout.
  """
  return types.UpdateRuleInputs(
    observations=rollout.observations,
    actions=rollout.actions,
    rewards=rollout.rewards[1:],
    is_terminal=rollout.is_last[1:],
    agent_out=agent_out,
    behaviour_agent_out=rollout.agent_outs,
    value_out=value_out,
    action_mask=rollout.action_mask,
  )


def step_weights(discounts: types.Array, axis_name: Any | None) -> jax.Array:
  """Computes the weight of every step in an agent's loss.

  A step with discount 0 shows the first observation of a new episode, but is
  the last step of the old one: as published, it carries no loss.

  Args:
    discounts: [T+1, B].
    axis_name: axis (or axes) over which the batch is sharded, or None.

  Returns:
    [T, B]; their sum is 1, on average over the axis.
  """
  mask = jnp.asarray(discounts[:-1] > 0, jnp.float32)
  num_steps = jnp.sum(mask)
  if axis_name is not None:
    # So that the shards' gradients average to that of the whole batch, even if
    # they mask different numbers of steps.
    num_steps = jax.lax.pmean(num_steps, axis_name)
  return mask / (num_steps + 1e-8)


def with_first_reset(
  unroll_fn: types.AgentUnrollFn, rollout: types.ActorRollout
) -> types.AgentUnrollFn:
  """Makes the unroll function that is passed to a rule for one rollout.

  A rule's inputs do not include whether the *first* step of a rollout begins an
  episode (`should_reset_mask_fwd` starts with False), but a network with memory
  must be reset there, too.

  Args:
    unroll_fn: the network's unroll function.
    rollout: leaves [T+1, B, ...].

  Returns:
    A function of the same arguments.
  """

  def unroll(
    params: types.AgentParams,
    state: types.HaikuState,
    observations: Any,
    should_reset: types.Array,
  ) -> tuple[types.AgentOuts, types.HaikuState]:
    first = jnp.logical_or(should_reset[0], rollout.is_last[0])
    return unroll_fn(
      params, state, observations, jnp.asarray(should_reset).at[0].set(first)
    )

  return unroll
