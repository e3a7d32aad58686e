"""Observations of any structure as numbers a network can read."""

from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types


def to_float(x: types.Array) -> jax.Array:
  """Floating-point numbers, pixels scaled to [0, 1].

  Args:
    x: any shape. Bytes (uint8) are taken for pixels, floating-point numbers are
      left as they are, and all else is converted to float32.

  Returns:
    The same shape.
  """
  x = jnp.asarray(x)
  if jnp.issubdtype(x.dtype, jnp.floating):
    return x
  scale = 1 / 255 if x.dtype == jnp.uint8 else 1.0
  return x.astype(jnp.float32) * scale


def flatten(observations: Any) -> jax.Array:
  """All leaves in one vector per row, in tree-leaf order.

  Args:
    observations: tree of [N, ...].

  Returns:
    [N, D].
  """
  leaves = [
    to_float(x).reshape(x.shape[0], -1) for x in jax.tree.leaves(observations)
  ]
  return jnp.concatenate(leaves, axis=-1)


def split_images(observations: Any) -> tuple[list[jax.Array], list[jax.Array]]:
  """Tells images from the rest.

  Args:
    observations: tree of [N, ...].

  Returns:
    Leaves with two or three dimensions besides N, as [N, H, W, C], and all
    others as [N, D].
  """
  images, vectors = [], []
  for x in map(to_float, jax.tree.leaves(observations)):
    if x.ndim == 3:
      images.append(x[..., None])
    elif x.ndim == 4:
      images.append(x)
    else:
      vectors.append(x.reshape(x.shape[0], -1))
  return images, vectors
