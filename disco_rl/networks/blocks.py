"""Applies functions of rows in blocks, so that intermediate results stay small.

XLA on CPU allocates fresh memory for the intermediate results of every call;
those of a block are small enough for the processor's cache and are reused by
the next block.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# Elements of the largest intermediate result of a block, 8 MB in float32: the
# fastest of 1 to 16 MB on two cores with 32 MB of cache.
BLOCK_ELEMENTS = 2**21


def map_rows(
  fn: Callable[[Any], Any],
  rows: Any,
  width: int,
  block_elements: int = BLOCK_ELEMENTS,
) -> Any:
  """Applies a function to blocks of rows, sequentially.

  Reverse-mode derivatives recompute a block instead of storing its intermediate
  results.

  Args:
    fn: a function from a tree of [n, ...] to a tree of [n, ...], for any n. No
      row of its result may depend on other rows.
    rows: tree of [N, ...].
    width: elements of the largest intermediate result per row.
    block_elements: bound of `n * width` for one block.

  Returns:
    `fn(rows)`, a tree of [N, ...].
  """
  num_rows = jax.tree.leaves(rows)[0].shape[0]
  num_blocks = -(-num_rows * width // block_elements)
  if num_blocks <= 1:
    return fn(rows)
  num_blocks = number_of_blocks(num_rows, num_blocks)
  block_size = -(-num_rows // num_blocks)
  padding = num_blocks * block_size - num_rows

  def to_blocks(x: jax.Array) -> jax.Array:
    if padding:
      x = jnp.concatenate([x, jnp.zeros((padding, *x.shape[1:]), x.dtype)])
    return x.reshape(num_blocks, block_size, *x.shape[1:])

  outs = jax.lax.map(jax.checkpoint(fn), jax.tree.map(to_blocks, rows))
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num_rows], outs)


def number_of_blocks(num_rows: int, least: int) -> int:
  """Returns a number of blocks that divides the rows evenly, if there is one.

  Args:
    num_rows: number of rows to divide.
    least: the least number of blocks; at most `num_rows` count.

  Returns:
    A divisor of `num_rows` from `least` to twice as many; else `least`.
  """
  first = max(1, min(least, num_rows))
  candidates = range(first, min(2 * first, num_rows) + 1)
  return next((n for n in candidates if num_rows % n == 0), first)
