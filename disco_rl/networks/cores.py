"""Cores: the memory of a network, between its torso and its heads.

A core is built by name from `CORES` with its own keyword arguments, inside a
Haiku transform. To add one, write a class with the two methods of `LSTMCore`:

```python
cores.CORES['mine'] = MyCore
```
"""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.networks import lstm


class LSTMCore:
  """An LSTM whose state is reset at the start of an episode."""

  def __init__(self, size: int = 256):
    """Initialises the core.

    Args:
      size: H, the number of hidden units.
    """
    self._size = size

  def initial_state(self, batch_size: int) -> hk.LSTMState:
    """Makes a state of zeros, [B, H] each."""
    zeros = jnp.zeros((batch_size, self._size))
    return hk.LSTMState(hidden=zeros, cell=zeros)

  def __call__(
    self, embeddings: jax.Array, should_reset: types.Array, state: hk.LSTMState
  ) -> tuple[jax.Array, hk.LSTMState]:
    """Runs the LSTM along a trajectory.

    Args:
      embeddings: [T, B, D].
      should_reset: [T, B], True where the state is zeroed *before* the step.
      state: the state before the first step, [B, H] each.

    Returns:
      The hidden vectors [T, B, H], and the state after the last step.
    """
    weights = lstm.get_weights(embeddings.shape[-1], self._size, name='core')
    return lstm.unroll(
      weights, jax.nn.relu(embeddings), should_reset, state, reverse=False
    )


CORES: dict[str, Callable[..., Any]] = {'lstm': LSTMCore}
