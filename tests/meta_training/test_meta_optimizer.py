"""The optimiser of η: the Adam of a config, or a custom one."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl.config import meta_training as config_lib
from disco_rl.meta_training import meta_optimizer

ETA = {'a': {'w': jnp.arange(3.0)}, 'b': {'w': jnp.ones((2, 2))}}


def _flat(tree):
  return jax.flatten_util.ravel_pytree(tree)[0]


def _updates(optimizer, num_updates=3):
  """Computes updates of η for a constant gradient."""
  state, updates = optimizer.init(ETA), []
  for _ in range(num_updates):
    update, state = optimizer.update(_flat(ETA), state, ETA)
    updates.append(np.asarray(update))
  return updates


def test_the_config_describes_an_adam():
  config = config_lib.Config(
    learning_rate=0.1, max_grad_norm=1e-3, max_abs_update=0.5
  )
  actual = _updates(meta_optimizer.MetaOptimizer(config))
  by_hand = optax.chain(
    optax.clip_by_global_norm(1e-3),
    optax.scale_by_adam(),
    optax.clip(0.5),
    optax.scale(-0.1),
  )
  wanted = _updates(meta_optimizer.MetaOptimizer(config_lib.Config(), by_hand))
  np.testing.assert_allclose(actual, wanted, 1e-5)
  assert np.abs(actual).max() <= 0.05 + 1e-6


def test_an_optimizer_of_ones_own_is_given_trees():
  labels = {'a': 'fast', 'b': 'slow'}
  parts = dict(fast=optax.sgd(1.0), slow=optax.sgd(0.1))
  optimizer = meta_optimizer.MetaOptimizer(
    config_lib.Config(), optax.multi_transform(parts, labels)
  )
  (update,) = _updates(optimizer, 1)
  wanted = {'a': {'w': -ETA['a']['w']}, 'b': {'w': -0.1 * ETA['b']['w']}}
  np.testing.assert_allclose(update, _flat(wanted), 1e-6)


@pytest.mark.parametrize(
  'change',
  [dict(learning_rate=1e-3), dict(max_grad_norm=1.0), dict(max_abs_update=1.0)],
)
def test_settings_that_would_have_no_effect_are_refused(change):
  with pytest.raises(ValueError, match='no effect beside meta_optimizer'):
    meta_optimizer.MetaOptimizer(config_lib.Config(**change), optax.sgd(1.0))
