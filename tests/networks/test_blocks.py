import jax
import jax.numpy as jnp
import pytest

from disco_rl.networks import blocks
from tests.support import golden


def _normalize(rows):
  weights = jax.nn.softmax(rows['x'])
  return weights, dict(sum=(weights * rows['scale'][:, None]).sum(-1))


# One block, blocks of equal size, and a prime number of rows, with padding.
@pytest.mark.parametrize('num_rows', [1, 2, 12, 13])
def test_blocks_equal_the_whole(num_rows):
  rows = dict(
    x=jax.random.normal(jax.random.PRNGKey(0), (num_rows, 5)),
    scale=jnp.arange(1.0, num_rows + 1),
  )
  wanted = _normalize(rows)
  actual = blocks.map_rows(_normalize, rows, 5, block_elements=15)
  golden.check_trees_close(actual, wanted, 1e-6)

  def loss(rows, apply):
    weights, sums = apply(rows)
    return jnp.sum(jnp.sin(weights)) + jnp.sum(sums['sum'] ** 2)

  in_blocks = lambda rows: blocks.map_rows(_normalize, rows, 5, 15)
  grads = [jax.grad(loss)(rows, f) for f in (in_blocks, _normalize)]
  golden.check_trees_close(*grads, 1e-5)


def test_blocks_are_no_larger_than_asked_for():
  sizes = []

  def record(rows):
    sizes.append(rows.shape[0])
    return rows

  for num_rows in range(1, 40):
    out = blocks.map_rows(record, jnp.ones((num_rows, 7)), 7, 35)
    assert out.shape == (num_rows, 7)
  assert max(sizes) == 5
