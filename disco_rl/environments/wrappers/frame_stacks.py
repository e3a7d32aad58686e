"""Stacks of the last observations, along the last axis, the newest last.

A number or an image without channels gets a new axis. At the beginning of an
episode, its first observation is repeated.
"""

from typing import Any

import jax
import numpy as np

from disco_rl import types


def stack_specs(specs: types.SpecsTree, number: int) -> types.SpecsTree:
  """Returns the specs of stacked observations.

  Args:
    specs: specs of one observation.
    number: how many are stacked; 1 for no change.

  Returns:
    The specs of the stack.
  """
  if number == 1:
    return specs

  def stacked(spec: Any) -> types.ArraySpec:
    if has_new_axis(spec.shape):
      return types.ArraySpec((*spec.shape, number), spec.dtype)
    *outer, last = spec.shape
    return types.ArraySpec((*outer, number * last), spec.dtype)

  return jax.tree.map(stacked, specs)


def first(observation: Any, number: int) -> Any:
  """Makes the stack at the beginning of an episode.

  Args:
    observation: the first observation, a tree of arrays.
    number: how many are stacked.

  Returns:
    A tree of new arrays; the same observation if `number` is 1.
  """
  if number == 1:
    return observation
  return jax.tree.map(
    lambda x: np.concatenate([_channels(x)] * number, axis=-1), observation
  )


def add(stack: Any, observation: Any, number: int) -> Any:
  """Appends an observation to a stack, without its oldest one.

  Args:
    stack: from `first` or `add`; not changed.
    observation: the new observation.
    number: how many are stacked.

  Returns:
    A tree of new arrays; the new observation if `number` is 1.
  """
  if number == 1:
    return observation

  def added(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    new = _channels(new)
    return np.concatenate([old[..., new.shape[-1] :], new], axis=-1)

  return jax.tree.map(added, stack, observation)


def has_new_axis(shape: Any) -> bool:
  """Returns whether observations of a shape are stacked along a new axis."""
  return len(shape) in (0, 2)


def _channels(x: np.ndarray) -> np.ndarray:
  return x[..., None] if has_new_axis(x.shape) else x
