"""Gradients whose reverse pass is one forward-over-reverse product.

Reverse mode through a gradient step differentiates a backward pass, and stores
all of its intermediate values. But the derivative of a gradient is a Hessian,
which is symmetric: its product with the incoming cotangent equals the
directional derivative of the gradient. Forward mode computes it, together with
the cross term in the other arguments, and stores nothing.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LossFn = Callable[[Any, Any, Any], tuple[jax.Array, Any]]


def gradient(loss_fn: LossFn) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
  """Makes the gradient function of a loss, to be differentiated once more.

  Args:
    loss_fn: a function of θ, targets, and data without derivative, to a scalar
      and auxiliary outputs. It must not close over anything that is
      differentiated. Leaves of the targets that are not floating point have no
      derivative.

  Returns:
    A function of the same arguments that returns the gradient in θ, and
    `(loss, aux)`. In reverse mode, derivatives pass through the gradient to θ
    and to the targets; none pass through `(loss, aux)` or to the data.
  """

  @jax.custom_vjp
  def gradient_fn(theta: Any, targets: Any, data: Any) -> tuple[Any, Any]:
    loss_and_aux, grads = jax.value_and_grad(loss_fn, has_aux=True)(
      theta, targets, data
    )
    return grads, loss_and_aux

  def forward(theta: Any, targets: Any, data: Any) -> tuple[Any, Any]:
    return gradient_fn(theta, targets, data), (theta, targets, data)

  def reverse(residuals: Any, cotangents: Any) -> tuple[Any, Any, None]:
    theta, targets, data = residuals
    direction, _ = cotangents
    leaves, structure = jax.tree.flatten(targets)
    is_float = [jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves]

    def loss_of_floats(theta: Any, floats: list[Any]) -> tuple[jax.Array, Any]:
      rest = iter(floats)
      merged = [
        next(rest) if own else x
        for x, own in zip(leaves, is_float, strict=True)
      ]
      return loss_fn(theta, jax.tree.unflatten(structure, merged), data)

    floats = [x for x, own in zip(leaves, is_float, strict=True) if own]

    def both_gradients(theta: Any) -> tuple[Any, Any]:
      grads, _ = jax.grad(loss_of_floats, argnums=(0, 1), has_aux=True)(
        theta, floats
      )
      return grads

    # d/dε ∇L(θ + ε·direction, targets), in θ and in the targets at once.
    _, (theta_bar, floats_bar) = jax.jvp(both_gradients, (theta,), (direction,))
    rest = iter(floats_bar)
    targets_bar = [
      next(rest) if own else np.zeros(x.shape, jax.dtypes.float0)
      for x, own in zip(leaves, is_float, strict=True)
    ]
    return theta_bar, jax.tree.unflatten(structure, targets_bar), None

  gradient_fn.defvjp(forward, reverse)
  return gradient_fn
