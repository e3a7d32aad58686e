"""Convolutions that avoid a slow path of XLA on CPU.

On CPU, XLA differentiates a convolution inside a loop or a condition ten times
slower than outside, and all training runs inside loops. A matrix product of
shifted copies is slower outside, but five times faster inside.
"""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np


class Conv2D(hk.Module):
  """A convolution with stride 1 that keeps the image's size.

  Names, shapes and initial values of its parameters are those of `hk.Conv2D`.
  """

  def __init__(self, channels: int, kernel: int, name: str = 'conv2_d'):
    """Initialises the layer.

    Args:
      channels: number of output channels.
      kernel: width of the kernel, an odd number.
      name: Haiku name.
    """
    super().__init__(name=name)
    if kernel % 2 == 0:
      raise ValueError(f'kernel must be an odd number, got {kernel}')
    self._channels = channels
    self._kernel = kernel

  def __call__(self, x: jax.Array) -> jax.Array:
    """Convolves images, [N, H, W, C] to [N, H, W, channels]."""
    kernel, size = self._kernel, x.shape[-1]
    w = hk.get_parameter(
      'w',
      (kernel, kernel, size, self._channels),
      init=hk.initializers.TruncatedNormal(1 / np.sqrt(kernel**2 * size)),
    )
    b = hk.get_parameter('b', (self._channels,), init=jnp.zeros)
    if jax.default_backend() == 'cpu':
      return convolve_by_product(x, w) + b
    dimensions = ('NHWC', 'HWIO', 'NHWC')
    return (
      jax.lax.conv_general_dilated(
        x, w, (1, 1), 'SAME', dimension_numbers=dimensions
      )
      + b
    )


def convolve_by_product(x: jax.Array, w: jax.Array) -> jax.Array:
  """Computes a convolution with stride 1 as one matrix product.

  Args:
    x: [N, H, W, C].
    w: [K, K, C, D], with K an odd number.

  Returns:
    [N, H, W, D].
  """
  kernel, margin = w.shape[0], w.shape[0] // 2
  _, height, width, _ = x.shape
  padded = jnp.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
  shifted = [
    padded[:, i : i + height, j : j + width]
    for i in range(kernel)
    for j in range(kernel)
  ]
  return jnp.concatenate(shifted, axis=-1) @ w.reshape(-1, w.shape[-1])
