"""An LSTM cell with separate input and recurrent products.

`hk.LSTM` multiplies the concatenation `[x, h]` by one matrix. Split by rows,
the product is `x·Wₓ + h·Wₕ`, and one half can often be computed once for many
steps (all inputs of a sequence) or once for many inputs (all actions from one
state). Parameter names, shapes and initial values are those of `hk.LSTM`.
"""

from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types


class LSTMWeights(NamedTuple):
  """The weights of an LSTM, for inputs of size D and H hidden units."""

  w_x: jax.Array  # [D, 4H]
  w_h: jax.Array  # [H, 4H]
  b: jax.Array  # [4H]


def get_weights(input_size: int, hidden_size: int, name: str) -> LSTMWeights:
  """Gets the Haiku parameters `<name>/linear/{w, b}`."""
  fan_in = input_size + hidden_size
  with hk.name_scope(f'{name}/linear'):
    w = hk.get_parameter(
      'w',
      (fan_in, 4 * hidden_size),
      init=hk.initializers.TruncatedNormal(1.0 / np.sqrt(fan_in)),
    )
    b = hk.get_parameter('b', (4 * hidden_size,), init=jnp.zeros)
  return LSTMWeights(w_x=w[:input_size], w_h=w[input_size:], b=b)


def apply_gates(gates: jax.Array, cell: jax.Array) -> hk.LSTMState:
  """Computes the element-wise half of an LSTM step.

  Args:
    gates: [..., 4H], `x·Wₓ + h·Wₕ + b`.
    cell: [..., H], the previous cell.

  Returns:
    The new hidden and cell vectors, [..., H].
  """
  i, g, f, o = jnp.split(gates, 4, axis=-1)
  # The bias of 1 opens the forget gate at initialisation.
  activated = (
    jax.nn.sigmoid(i),
    jnp.tanh(g),
    jax.nn.sigmoid(f + 1),
    jax.nn.sigmoid(o),
  )
  # Stored, since XLA would compute them again wherever their second derivatives
  # need them, which takes most of the time of a small meta-gradient.
  i, g, f, o = jax.lax.optimization_barrier(activated)
  cell = f * cell + i * g
  tanh_cell = jax.lax.optimization_barrier(jnp.tanh(cell))
  return hk.LSTMState(hidden=o * tanh_cell, cell=cell)


def unroll(
  weights: LSTMWeights,
  xs: types.Array,
  should_reset: types.Array,
  state: hk.LSTMState | None = None,
  *,
  reverse: bool,
) -> tuple[jax.Array, hk.LSTMState]:
  """Runs an LSTM over a sequence.

  Args:
    weights: weights of an LSTM with H hidden units.
    xs: [T, B, D], the inputs.
    should_reset: [T, B], True where the state is zeroed before the step.
    state: the initial state, [B, H] each; None for zeros.
    reverse: whether to run backward, from the last step to the first.

  Returns:
    The hidden vectors [T, B, H], and the final state.
  """
  gates_x: jax.Array = jnp.asarray(xs) @ weights.w_x  # [T, B, 4H]
  keep = 1.0 - jnp.asarray(should_reset, gates_x.dtype)[..., None]  # [T, B, 1]

  def step(
    state: hk.LSTMState, inputs: tuple[jax.Array, jax.Array]
  ) -> tuple[hk.LSTMState, jax.Array]:
    gates_x_t, keep_t = inputs
    hidden, cell = state.hidden * keep_t, state.cell * keep_t
    # The bias is added here, where it costs no pass over all steps.
    gates = gates_x_t + hidden @ weights.w_h + weights.b
    state = apply_gates(gates, cell)
    return state, state.hidden

  zeros = jnp.zeros_like(gates_x[0, :, : weights.w_h.shape[0]])
  initial = state or hk.LSTMState(hidden=zeros, cell=zeros)
  final, hidden = jax.lax.scan(step, initial, (gates_x, keep), reverse=reverse)
  return hidden, final
