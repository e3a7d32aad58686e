"""Tests of the LSTM's derivatives, against those of a plain loop."""

import chex
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.networks import lstm

T, B, D, H = 5, 3, 4, 6


def plain_unroll(weights, xs, should_reset, state, *, reverse):
  """Takes one step after the other, and leaves derivatives to JAX."""
  steps = range(T - 1, -1, -1) if reverse else range(T)
  outs = {}
  for t in steps:
    keep = 1.0 - should_reset[t].astype(jnp.float32)[:, None]
    gates = (
      xs[t] @ weights.w_x + (state.hidden * keep) @ weights.w_h + weights.b
    )
    i, g, f, o = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(f + 1) * state.cell * keep
    cell += jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    state = hk.LSTMState(hidden=hidden, cell=cell)
    outs[t] = hidden
  return jnp.stack([outs[t] for t in range(T)]), state


def problem(seed=0):
  """Draws weights, inputs and an initial state, and resets."""
  rng = np.random.default_rng(seed)
  normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
  weights = lstm.LSTMWeights(
    w_x=normal(D, 4 * H), w_h=normal(H, 4 * H), b=normal(4 * H)
  )
  state = hk.LSTMState(hidden=normal(B, H), cell=normal(B, H))
  resets = jnp.asarray(rng.random((T, B)) < 0.3)
  return (weights, normal(T, B, D), state), resets


def loss_of(unroll, resets, reverse):
  """Makes a function of all arrays that depends on every output."""

  def loss(arrays):
    weights, xs, state = arrays
    hidden, final = unroll(weights, xs, resets, state, reverse=reverse)
    scale = jnp.arange(1.0, hidden.size + 1).reshape(hidden.shape)
    return (
      jnp.sum(jnp.sin(scale) * hidden**2)
      + jnp.sum(jnp.cos(final.hidden))
      + jnp.sum(final.cell**3)
    )

  return loss


@pytest.mark.parametrize('reverse', [False, True])
def test_values_and_gradients_are_those_of_a_plain_loop(reverse):
  arrays, resets = problem()
  assert resets.any() and not resets.all()
  ours, plain = (
    jax.jit(jax.value_and_grad(loss_of(unroll, resets, reverse)))(arrays)
    for unroll in (lstm.unroll, plain_unroll)
  )
  chex.assert_trees_all_close(ours, plain, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize('reverse', [False, True])
def test_forward_mode_and_second_derivatives(reverse):
  arrays, resets = problem()
  direction, _ = problem(seed=1)

  def derivatives(unroll):
    loss = loss_of(unroll, resets, reverse)
    forward = jax.jvp(loss, (arrays,), (direction,))
    forward_of_reverse = jax.jvp(jax.grad(loss), (arrays,), (direction,))
    slope = lambda arrays: jax.jvp(loss, (arrays,), (direction,))[1]
    return forward, forward_of_reverse, jax.grad(slope)(arrays)

  ours, plain = (
    jax.jit(derivatives, static_argnums=0)(unroll)
    for unroll in (lstm.unroll, plain_unroll)
  )
  chex.assert_trees_all_close(ours, plain, rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(
  jax.__version_info__ < (0, 10), reason='derivatives are those of JAX then'
)
def test_the_gradient_of_the_weights_is_one_product_for_all_steps():
  arrays, resets = problem()
  loss = loss_of(lstm.unroll, resets, reverse=True)
  jaxpr = jax.make_jaxpr(jax.grad(loss))(arrays).jaxpr
  scans = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == 'scan']
  assert len(scans) == 2  # Forward and backward.
  for scan in scans:
    assert (H, 4 * H) not in [x.aval.shape for x in scan.outvars]
