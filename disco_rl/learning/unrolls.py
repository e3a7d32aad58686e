"""Unrolls an agent's network along a rollout, as learning needs it.

A rule reads all outputs to compute its targets, and its losses read some of
them again. What is large, outputs per action, is computed as sparingly as rule
and network permit: for losses, only for the actions taken and for a few streams
at a time; for targets, as a summary (see `UpdateRule.summary_fn`). All ways
give the same numbers up to rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.learning import stream_blocks
from disco_rl.networks import action_masks
from disco_rl.networks import blocks
from disco_rl.networks import checks as network_checks
from disco_rl.networks import staged_unroll
from disco_rl.update_rules import base

SummaryFn = Callable[[types.AgentOuts], dict[str, Any]]
LossFn = stream_blocks.LossFn
# The loss, its log and its gradient in θ.
Gradient = tuple[tuple[jax.Array, types.LogDict], types.AgentParams]

# Elements of an output of the streams that are learned from at a time, 1.2 MB
# in float32. Some ten such arrays are in use at once.
STREAM_ELEMENTS = 300_000


class Outputs(NamedTuple):
  """The network's outputs along a rollout."""

  # All of them, leaves [T+1, B, ...], or a summary of those per action.
  agent_out: dict[str, Any]
  net_state: types.HaikuState  # After the rollout.
  gradient: Callable[[LossFn], Gradient]  # Of a loss of the outputs.


class Unrolls:
  """Unrolls a network for a rule.

  Attributes:
    has_stages: whether the network's outputs can be computed in blocks.
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
    self._embed = self._predict = None
    network_checks.check_network(network, 'network is', True)
    unroll: Any = network
    embed = predict = None
    if isinstance(network, types.PolicyNetwork):
      unroll = network.unroll
      embed, predict = network.embed, network.predict
    elif isinstance(network, staged_unroll.StagedUnroll):
      embed, predict = network.stages
    if (
      update_rule.learns_taken_actions_only
      and embed is not None
      and predict is not None
    ):
      self._embed = network_checks.checked_embed(embed)
      self._predict = network_checks.checked_predict(
        predict,
        update_rule.agent_output_spec,
        lambda spec: {
          **update_rule.flat_output_spec(spec),
          **update_rule.model_output_spec(spec),
        },
      )
    self._unroll = network_checks.checked_unroll(
      unroll, update_rule.agent_output_spec
    )
    self.has_stages = self._embed is not None
    # Only the names are needed; they do not depend on the number of actions.
    one_action = types.ActionSpec((), jnp.int32, 0, 0)
    # In their order: that of a set, and of the program, would be random.
    self._model_outputs = tuple(update_rule.model_output_spec(one_action))

  def for_loss(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.Array]:
    """Unrolls the network for losses that use only the actions taken.

    If rule and network support it, outputs per action are computed only for the
    actions taken, which is A times less work. The policy is masked, as in all
    outputs here.

    Args:
      params: θ.
      net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].

    Returns:
      The outputs, leaves [T+1, B, ...], and the index of the actions taken in
      outputs per action, [T+1, B]: 0 if there are no others.
    """
    inputs = (params, net_state, rollout.observations, rollout.is_last)
    mask = rollout.action_mask
    if self._embed is None:
      outs, _ = self._unroll(*inputs)
      return action_masks.mask_outputs(outs, mask), rollout.actions
    embedding, _ = self._embed(*inputs)
    outs = {
      **self._predict_flat(params, embedding),
      **self._predict_model(params, embedding, rollout.actions),
    }
    outs = action_masks.mask_outputs(outs, mask)
    return outs, jnp.zeros_like(rollout.actions)

  def for_learning(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
    summarize: SummaryFn | None,
    by_streams: bool = False,
  ) -> Outputs:
    """Unrolls the network for the rule's targets and losses.

    Args:
      params: θ.
      net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].
      summarize: the rule's `summary_fn`; None for whole outputs.
      by_streams: whether the loss may be computed and differentiated for a few
        streams at a time, which takes less memory. Its gradient should then not
        be differentiated again, since nothing is stored for that.

    Returns:
      The outputs, and a function that differentiates losses of them.
    """
    inputs = (net_state, rollout.observations, rollout.is_last)
    mask = rollout.action_mask
    if self._embed is None:
      unroll = action_masks.mask_unroll(self._unroll, mask)
      outs, pullback, net_state = jax.vjp(
        lambda params: unroll(params, *inputs), params, has_aux=True
      )
      gradient_of = _gradient_of_outputs(outs, rollout.actions, pullback)
      return Outputs(dict(outs), net_state, gradient_of)
    embed = self._embed
    embedding, pull_embedding, net_state = jax.vjp(
      lambda params: embed(params, *inputs), params, has_aux=True
    )
    flat_out, pull_flat = jax.vjp(
      lambda *inputs: action_masks.mask_outputs(
        self._predict_flat(*inputs), mask
      ),
      params,
      embedding,
    )
    agent_out: dict[str, Any]
    if summarize is None:
      outs = self._predict_all(params, embedding)
      agent_out = dict(action_masks.mask_outputs(outs, mask))
    else:
      model_summary = self._reduce(
        params,
        embedding,
        lambda outs: summarize({k: outs[k] for k in self._model_outputs}),
      )
      summary = {**summarize(flat_out), **model_summary}
      agent_out = {**flat_out, base.SUMMARY: summary}
    block_size = rollout.actions.shape[1]
    if by_streams:
      block_size = self._block_size(params, embedding, rollout.actions)

    def gradient(loss_fn: LossFn) -> Gradient:
      out, flat_grads, model_grads, embedding_grads = stream_blocks.gradient(
        loss_fn,
        self._predict_model,
        flat_out,
        params,
        embedding,
        rollout.actions,
        block_size,
      )
      head_grads, more_embedding_grads = pull_flat(flat_grads)
      (embed_grads,) = pull_embedding(embedding_grads + more_embedding_grads)
      grads = jax.tree.map(
        lambda *own: sum(own), model_grads, head_grads, embed_grads
      )
      return out, grads

    return Outputs(agent_out, net_state, gradient)

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
    assert self._embed is not None
    embed, reduce = self._embed, base.with_logits(summarize)

    def unroll(params: types.AgentParams, *inputs: Any) -> Any:
      embedding, net_state = embed(params, *inputs)
      return self._reduce(params, embedding, reduce), net_state

    return unroll

  def _predict_all(
    self, params: types.AgentParams, embedding: types.Array
  ) -> types.AgentOuts:
    assert self._predict is not None
    return self._predict(params, embedding, None)

  def _predict_flat(
    self, params: types.AgentParams, embedding: types.Array
  ) -> dict[str, Any]:
    """Computes the outputs that do not depend on an action."""
    any_actions = jnp.zeros(embedding.shape[:-1], jnp.int32)
    outs = self._predict_taken(params, embedding, any_actions)
    return {k: x for k, x in outs.items() if k not in self._model_outputs}

  def _predict_model(
    self,
    params: types.AgentParams,
    embedding: types.Array,
    actions: types.Array,
  ) -> types.AgentOuts:
    """Computes outputs per action for one action, as if there were no others.

    Args:
      params: θ.
      embedding: [T+1, B, D].
      actions: [T+1, B].

    Returns:
      Name to [T+1, B, 1, ...].
    """
    outs = self._predict_taken(params, embedding, actions)
    return {k: outs[k][:, :, None] for k in self._model_outputs}

  def _predict_taken(
    self,
    params: types.AgentParams,
    embedding: types.Array,
    actions: types.Array,
  ) -> types.AgentOuts:
    assert self._predict is not None
    return self._predict(params, embedding, actions)

  def _reduce(
    self,
    params: types.AgentParams,
    embedding: types.Array,
    reduce_fn: Callable[[types.AgentOuts], Any],
  ) -> Any:
    """Applies a function of rows to all outputs; see `reduce_rows`."""
    assert self._predict is not None
    return staged_unroll.reduce_rows(
      self._predict, params, embedding, reduce_fn
    )

  def _block_size(
    self,
    params: types.AgentParams,
    embedding: types.Array,
    actions: types.Array,
  ) -> int:
    """Returns the number of streams to learn from at a time."""
    outs = jax.eval_shape(self._predict_taken, params, embedding, actions)
    elements = actions.size * staged_unroll.width(outs, num_dims=2)
    num_streams = actions.shape[1]
    num_blocks = blocks.number_of_blocks(
      num_streams, -(-elements // STREAM_ELEMENTS)
    )
    return -(-num_streams // num_blocks)


def _gradient_of_outputs(
  outs: types.AgentOuts,
  actions: types.Array,
  pullback: Callable[[types.AgentOuts], tuple[types.AgentParams]],
) -> Callable[[LossFn], Gradient]:
  """Differentiates a loss in the outputs, and pulls the gradient back to θ."""

  def gradient(loss_fn: LossFn) -> Gradient:
    out, out_grads = jax.value_and_grad(
      lambda outs: loss_fn(outs, actions, lambda tree: tree), has_aux=True
    )(outs)
    (grads,) = pullback(out_grads)
    return out, grads

  return gradient
