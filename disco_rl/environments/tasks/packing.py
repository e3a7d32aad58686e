"""Packs trees of small arrays into vectors of one length.

The branches of a conditional must return arrays of the same shapes, but every
family of tasks has its own parameters and states.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types


class Packing:
  """Converts trees like an example to vectors in float32, and back.

  Whole numbers must be smaller than 2²⁴, to be exact.

  Attributes:
    size: length of a vector.
  """

  def __init__(self, example: Any):
    """Initialises the packing.

    Args:
      example: a tree of arrays or specs.
    """
    leaves, self._structure = jax.tree.flatten(example)
    self._leaves = [(leaf.shape, leaf.dtype) for leaf in leaves]
    self._sizes = [math.prod(shape) for shape, _ in self._leaves]
    self.size = sum(self._sizes)

  def pack(self, tree: Any, size: int) -> jax.Array:
    """Returns a tree as [size], float32, with zeros at the end."""
    parts = [
      jnp.asarray(leaf).astype(jnp.float32).reshape(-1)
      for leaf in jax.tree.leaves(tree)
    ]
    return jnp.concatenate([*parts, jnp.zeros(size - self.size)])

  def unpack(self, vector: types.Array) -> Any:
    """Returns the tree of a vector, [self.size] or longer."""
    leaves, first = [], 0
    for (shape, dtype), size in zip(self._leaves, self._sizes, strict=True):
      part = vector[first : first + size].reshape(shape)
      leaves.append(part.astype(dtype))
      first += size
    return jax.tree.unflatten(self._structure, leaves)
