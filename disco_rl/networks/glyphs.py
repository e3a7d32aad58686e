"""A torso for maps of symbols, such as those of NetHack."""

from collections.abc import Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl.networks import convolution
from disco_rl.networks import observations as observations_lib


class GlyphTorso(hk.Module):
  """Embeds the symbols of maps, and convolves them.

  Maps are integers with two dimensions, or three if several are stacked, whose
  order means nothing (the numbers of glyphs); bytes are images as elsewhere.
  Other integers, which may be large (statistics, scores), enter as logarithms
  of their size with their sign; bytes without dimensions of an image, such as
  texts, are scaled to [0, 1].
  """

  def __init__(
    self,
    dense: Sequence[int] = (256,),
    channels: Sequence[int] = (32, 32),
    kernel: int = 3,
    num_symbols: int = 5977,
    symbol_size: int = 16,
    name: str = 'torso',
  ):
    """Initialises the torso.

    Args:
      dense: layer sizes after the convolutions; no activation after the last.
      channels: output channels of each convolution, after which the map is
        halved.
      kernel: width of the convolutions, an odd number.
      num_symbols: number of symbols; by default those of NetHack.
      symbol_size: size of the embedding of a symbol.
      name: Haiku name.
    """
    super().__init__(name=name)
    self._dense = tuple(dense)
    self._channels = tuple(channels)
    self._kernel = kernel
    self._num_symbols = num_symbols
    self._symbol_size = symbol_size

  def __call__(self, observations: Any) -> jax.Array:
    """Computes embeddings, from a tree of [N, ...] to [N, dense[-1]]."""
    parts = []
    for x in map(jnp.asarray, jax.tree.leaves(observations)):
      if x.ndim not in (3, 4):
        parts.append(_vector(x))
        continue
      if _is_symbolic(x):
        image = self._embed(x)
      else:
        (image,), _ = observations_lib.split_images(x)
      for channels in self._channels:
        image = jax.nn.relu(convolution.Conv2D(channels, self._kernel)(image))
        image = hk.max_pool(image, (1, 2, 2, 1), (1, 2, 2, 1), 'SAME')
      parts.append(image.reshape(image.shape[0], -1))
    return hk.nets.MLP(self._dense)(jnp.concatenate(parts, axis=-1))

  def _embed(self, x: jax.Array) -> jax.Array:
    """Embeds a map [N, H, W] or [N, H, W, K] as [N, H, W, K * size]."""
    table = hk.get_parameter(
      'symbols',
      (self._num_symbols, self._symbol_size),
      init=hk.initializers.RandomNormal(1.0),
    )
    table = observations_lib.to_float(table)
    symbols = jnp.clip(x.astype(jnp.int32), 0, self._num_symbols - 1)
    return table[symbols].reshape(*x.shape[:3], -1)


def _is_symbolic(x: jax.Array) -> bool:
  return bool(jnp.issubdtype(x.dtype, jnp.integer)) and x.dtype != jnp.uint8


def _vector(x: jax.Array) -> jax.Array:
  """Converts a leaf that is no map to [N, D]."""
  flat = observations_lib.to_float(x).reshape(x.shape[0], -1)
  if x.dtype == jnp.uint8:
    return flat / 255
  if jnp.issubdtype(x.dtype, jnp.integer):
    return jnp.sign(flat) * jnp.log1p(jnp.abs(flat))
  return flat
