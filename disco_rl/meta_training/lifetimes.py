"""Draws what differs between agents, when they are reset.

That is their lifetime, the number of inner updates until they are reset, and
perhaps their learning rate.
"""

from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp
import numpy as np

_FOREVER = np.iinfo(np.int32).max
# Folded into keys for independent draws. Large, since folding in small numbers
# gives the keys that splitting gives, too.
_SHARE, _LIFETIME, _LEARNING_RATE = 2**31 + 2, 2**31 + 3, 2**31 + 5


def sample(rng: chex.PRNGKey, lifetimes: Sequence[int]) -> jax.Array:
  """Draws the lifetime of one agent, with probability ∝ 1 / lifetime.

  Args:
    rng: key; a number is folded into it.
    lifetimes: lifetimes in inner updates; empty for no limit.

  Returns:
    One of them, [], int32; the largest int32 without a limit.
  """
  if not lifetimes:
    return jnp.asarray(_FOREVER, jnp.int32)
  values = jnp.asarray(lifetimes, jnp.int32)
  weights = 1.0 / values
  return jax.random.choice(
    jax.random.fold_in(rng, _LIFETIME), values, p=weights / jnp.sum(weights)
  )


def sample_first(rng: chex.PRNGKey, lifetimes: Sequence[int]) -> jax.Array:
  """Draws an agent's first lifetime, shortened so that not all end together.

  Args:
    rng: key; numbers are folded into it.
    lifetimes: see `sample`.

  Returns:
    A random fraction of a lifetime, at least 1, [], int32.
  """
  lifetime = sample(rng, lifetimes)
  if not lifetimes:
    return lifetime
  share = jax.random.uniform(jax.random.fold_in(rng, _SHARE))
  return jnp.maximum((share * lifetime).astype(jnp.int32), 1)


def sample_learning_rate(
  rng: chex.PRNGKey, bounds: Sequence[float]
) -> jax.Array:
  """Draws the learning rate of one agent, log-uniform.

  Args:
    rng: key; a number is folded into it.
    bounds: the lowest and the highest one.

  Returns:
    [], float32.
  """
  low, high = np.log(bounds)
  own_rng = jax.random.fold_in(rng, _LEARNING_RATE)
  return jnp.exp(jax.random.uniform(own_rng, minval=low, maxval=high))
