"""Optimisers and schedules of the learning rate."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import optimizers
from tests.support import golden


def test_clipped_adam_is_a_chain():
  """Values and meta-gradients, with a schedule and weight decay, too."""
  for decay, rate in ((0.0, 0.1), (0.3, optax.linear_schedule(0.1, 0.2, 3))):
    parts = [optimizers.scale_by_adam_sg_denom(), optax.clip(0.6)]
    parts += [optax.add_decayed_weights(decay)] if decay else []
    chain = optax.chain(*parts, optax.scale_by_learning_rate(rate))
    ours = optimizers.clipped_adam(rate, 0.6, decay)
    grads = jax.random.normal(jax.random.PRNGKey(0), (4, 5))

    def train(scale, optimizer, grads=grads):
      params = jnp.arange(5.0)
      state = optimizer.init(params)
      for grad in grads:
        updates, state = optimizer.update(
          scale * grad + 0.1 * scale**2, state, params
        )
        params = optax.apply_updates(params, updates)
      return jnp.sum(jnp.sin(params)), state

    (value, state), slope = jax.value_and_grad(train, has_aux=True)(0.7, ours)
    (wanted, wanted_state), wanted_slope = jax.value_and_grad(
      train, has_aux=True
    )(0.7, chain)
    np.testing.assert_allclose(value, wanted, 1e-6)
    np.testing.assert_allclose(slope, wanted_slope, 1e-5)
    golden.check_trees_close(state, wanted_state, 1e-6)
    assert abs(slope) > 1e-3


def test_schedules():
  constant = optimizers.learning_rate_schedule(0.5)
  assert constant == 0.5
  warm = optimizers.learning_rate_schedule(0.5, warmup_updates=10)
  np.testing.assert_allclose([warm(0), warm(5), warm(99)], [0, 0.25, 0.5])
  cosine = optimizers.learning_rate_schedule(0.5, 'cosine', 10, 110)
  rates = [float(cosine(i)) for i in (0, 5, 10, 60, 110)]
  np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.25, 0], atol=1e-6)
  with pytest.raises(ValueError, match='more updates in all'):
    optimizers.learning_rate_schedule(0.5, 'cosine', 10, 10)
  with pytest.raises(ValueError, match='unknown schedule'):
    optimizers.learning_rate_schedule(0.5, 'cosin', 10, 10)


def test_a_factor_in_the_state_multiplies_updates():
  plain = optimizers.clipped_adam(0.1, 1.0, weight_decay=0.5)
  scaled = optimizers.with_factor(plain)
  params, grads = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.1])
  state = scaled.init(params)
  assert state.factor == 1.0
  state = state._replace(factor=jnp.float32(3.0))
  inner = plain.init(params)
  for _ in range(2):
    wanted, inner = plain.update(grads, inner, params)
    updates, state = scaled.update(grads, state, params)
    np.testing.assert_allclose(updates, 3.0 * wanted, 1e-6)
  assert state.factor == 3.0
