"""Observations of any structure as numbers a network can read."""

from collections.abc import Iterator
import contextlib
import contextvars
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types

_DTYPE: contextvars.ContextVar[Any] = contextvars.ContextVar(
  'dtype', default=jnp.float32
)


@contextlib.contextmanager
def computing_in(dtype: Any) -> Iterator[None]:
  """Within the block, whole numbers become floating-point ones of `dtype`."""
  token = _DTYPE.set(dtype)
  try:
    yield
  finally:
    _DTYPE.reset(token)


def to_float(x: types.Array) -> jax.Array:
  """Floating-point numbers as they are, all others converted."""
  x = jnp.asarray(x)
  if jnp.issubdtype(x.dtype, jnp.floating):
    return x
  return x.astype(_DTYPE.get())


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
    Leaves with two or three dimensions besides N, as [N, H, W, C], bytes scaled
    to [0, 1]; and all others as [N, D].
  """
  images, vectors = [], []
  for x in map(jnp.asarray, jax.tree.leaves(observations)):
    if x.ndim not in (3, 4):
      vectors.append(to_float(x).reshape(x.shape[0], -1))
      continue
    scale = 1 / 255 if x.dtype == jnp.uint8 else 1
    image = to_float(x) * scale
    images.append(image if x.ndim == 4 else image[..., None])
  return images, vectors
