"""Differentiates a loss of the network's heads, a few streams at a time.

The intermediate results of a block of streams are small, and their memory is
used again by the next block. The results are those of all streams at once, up
to rounding.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types

# Selects streams from a tree of [T, B, ...].
SelectFn = Callable[[Any], Any]
# A function of outputs [T+1, B', ...], of the index of the taken actions in
# them [T+1, B'], and of a function that selects the B' streams; returns a loss
# that is summed over streams, and a log of averages.
LossFn = Callable[
  [types.AgentOuts, types.Array, SelectFn], tuple[jax.Array, types.LogDict]
]
# A function of θ, embeddings [T+1, B', D] and actions [T+1, B'] to the outputs
# of these actions, name to [T+1, B', 1, ...].
PredictFn = Callable[
  [types.AgentParams, types.Array, types.Array], types.AgentOuts
]
# The loss and its log.
_Out = tuple[jax.Array, types.LogDict]


def gradient(
  loss_fn: LossFn,
  predict_model: PredictFn,
  flat_out: types.AgentOuts,
  params: types.AgentParams,
  embedding: types.Array,
  actions: types.Array,
  block_size: int,
) -> tuple[_Out, types.AgentOuts, types.AgentParams, jax.Array]:
  """Differentiates a loss, one block of streams after the other.

  Args:
    loss_fn: the loss.
    predict_model: computes the outputs per action.
    flat_out: the outputs that do not depend on an action, [T+1, B, ...].
    params: θ.
    embedding: [T+1, B, D].
    actions: [T+1, B].
    block_size: streams per block; the last block has fewer, unless it divides
      B.

  Returns:
    The loss and its log, and the gradients in `flat_out`, in `params` (of
    outputs per action), and in `embedding`.
  """

  def of_streams(flat_out: types.AgentOuts, select: SelectFn) -> Any:
    taken = select(actions)
    out, grads = jax.value_and_grad(
      lambda flat_out, params, embedding: loss_fn(
        {**flat_out, **predict_model(params, embedding, taken)},
        jnp.zeros_like(taken),
        select,
      ),
      argnums=(0, 1, 2),
      has_aux=True,
    )(select(flat_out), params, select(embedding))
    return out, *grads

  num_streams = actions.shape[1]
  if block_size == num_streams:
    return of_streams(flat_out, lambda tree: tree)

  def step(carry: Any, start: Any, size: int) -> Any:
    # Outputs are replaced by their gradients, which takes no more memory.
    flat, params_grads = carry
    out, flat_grads, own_params_grads, embedding_grads = of_streams(
      flat,
      lambda tree: jax.tree.map(
        lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, 1), tree
      ),
    )
    flat = jax.tree.map(
      lambda x, g: jax.lax.dynamic_update_slice_in_dim(x, g, start, 1),
      flat,
      flat_grads,
    )
    params_grads = jax.tree.map(jnp.add, params_grads, own_params_grads)
    return (flat, params_grads), (out, embedding_grads)

  num_blocks, num_left = divmod(num_streams, block_size)
  carry, ((losses, logs), parts) = jax.lax.scan(
    lambda carry, index: step(carry, index * block_size, block_size),
    (flat_out, jax.tree.map(jnp.zeros_like, params)),
    jnp.arange(num_blocks),
  )
  out = jnp.sum(losses), jax.tree.map(lambda x: jnp.mean(x, axis=0), logs)
  num_steps, _, width = embedding.shape
  embedding_grads = jnp.moveaxis(parts, 0, 1).reshape(num_steps, -1, width)
  if num_left:
    carry, (last_out, part) = step(carry, num_streams - num_left, num_left)
    out = _join(out, last_out, num_left / num_streams)
    embedding_grads = jnp.concatenate([embedding_grads, part], axis=1)
  return out, *carry, embedding_grads


def _join(out: _Out, last: _Out, share: float) -> _Out:
  """Adds the loss of the last block, and averages the logs.

  Args:
    out: loss and log of the streams before it.
    last: those of its own streams.
    share: the fraction of all streams that are its own.

  Returns:
    The loss and the log of all streams.
  """
  (loss, log), (last_loss, last_log) = out, last
  log = jax.tree.map(
    lambda x, own: (1 - share) * x + share * own, log, last_log
  )
  return loss + last_loss, log
