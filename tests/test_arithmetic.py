"""Counts of products and convolutions, and measured speed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import arithmetic
from disco_rl import compat
from disco_rl.networks import convolution


def test_products_of_loops_branches_and_calls_are_counted():
  x = jnp.ones((2, 3))
  y = jnp.ones((3, 4))

  @jax.jit
  def function(x, y):
    def body(carry, _):
      return carry + x @ y, None

    total, _ = jax.lax.scan(body, jnp.zeros((2, 4)), None, length=5)
    total += jax.lax.cond(x[0, 0] > 0, lambda: x @ y, lambda: jnp.ones((2, 4)))
    unused = y @ y.T
    del unused
    return jax.checkpoint(lambda: jnp.sum(total) * (x @ y))()

  flop = arithmetic.of_program(function.trace(x, y))
  np.testing.assert_allclose(flop, (5 + 1 + 1) * 2 * 2 * 3 * 4)


def test_convolutions_are_counted_as_products():
  x, w = jnp.ones((2, 5, 4, 3)), jnp.ones((3, 3, 3, 6))

  def loss(convolve, x, w):
    return jnp.sum(jnp.square(convolve(x, w)))

  for convolve in (
    convolution.convolve_by_product,
    lambda x, w: jax.lax.conv_general_dilated(
      x, w, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
    ),
  ):
    function = functools.partial(loss, convolve)
    once = 2 * (2 * 5 * 4) * (9 * 3 * 6)
    traced = jax.jit(function).trace(x, w)
    np.testing.assert_allclose(arithmetic.of_program(traced), once)
    traced = jax.jit(jax.grad(function, (0, 1))).trace(x, w)
    np.testing.assert_allclose(arithmetic.of_program(traced), 3 * once)


def test_all_devices_are_counted():
  x = jnp.ones((8, 3))
  mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:4]), ('x',))
  spec = jax.sharding.PartitionSpec('x')
  sharded = jax.jit(
    compat.shard_map(lambda x: x @ jnp.ones((3, 5)), mesh, (spec,), spec)
  )
  assert arithmetic.of_program(sharded.trace(x)) == 2 * 8 * 3 * 5


def test_the_speed_is_that_of_units(monkeypatch):
  seconds = iter([0.5, 0.25, 1.0, 0.3, 0.4])
  monkeypatch.setattr(arithmetic, 'make_unit', lambda: lambda: next(seconds))
  assert arithmetic.measure_speed() == pytest.approx(24.3e9 / 0.25)
