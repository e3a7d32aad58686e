"""Softmax categorical distributions, given by their logits [..., N]."""

import jax
import jax.numpy as jnp

from disco_rl import types


def kl_divergence(p_logits: types.Array, q_logits: types.Array) -> jax.Array:
  """Computes KL(p‖q) = Σ p·(log p - log q), [..., N] and [..., N] to [...]."""
  log_p = jax.nn.log_softmax(p_logits)
  log_q = jax.nn.log_softmax(q_logits)
  return jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)


def entropy(logits: types.Array) -> jax.Array:
  """Computes H(p) = -Σ p·log p, [..., N] to [...]."""
  log_p = jax.nn.log_softmax(logits)
  return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
