"""Torsos: compute one embedding per step from observations.

A torso is built by name from `TORSOS` with its own keyword arguments, inside a
Haiku transform, and called with a tree of [N, ...]; it returns [N, D]. To add
one, register a class of Haiku modules, or a function that returns a function:

```python
torsos.register_torso('mine', MyTorso)
```
"""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import utils
from disco_rl.networks import convolution
from disco_rl.networks import glyphs
from disco_rl.networks import observations as observations_lib


def mlp_torso(
  dense: Sequence[int] = (512, 512),
) -> Callable[[Any], jax.Array]:
  """Makes a ReLU MLP on the flattened observation.

  Args:
    dense: layer sizes; no activation after the last one.

  Returns:
    A function from a tree of [N, ...] to [N, dense[-1]].
  """
  mlp = hk.nets.MLP(tuple(dense), name='torso')
  return lambda observations: mlp(observations_lib.flatten(observations))


class ConvTorso(hk.Module):
  """Convolutions that keep the image's size, for small images.

  The defaults are for the 10 x 10 images of MinAtar
  (https://arxiv.org/abs/1903.03176).
  """

  def __init__(
    self,
    dense: Sequence[int] = (128,),
    channels: Sequence[int] = (16,),
    kernel: int = 3,
    name: str = 'torso',
  ):
    """Initialises the torso.

    Args:
      dense: layer sizes after the convolutions; no activation after the last.
      channels: output channels of each convolution.
      kernel: width of the convolutions, an odd number.
      name: Haiku name.
    """
    super().__init__(name=name)
    self._dense = tuple(dense)
    self._channels = tuple(channels)
    self._kernel = kernel

  def __call__(self, observations: Any) -> jax.Array:
    """Computes embeddings, from a tree of [N, ...] to [N, dense[-1]]."""

    def convolve(x: jax.Array) -> jax.Array:
      for channels in self._channels:
        x = jax.nn.relu(convolution.Conv2D(channels, self._kernel)(x))
      return x

    return _join(observations, convolve, self._dense)


class ResidualTorso(hk.Module):
  """The residual network of IMPALA (https://arxiv.org/abs/1802.01561).

  Each stage is a convolution, a max pooling with stride 2, and residual blocks
  of two convolutions.
  """

  def __init__(
    self,
    dense: Sequence[int] = (256,),
    channels: Sequence[int] = (16, 32, 32),
    num_blocks: int = 2,
    name: str = 'torso',
  ):
    """Initialises the torso.

    Args:
      dense: layer sizes after the stages; no activation after the last.
      channels: output channels of each stage.
      num_blocks: residual blocks per stage.
      name: Haiku name.
    """
    super().__init__(name=name)
    self._dense = tuple(dense)
    self._channels = tuple(channels)
    self._num_blocks = num_blocks

  def __call__(self, observations: Any) -> jax.Array:
    """Computes embeddings, from a tree of [N, ...] to [N, dense[-1]]."""

    def convolve(x: jax.Array) -> jax.Array:
      for channels in self._channels:
        x = convolution.Conv2D(channels, 3)(x)
        x = hk.max_pool(x, (1, 3, 3, 1), (1, 2, 2, 1), 'SAME')
        for _ in range(self._num_blocks):
          residual = x
          for _ in range(2):
            residual = convolution.Conv2D(channels, 3)(jax.nn.relu(residual))
          x += residual
      return jax.nn.relu(x)

    return _join(observations, convolve, self._dense)


TORSOS: dict[str, Callable[..., Any]] = {
  'mlp': mlp_torso,
  'conv': ConvTorso,
  'residual': ResidualTorso,
  'glyphs': glyphs.GlyphTorso,
}
BUILT_IN = frozenset(TORSOS)


def register_torso(name: str, build: Callable[..., Any]) -> None:
  """Registers a torso of your own.

  Args:
    name: its name, e.g. for `--net`. Registering a name again replaces the
      earlier torso; built-in names cannot be replaced.
    build: builds the torso, see the top of this file. Its arguments need
      defaults and become settings (`agent.net_settings.net_args`).
  """
  utils.check_name(name, 'torso', BUILT_IN)
  TORSOS[name] = build


def _join(
  observations: Any,
  convolve: Callable[[jax.Array], jax.Array],
  dense: Sequence[int],
) -> jax.Array:
  """Convolves images, concatenates all other leaves, and applies an MLP."""
  images, vectors = observations_lib.split_images(observations)
  if not images:
    shapes = [tuple(x.shape[1:]) for x in jax.tree.leaves(observations)]
    raise ValueError(
      'a convolutional torso needs an observation with two or three '
      f"dimensions, got {shapes}; 'mlp' reads any"
    )
  parts = [convolve(x) for x in images]
  flat = [x.reshape(x.shape[0], -1) for x in (*parts, *vectors)]
  return hk.nets.MLP(tuple(dense))(jnp.concatenate(flat, axis=-1))
