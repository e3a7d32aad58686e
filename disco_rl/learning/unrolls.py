"""Unrolls an agent's network along a rollout, as learning needs it.

A rule reads all outputs to compute its targets, and its losses read some of
them again. What is large, outputs per action, is computed as sparingly as rule
and network permit: for losses, only for the actions taken; for targets, as a
summary (see `UpdateRule.summary_fn`). All ways give the same numbers up to
rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.networks import checks as network_checks
from disco_rl.update_rules import base

SummaryFn = Callable[[types.AgentOuts], dict[str, Any]]


class Outputs(NamedTuple):
  """The network's outputs along a rollout, and their pullback to θ."""

  # All of them, leaves [T+1, B, ...], or a summary of those per action.
  agent_out: dict[str, Any]
  net_state: types.HaikuState  # After the rollout.
  learned_out: types.AgentOuts  # Those the loss is a function of.
  learned_actions: types.Array  # [T+1, B], index of the taken actions in them.
  pullback: Callable[[types.AgentOuts], tuple[types.AgentParams]]


class Unrolls:
  """Unrolls a network for a rule.

  Attributes:
    can_summarize: whether the network can compute a summary.
  """

  def __init__(
    self,
    network: types.PolicyNetwork | types.AgentUnrollFn,
    update_rule: base.UpdateRule,
  ):
    """Initialises the unrolls.

    Args:
      network: a `PolicyNetwork`, or only its unroll function.
      update_rule: the rule.
    """
    self._unroll_taken = self._unroll_reduced = None
    network_checks.check_network(network, 'network is', True)
    unroll: Any = network
    if isinstance(network, types.PolicyNetwork):
      unroll = network.unroll
      if update_rule.learns_taken_actions_only:
        self._unroll_taken = network.unroll_taken
        self._unroll_reduced = network.unroll_reduced
    self._unroll = network_checks.checked_unroll(
      unroll, update_rule.agent_output_spec
    )
    self.can_summarize = (
      self._unroll_taken is not None and self._unroll_reduced is not None
    )
    # Only the names are needed; they do not depend on the number of actions.
    one_action = types.ActionSpec((), jnp.int32, 0, 0)
    self._model_outputs = frozenset(update_rule.model_output_spec(one_action))

  def for_loss(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.Array]:
    """Unrolls the network for losses that use only the actions taken.

    If rule and network support it, outputs per action are computed only for the
    actions taken, which is A times less work.

    Args:
      params: θ.
      net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].

    Returns:
      The outputs, leaves [T+1, B, ...], and the index of the actions taken in
      outputs per action, [T+1, B]: 0 if there are no others.
    """
    inputs = (params, net_state, rollout.observations, rollout.is_last)
    if self._unroll_taken is None:
      outs, _ = self._unroll(*inputs)
      return outs, rollout.actions
    outs, _ = self._unroll_taken(*inputs, rollout.actions)
    outs = {
      name: out[:, :, None] if name in self._model_outputs else out
      for name, out in outs.items()
    }
    return outs, jnp.zeros_like(rollout.actions)

  def for_learning(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
    summarize: SummaryFn | None,
  ) -> Outputs:
    """Unrolls the network for the rule's targets and losses.

    Args:
      params: θ.
      net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].
      summarize: the rule's `summary_fn`; None for whole outputs.

    Returns:
      The outputs, and the pullback to θ of those the loss depends on.
    """
    unroll: Callable[..., Any] = lambda params: self._unroll(
      params, net_state, rollout.observations, rollout.is_last
    )
    if self._unroll_taken is None:
      agent_out, pullback, new_net_state = jax.vjp(unroll, params, has_aux=True)
      return Outputs(
        agent_out, new_net_state, agent_out, rollout.actions, pullback
      )
    learned_out, pullback, actions = jax.vjp(
      lambda params: self.for_loss(params, net_state, rollout),
      params,
      has_aux=True,
    )
    if summarize is None:
      agent_out, new_net_state = unroll(params)
      return Outputs(agent_out, new_net_state, learned_out, actions, pullback)
    assert self._unroll_reduced is not None
    flat_out = {
      name: out
      for name, out in learned_out.items()
      if name not in self._model_outputs
    }
    model_summary, new_net_state = self._unroll_reduced(
      params,
      net_state,
      rollout.observations,
      rollout.is_last,
      lambda outs: summarize({k: outs[k] for k in self._model_outputs}),
    )
    summary = {**summarize(flat_out), **model_summary}
    agent_out = {**flat_out, base.SUMMARY: summary}
    return Outputs(agent_out, new_net_state, learned_out, actions, pullback)

  def for_target(self, summarize: SummaryFn | None) -> types.AgentUnrollFn:
    """Makes the unroll function that the rule applies to its target network.

    Args:
      summarize: the rule's `summary_fn`; None for whole outputs.

    Returns:
      An unroll function; with `summarize`, its outputs are the policy's logits
      and a summary.
    """
    if summarize is None:
      return self._unroll
    assert self._unroll_reduced is not None
    unroll_reduced = self._unroll_reduced

    def reduce(outs: types.AgentOuts) -> dict[str, Any]:
      return {'logits': outs['logits'], base.SUMMARY: summarize(outs)}

    return lambda *inputs: unroll_reduced(*inputs, reduce)
