"""Converts observations of any structure to inputs of a network."""

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
  """Sets the dtype that `to_float` converts integers to, within a block."""
  token = _DTYPE.set(dtype)
  try:
    yield
  finally:
    _DTYPE.reset(token)


def to_float(x: types.Array) -> jax.Array:
  """Converts to floating point; floating-point arrays are unchanged."""
  x = jnp.asarray(x)
  if jnp.issubdtype(x.dtype, jnp.floating):
    return x
  return x.astype(_DTYPE.get())


def flatten(observations: Any) -> jax.Array:
  """Concatenates all leaves to one vector per row, in tree-leaf order.

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
  """Separates images from other observations.

  Args:
    observations: tree of [N, ...].

  Returns:
    The leaves with two or three dimensions besides N, as [N, H, W, C] with
    bytes scaled to [0, 1]; and all others, as [N, D].
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
