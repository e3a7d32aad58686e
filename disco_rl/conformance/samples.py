"""Small sizes of the cases, and random arrays of those sizes.

All sizes differ, so that arrays with exchanged axes have another shape.
"""

import zlib

import numpy as np

T = 5  # Transitions; a trajectory has T + 1 steps.
B = 2  # Batch.
A = 3  # Actions.
Y = 8  # Size of the predictions y and z.
BINS = 11  # Of categorical values.
H = 4  # Hidden units.
D = 7  # Size of an observation.
MAX_ABS_VALUE = 5.0  # The bins span ± this.

SIZES = dict(T=T, B=B, A=A, Y=Y, bins=BINS, H=H, D=D)


class Samples:
  """Draws arrays that depend on nothing but a name.

  NumPy promises never to change the numbers of `RandomState`.
  """

  def __init__(self, name: str):
    """Initialises the generator from the name of a case."""
    self._state = np.random.RandomState(zlib.crc32(name.encode()))

  def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Draws normal numbers, float32."""
    return (scale * self._state.normal(size=shape)).astype(np.float32)

  def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
    """Draws uniform numbers, float32."""
    return self._state.uniform(low, high, size=shape).astype(np.float32)

  def actions(self, *shape: int) -> np.ndarray:
    """Draws actions, int32."""
    return self._state.randint(0, A, size=shape).astype(np.int32)

  def rewards(self, *shape: int) -> np.ndarray:
    """Draws rewards, float32."""
    return self.normal(*shape)

  def policy(self, *shape: int) -> np.ndarray:
    """Draws probabilities, which sum to 1 over the last axis, float32."""
    weights = self._state.uniform(0.1, 1.0, size=shape)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)

  def outputs(self, num_steps: int = T + 1) -> dict[str, np.ndarray]:
    """Draws the outputs of an agent, leaves [num_steps, B, ...]."""
    return dict(
      logits=self.normal(num_steps, B, A),
      y=self.normal(num_steps, B, Y),
      z=self.normal(num_steps, B, A, Y),
      aux_pi=self.normal(num_steps, B, A, A),
      q=self.normal(num_steps, B, A, BINS),
    )


def discounts() -> np.ndarray:
  """Makes discounts [T+1, B] with episodes that end inside the trajectory.

  The first stream has an end inside and one at its last step; the second
  begins at the end of an episode, and has another end inside.
  """
  x = np.ones((T + 1, B), np.float32)
  x[2, 0] = x[T, 0] = x[0, 1] = x[3, 1] = 0.0
  return x


def is_terminal() -> np.ndarray:
  """Makes the ends of episodes that go with `discounts`, [T, B], bool."""
  return discounts()[1:] == 0
