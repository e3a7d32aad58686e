"""The interface of families of tasks.

A family draws the parameters of a task, which are arrays, and steps one stream
of any of its tasks as pure functions of them. One compiled program can
therefore play any task, and agents in the same program play different ones.
What all families have in common (time limits, the meanings of actions, scales
of rewards, new episodes, batches) is in `environment.py`.

Random numbers are passed as `noise`, uniform in [0, 1): one draw for the whole
step is cheaper than several small ones.
"""

import abc
from collections.abc import Mapping
import dataclasses
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types

# Most actions that a task tells apart.
MAX_ACTIONS = 6


class Drawn(NamedTuple):
  """A task of a family."""

  params: Any  # A tree of small integers, float32 and booleans.
  num_actions: jax.Array  # [], int32, n: the meanings of actions are 0..n-1.
  horizon: jax.Array  # [], int32, steps after which an episode ends.


@dataclasses.dataclass(frozen=True)
class Family(abc.ABC):
  """A family of tasks; its settings are the fields of a frozen dataclass.

  Attributes:
    min_actions: number of actions that its agents need at least.
    setting_fields: types and ranges of its settings, by name.
    num_start_draws: length of the `noise` of `start`.
    num_step_draws: length of the `noise` of `step`.
  """

  min_actions: ClassVar[int] = 2
  setting_fields: ClassVar[Mapping[str, fields.Field]]
  num_start_draws: ClassVar[int] = 0
  num_step_draws: ClassVar[int] = 0

  @property
  @abc.abstractmethod
  def observation_size(self) -> int:
    """Length D of an observation."""

  @abc.abstractmethod
  def draw(self, rng: chex.PRNGKey, max_actions: int) -> Drawn:
    """Draws a task.

    Args:
      rng: key.
      max_actions: most actions that it may tell apart, at least `min_actions`.

    Returns:
      The task.
    """

  @abc.abstractmethod
  def start(self, params: Any, noise: jax.Array) -> Any:
    """Starts an episode.

    Args:
      params: those of a task.
      noise: [num_start_draws].

    Returns:
      The state of one stream, a tree like `Drawn.params`.
    """

  @abc.abstractmethod
  def step(
    self, params: Any, state: Any, action: types.Array, noise: jax.Array
  ) -> tuple[Any, jax.Array, jax.Array]:
    """Advances one stream.

    Args:
      params: those of a task.
      state: from `start` or the last step.
      action: [], int32, the meaning of the action.
      noise: [num_step_draws].

    Returns:
      The new state, the reward between -1 and 1, [], and whether the episode
      ends for other reasons than its length, [], bool.
    """

  @abc.abstractmethod
  def observe(self, params: Any, state: Any) -> jax.Array:
    """Returns the observation of a state, [D], float32."""


def pick(u: types.Array, n: types.Array | int) -> jax.Array:
  """Converts a number u in [0, 1) to one of 0..n-1, equally likely; int32."""
  # Rounding may not exceed the range.
  return jnp.minimum(jnp.floor(u * n), n - 1).astype(jnp.int32)


def pick_from(
  u: types.Array, low: types.Array | int, high: types.Array | int
) -> jax.Array:
  """Converts a number u in [0, 1) to one of low..high, equally likely."""
  return jnp.asarray(low) + pick(u, high - low + 1)


def between(u: types.Array, low: float, high: float) -> jax.Array:
  """Converts numbers u in [0, 1) to numbers between two bounds."""
  return low + (high - low) * jnp.asarray(u)


def one_hot(index: types.Array, size: int) -> jax.Array:
  """Returns [size], float32: a one at an index, if that is in 0..size-1."""
  return (jnp.arange(size) == index).astype(jnp.float32)
