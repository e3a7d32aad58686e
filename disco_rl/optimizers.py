"""Optimisers one can differentiate through."""

from typing import Any

import jax
from jax import ad_checkpoint
import jax.numpy as jnp
import optax

# The derivative of an update in the gradient it is made of.
SLOPE = 'optimizer_slope'


def scale_by_adam_sg_denom(
  b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformation:
  """Adam scaling whose denominator carries no gradient.

  The update is `m̂ / (√stop(v̂) + ε)` with the usual bias-corrected moments
  (https://arxiv.org/abs/1412.6980). Meta-gradients flow through the numerator
  only: the derivative of `1/√v̂` explodes where gradients are tiny.

  Args:
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the denominator.

  Returns:
    A gradient transformation whose state is an `optax.ScaleByAdamState`.

  Example:
    >>> tx = scale_by_adam_sg_denom()
    >>> state = tx.init(jnp.zeros(2))
    >>> updates, state = tx.update(jnp.array([3.0, -0.5]), state)
    >>> [round(float(u), 3) for u in updates]
    [1.0, -1.0]
  """

  def update_fn(
    updates: optax.Updates,
    state: optax.ScaleByAdamState,
    params: optax.Params | None = None,
  ) -> tuple[optax.Updates, optax.ScaleByAdamState]:
    del params
    state = _update_moments(updates, state, b1, b2)
    numerators, denominators = _corrected(state, b1, b2, eps)
    return jax.tree.map(jnp.divide, numerators, denominators), state

  return optax.GradientTransformation(_init_moments, update_fn)


def clipped_adam(
  learning_rate: float, max_abs_update: float
) -> optax.GradientTransformation:
  """The optimiser of agents and critics.

  It is `scale_by_adam_sg_denom`, then an element-wise clip, then
  `-learning_rate`, as one function: what the backward pass through an update
  needs is then one number per parameter, the slope, which has a name. A
  `jax.checkpoint` that saves `SLOPE` need not compute the gradient again.

  Args:
    learning_rate: step size.
    max_abs_update: element-wise bound on the scaled gradient, applied before
      the learning rate.

  Returns:
    The optimiser, with the state of those three chained.
  """
  b1, b2, eps = 0.9, 0.999, 1e-8
  rest = optax.chain(optax.clip(max_abs_update), optax.scale(-learning_rate))

  def init_fn(params: optax.Params) -> tuple[Any, ...]:
    return (_init_moments(params), *rest.init(params))

  def update_fn(
    updates: optax.Updates, state: Any, params: optax.Params | None = None
  ) -> tuple[optax.Updates, tuple[Any, ...]]:
    moments, *rest_state = state
    moments = _update_moments(updates, moments, b1, b2)
    numerators, denominators = _corrected(moments, b1, b2, eps)

    def step(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
      def scaled(x: jax.Array) -> jax.Array:
        return rest.update(x / denominator, tuple(rest_state), params)[0]

      fixed = jax.lax.stop_gradient(numerator)
      update, pullback = jax.vjp(scaled, fixed)
      (slope,) = pullback(jnp.ones_like(update))
      slope = ad_checkpoint.checkpoint_name(slope, SLOPE)
      # Adds zero; its derivative is the slope's.
      return update + slope * (numerator - fixed)

    new_updates = jax.tree.map(step, numerators, denominators)
    return new_updates, (moments, *rest_state)

  return optax.GradientTransformation(init_fn, update_fn)


def _init_moments(params: optax.Params) -> optax.ScaleByAdamState:
  return optax.ScaleByAdamState(
    count=jnp.zeros([], jnp.int32),
    mu=jax.tree.map(jnp.zeros_like, params),
    nu=jax.tree.map(jnp.zeros_like, params),
  )


def _update_moments(
  updates: optax.Updates, state: optax.ScaleByAdamState, b1: float, b2: float
) -> optax.ScaleByAdamState:
  return optax.ScaleByAdamState(
    count=optax.safe_increment(state.count),
    mu=jax.tree.map(lambda g, m: b1 * m + (1 - b1) * g, updates, state.mu),
    nu=jax.tree.map(lambda g, v: b2 * v + (1 - b2) * g * g, updates, state.nu),
  )


def _corrected(
  state: optax.ScaleByAdamState, b1: float, b2: float, eps: float
) -> tuple[optax.Updates, optax.Updates]:
  """`m̂`, and `√v̂ + ε` without gradient."""
  mu_correction = 1 - b1**state.count
  nu_correction = 1 - b2**state.count
  return (
    jax.tree.map(lambda m: m / mu_correction, state.mu),
    jax.tree.map(
      lambda v: jnp.sqrt(jax.lax.stop_gradient(v / nu_correction)) + eps,
      state.nu,
    ),
  )
