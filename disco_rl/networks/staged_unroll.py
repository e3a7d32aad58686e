"""Unroll functions of networks with two stages, with a sparse backward pass.

A program that differentiates a rule's loss through a network's outputs has
gradients in the outputs of the actions taken only; those of all other actions
are zeros, which reverse mode would nevertheless multiply with every layer of
the heads. Whether that is so is known only when the program runs: if every row
has gradients in one action at most, the heads are differentiated for that
action, which is A times less work, otherwise for all actions. The results are
the same up to rounding.
"""

from collections.abc import Callable, Mapping
import math
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.networks import blocks

# `(params, embedding [..., D], actions [...] or None) -> outputs`; see
# `types.PolicyNetwork`.
PredictFn = Callable[[types.AgentParams, Any, Any], types.AgentOuts]
# Gradients in the parameters and in the embedding.
_Grads = tuple[Any, jax.Array]


class StagedUnroll:
  """An unroll function, and the stages it consists of.

  Like other functions with a custom backward pass, it cannot be differentiated
  in forward mode (`jax.jvp`), but its gradient can.

  Attributes:
    stages: the functions `embed` and `predict` of `types.PolicyNetwork`.
  """

  def __init__(
    self,
    unroll: types.AgentUnrollFn,
    embed: Callable[..., tuple[types.Array, types.HaikuState]],
    predict: PredictFn,
  ):
    """Initialises the function.

    Args:
      unroll: the same function without stages, for calls with actions.
      embed: see `types.PolicyNetwork`.
      predict: likewise.
    """
    self._unroll = unroll
    self.stages = (embed, predict)
    self._predict_all = _with_sparse_pullback(predict)

  def __call__(
    self,
    params: types.AgentParams,
    state: types.HaikuState,
    observations: Any,
    should_reset: types.Array | None = None,
    *actions: Any,
  ) -> tuple[types.AgentOuts, types.HaikuState]:
    """Unrolls the network; see `types.AgentUnrollFn`."""
    inputs: Any = (params, state, observations, should_reset)
    if any(x is not None for x in actions):
      return self._unroll(*inputs, *actions)
    embed, _ = self.stages
    embedding, state = embed(*inputs)
    return self._predict_all(params, embedding), state

  def reduced(
    self, reduce_fn: Callable[[types.AgentOuts], Any]
  ) -> types.AgentUnrollFn:
    """Returns an unroll function that reduces the outputs in blocks of rows.

    Args:
      reduce_fn: see `reduce_rows`.
    """
    embed, predict = self.stages

    def unroll(params: types.AgentParams, *inputs: Any) -> Any:
      embedding, state = embed(params, *inputs)
      return reduce_rows(predict, params, embedding, reduce_fn), state

    return unroll


def reduce_rows(
  predict: PredictFn,
  params: types.AgentParams,
  embedding: types.Array,
  reduce_fn: Callable[[types.AgentOuts], Any],
) -> Any:
  """Applies a function of rows to the outputs of all actions, in blocks.

  Args:
    predict: the second stage of a network.
    params: θ.
    embedding: [T+1, B, D].
    reduce_fn: from outputs, name to [n, ...], to a tree of [n, ...].

  Returns:
    Its results, a tree of [T+1, B, ...].
  """
  predict_all = lambda rows: predict(params, rows, None)
  rows = embedding.reshape(-1, embedding.shape[-1])
  outs = blocks.map_rows(
    lambda rows: reduce_fn(predict_all(rows)),
    rows,
    width(jax.eval_shape(predict_all, rows[:1])),
  )
  return jax.tree.map(
    lambda x: x.reshape(*embedding.shape[:-1], *x.shape[1:]), outs
  )


def width(outs: Any, num_dims: int = 1) -> int:
  """Returns the elements per row of the widest output.

  Args:
    outs: tree of arrays or their shapes.
    num_dims: how many leading dimensions are rows.
  """
  return max(math.prod(x.shape[num_dims:]) for x in jax.tree.leaves(outs))


def _with_sparse_pullback(
  predict: PredictFn,
) -> Callable[[types.AgentParams, Any], types.AgentOuts]:
  """Returns `predict` for all actions, with the backward pass described above.

  Args:
    predict: the second stage of a network.

  Returns:
    A function of parameters and an embedding, [..., D].
  """

  def predict_all(params: types.AgentParams, embedding: Any) -> types.AgentOuts:
    return predict(params, embedding, None)

  def dense(params: Any, rows: jax.Array, out_grads: Any) -> _Grads:
    """Differentiates all outputs, in blocks of rows."""
    _, pullback = jax.vjp(
      lambda params, rows: blocks.map_rows(
        lambda rows: predict_all(params, rows), rows, width(out_grads)
      ),
      params,
      rows,
    )
    return pullback(out_grads)

  def sparse(
    params: Any, rows: jax.Array, actions: jax.Array, out_grads: Any
  ) -> _Grads:
    """Differentiates the outputs of one action per row."""
    outs, pullback = jax.vjp(
      lambda params, rows: predict(params, rows, actions), params, rows
    )
    index = jnp.arange(rows.shape[0])
    # Outputs per action have one axis more if they are of all actions.
    return pullback(
      {
        name: grads if grads.ndim == outs[name].ndim else grads[index, actions]
        for name, grads in out_grads.items()
      }
    )

  # Whether it applies is decided by the gradients' values, so its derivatives,
  # which may not be zero where the gradients are, are always the dense ones.
  @jax.custom_jvp
  def pull_back(params: Any, rows: jax.Array, out_grads: Any) -> _Grads:
    one_action = jax.ShapeDtypeStruct(rows.shape[:1], jnp.int32)
    outs = jax.eval_shape(predict, params, rows, one_action)
    per_action = [
      grads for name, grads in out_grads.items() if grads.ndim > outs[name].ndim
    ]
    if not per_action or per_action[0].shape[1] == 1:
      return dense(params, rows, out_grads)
    is_used = sum(
      jnp.any(grads.reshape(*grads.shape[:2], -1) != 0, axis=-1)
      for grads in per_action
    )  # [n, A]
    is_sparse = _all_true(jnp.sum(is_used > 0, axis=1) <= 1)
    actions = jnp.argmax(is_used, axis=1)
    return jax.lax.cond(
      is_sparse,
      lambda: sparse(params, rows, actions, out_grads),
      lambda: dense(params, rows, out_grads),
    )

  @pull_back.defjvp
  def _(primals: Any, tangents: Any) -> Any:
    _, out_tangents = jax.jvp(dense, primals, tangents)
    return pull_back(*primals), out_tangents

  def forward(params: Any, embedding: Any) -> Any:
    return predict_all(params, embedding), (params, embedding)

  def backward(residuals: Any, out_grads: Mapping[str, Any]) -> _Grads:
    params, embedding = residuals
    shape = embedding.shape
    num_dims = len(shape) - 1
    params_grads, embedding_grads = pull_back(
      params,
      embedding.reshape(-1, shape[-1]),
      {
        name: jnp.asarray(x).reshape(-1, *x.shape[num_dims:])
        for name, x in out_grads.items()
      },
    )
    return params_grads, embedding_grads.reshape(shape)

  with_pullback = jax.custom_vjp(predict_all)
  with_pullback.defvjp(forward, backward)
  return with_pullback


@jax.custom_batching.custom_vmap
def _all_true(x: jax.Array) -> jax.Array:
  """Returns whether all elements are true, also those of a vmapped axis.

  With a condition of its own for each element of a vmapped axis, both branches
  would be computed.
  """
  return jnp.all(x)


@_all_true.def_vmap
def _(axis_size: int, in_batched: list[bool], x: jax.Array) -> Any:
  del axis_size, in_batched
  return _all_true(x), False
