"""An LSTM cell with separate input and recurrent products.

`hk.LSTM` multiplies the concatenation `[x, h]` by one matrix. Split by rows,
the product is `x·Wₓ + h·Wₕ`, and one half can often be computed once for many
steps (all inputs of a sequence) or once for many inputs (all actions from one
state). Parameter names, shapes and initial values are those of `hk.LSTM`.
"""

from typing import Any, NamedTuple

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


def activate(
  gates: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Computes the activations of an LSTM step.

  Args:
    gates: [..., 4H].

  Returns:
    Input gate, candidate, forget gate and output gate, [..., H] each.
  """
  i, g, f, o = jnp.split(gates, 4, axis=-1)
  # The bias of 1 opens the forget gate at initialisation.
  return (
    jax.nn.sigmoid(i),
    jnp.tanh(g),
    jax.nn.sigmoid(f + 1),
    jax.nn.sigmoid(o),
  )


def apply_gates(gates: jax.Array, cell: jax.Array) -> hk.LSTMState:
  """Computes the element-wise half of an LSTM step.

  Args:
    gates: [..., 4H], `x·Wₓ + h·Wₕ + b`.
    cell: [..., H], the previous cell.

  Returns:
    The new hidden and cell vectors, [..., H].
  """
  # Stored, since XLA would compute them again wherever their second derivatives
  # need them, which takes most of the time of a small meta-gradient.
  i, g, f, o = jax.lax.optimization_barrier(activate(gates))
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
  zeros = jnp.zeros_like(gates_x[0, :, : weights.w_h.shape[0]])
  # JAX 0.5 cannot transpose loops in a derivative of one's own.
  is_old = jax.__version_info__ < (0, 10)
  hidden, cells = (_plain_recurrence if is_old else _recurrence)(
    gates_x,
    weights.w_h,
    weights.b,
    jnp.asarray(should_reset, bool),
    state or hk.LSTMState(hidden=zeros, cell=zeros),
    reverse,
  )
  last = 0 if reverse else -1
  return hidden, hk.LSTMState(hidden=hidden[last], cell=cells[last])


def _plain_recurrence(
  gates_x: jax.Array,
  w_h: jax.Array,
  b: jax.Array,
  should_reset: jax.Array,
  state: hk.LSTMState,
  reverse: bool,
) -> tuple[jax.Array, jax.Array]:
  """Runs an LSTM over a sequence whose input products are given.

  Args:
    gates_x: [T, B, 4H], `x·Wₓ`.
    w_h: [H, 4H].
    b: [4H].
    should_reset: [T, B], bool.
    state: the initial state, [B, H] each.
    reverse: whether to run backward.

  Returns:
    The hidden and the cell vectors, [T, B, H] each.
  """
  outs = _unroll_gates(gates_x, w_h, b, should_reset, state, reverse)
  return outs.hidden, outs.cell


_recurrence = jax.custom_jvp(_plain_recurrence, nondiff_argnums=(5,))


class _Unrolled(NamedTuple):
  """What the steps of an LSTM compute."""

  gates: jax.Array  # [T, B, 4H]
  hidden: jax.Array  # [T, B, H]
  cell: jax.Array  # [T, B, H]


def _unroll_gates(
  gates_x: jax.Array,
  w_h: jax.Array,
  b: jax.Array,
  should_reset: jax.Array,
  state: hk.LSTMState,
  reverse: bool,
) -> _Unrolled:
  """Runs an LSTM over a sequence; arguments as in `_plain_recurrence`."""

  def step(
    state: hk.LSTMState, inputs: tuple[jax.Array, jax.Array]
  ) -> tuple[hk.LSTMState, _Unrolled]:
    gates_x_t, keep_t = inputs
    # The bias is added here, where it costs no pass over all steps.
    gates = gates_x_t + (state.hidden * keep_t) @ w_h + b
    state = apply_gates(gates, state.cell * keep_t)
    return state, _Unrolled(gates, state.hidden, state.cell)

  keep = 1.0 - should_reset.astype(gates_x.dtype)[..., None]  # [T, B, 1]
  _, outs = jax.lax.scan(step, state, (gates_x, keep), reverse=reverse)
  return outs


@_recurrence.defjvp
def _recurrence_jvp(reverse: bool, primals: Any, tangents: Any) -> Any:
  """Differentiates the recurrence.

  All that does not depend on the tangents of earlier steps is computed for all
  steps at once: the slopes, and the product with the tangent of `w_h`. In
  reverse mode, the gradient of `w_h` is then one product, instead of a sum that
  grows with every step, and little is stored.
  """
  gates_x, w_h, b, should_reset, state = primals
  gates_x_dot, w_h_dot, b_dot, _, state_dot = tangents
  outs = _unroll_gates(gates_x, w_h, b, should_reset, state, reverse)
  keep = 1.0 - should_reset.astype(gates_x.dtype)[..., None]

  def before(first: jax.Array, steps: jax.Array) -> jax.Array:
    """Shifts the results of steps to the steps that start from them."""
    parts = [steps[1:], first[None]] if reverse else [first[None], steps[:-1]]
    return keep * jnp.concatenate(parts)

  i, g, f, o = activate(outs.gates)
  tanh_cell = jnp.tanh(outs.cell)
  slopes = jnp.concatenate(
    [
      g * i * (1 - i),
      i * (1 - jnp.square(g)),
      before(state.cell, outs.cell) * f * (1 - f),
      tanh_cell * o * (1 - o),
    ],
    axis=-1,
  )  # [T, B, 4H], of the cell in i, g and f, and of the hidden vector in o.
  cell_slope = o * (1 - jnp.square(tanh_cell))  # Of the hidden vector.
  inputs_dot = gates_x_dot + before(state.hidden, outs.hidden) @ w_h_dot + b_dot

  def step(state_dot: hk.LSTMState, inputs: Any) -> Any:
    input_dot, slope, cell_slope_t, forget, keep_t = inputs
    gates_dot = input_dot + (state_dot.hidden * keep_t) @ w_h
    parts = jnp.split(slope * gates_dot, 4, axis=-1)
    cell_dot = forget * state_dot.cell + parts[0] + parts[1] + parts[2]
    hidden_dot = parts[3] + cell_slope_t * cell_dot
    state_dot = hk.LSTMState(hidden=hidden_dot, cell=cell_dot)
    return state_dot, (hidden_dot, cell_dot)

  _, outs_dot = jax.lax.scan(
    step,
    state_dot,
    (inputs_dot, slopes, cell_slope, f * keep, keep),
    reverse=reverse,
  )
  return (outs.hidden, outs.cell), outs_dot
