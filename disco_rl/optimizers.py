"""Optimisers one can differentiate through."""

import jax
import jax.numpy as jnp
import optax


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

  def init_fn(params: optax.Params) -> optax.ScaleByAdamState:
    return optax.ScaleByAdamState(
      count=jnp.zeros([], jnp.int32),
      mu=jax.tree.map(jnp.zeros_like, params),
      nu=jax.tree.map(jnp.zeros_like, params),
    )

  def update_fn(
    updates: optax.Updates,
    state: optax.ScaleByAdamState,
    params: optax.Params | None = None,
  ) -> tuple[optax.Updates, optax.ScaleByAdamState]:
    del params
    mu = jax.tree.map(lambda g, m: b1 * m + (1 - b1) * g, updates, state.mu)
    nu = jax.tree.map(lambda g, v: b2 * v + (1 - b2) * g * g, updates, state.nu)
    count = optax.safe_increment(state.count)
    mu_correction = 1 - b1**count
    nu_correction = 1 - b2**count

    def scale(m: jax.Array, v: jax.Array) -> jax.Array:
      v_hat = jax.lax.stop_gradient(v / nu_correction)
      return (m / mu_correction) / (jnp.sqrt(v_hat) + eps)

    return (
      jax.tree.map(scale, mu, nu),
      optax.ScaleByAdamState(count=count, mu=mu, nu=nu),
    )

  return optax.GradientTransformation(init_fn, update_fn)


def clipped_adam(
  learning_rate: float, max_abs_update: float
) -> optax.GradientTransformation:
  """The optimiser of agents and critics.

  Args:
    learning_rate: step size.
    max_abs_update: element-wise bound on the scaled gradient, applied before
      the learning rate.

  Returns:
    Adam scaling, then the element-wise clip, then `-learning_rate`.
  """
  return optax.chain(
    scale_by_adam_sg_denom(),
    optax.clip(max_abs_update),
    optax.scale(-learning_rate),
  )
