"""Mixed-mode differentiation gives the gradients of plain reverse mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.learning import mixed_mode
from tests.support import golden
from tests.support import small


@pytest.mark.parametrize(
  ('dtype', 'tolerance'), [(np.float64, 1e-9), (np.float32, 1e-4)]
)
def test_mixed_mode_is_plain_reverse_mode(dtype, tolerance):
  """In a small network with all operations of a learner step."""

  def loss_fn(theta, targets, data):
    hidden = jnp.tanh(data @ theta['w'] + theta['b'])
    frozen = jax.lax.stop_gradient(jnp.roll(hidden, 1, 0))
    loss = jnp.sum(jnp.square(hidden - targets['y'])) + jnp.sum(
      hidden * frozen * jnp.exp(targets['scale'])
    )
    return loss, dict(size=jnp.sum(hidden))

  def after_steps(gradient_fn, eta, theta, data):
    for _ in range(3):
      targets = dict(
        y=jnp.sin(eta * jnp.sum(data @ theta['w'], 0)), scale=eta**2
      )
      grads, (_, aux) = gradient_fn(theta, targets, data)
      theta = jax.tree.map(lambda x, g: x - 0.1 * g, theta, grads)
    return jnp.sum(jnp.cos(theta['w'])) + 0 * aux['size']

  def plain(theta, targets, data):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(
      theta, targets, data
    )
    return grads, (loss, aux)

  with small.enable_x64(True):
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    theta = dict(
      w=jax.random.normal(keys[0], (4, 5), dtype),
      b=jax.random.normal(keys[1], (5,), dtype),
    )
    data = jax.random.normal(keys[2], (6, 4), dtype)
    results = [
      jax.grad(after_steps, argnums=(1, 2))(fn, dtype(0.3), theta, data)
      for fn in (plain, mixed_mode.gradient(loss_fn))
    ]
    golden.check_trees_close(*map(jax.device_get, results), tolerance)
    assert abs(results[0][0]) > 1e-3
