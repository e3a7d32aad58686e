"""Checks the action masks of environments, with errors that say what is wrong.

A mask is [B, A], bool, True for legal actions. Environments whose attribute
`has_action_mask` is true have one in every timestep; all others have None.
"""

from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl.environments import foreign


def check(
  mask: Any, shape: tuple[int, int] | None, environment: str, method: str
) -> None:
  """Checks shape and dtype of a mask, on the host or while tracing.

  Args:
    mask: the mask of a timestep, or None.
    shape: (B, A); None for an environment without masks.
    environment: its name, for messages.
    method: `reset` or `step`, for messages.

  Raises:
    InvalidEnvironmentError: if the mask is another one, or missing.
  """
  if mask is None and shape is None:
    return
  name = f'{environment}: {method} returned'
  if mask is None:
    raise foreign.InvalidEnvironmentError(
      f'{name} no action_mask, but its attribute has_action_mask is true'
    )
  if shape is None:
    raise foreign.InvalidEnvironmentError(
      f'{name} an action_mask, but its attribute has_action_mask is not true'
    )
  dtype = getattr(mask, 'dtype', None)
  if np.shape(mask) != shape or dtype != np.bool_:
    raise foreign.InvalidEnvironmentError(
      f'{name} an action_mask of {dtype or type(mask).__name__} and the shape '
      f'{np.shape(mask)}; booleans of the shape {shape} are needed'
    )


def check_values(mask: Any, environment: str, method: str) -> None:
  """Checks on the host that every stream has a legal action.

  Args:
    mask: [B, A], bool, or None.
    environment: name of the environment, for the message.
    method: `reset` or `step`, for the message.

  Raises:
    InvalidEnvironmentError: if a stream has none.
  """
  if mask is None:
    return
  has_none = ~np.asarray(mask).any(axis=1)
  if has_none.any():
    raise none_is_legal(environment, int(np.argmax(has_none)), method)


def none_is_legal(
  environment: str, stream: int, place: str
) -> foreign.InvalidEnvironmentError:
  """Makes the error for a stream without a legal action.

  Args:
    environment: name of the environment.
    stream: index of the stream in the batch.
    place: when it was returned.

  Returns:
    The error.
  """
  return foreign.InvalidEnvironmentError(
    f'{environment} returned an action_mask without a legal action in stream '
    f'{stream} ({place}); at least one action must be legal in every timestep, '
    'also where an episode ended. It was not saved: an earlier checkpoint is '
    'unchanged'
  )


def to_mask(value: Any, num_actions: int, environment: str) -> np.ndarray:
  """Converts the mask of one stream on the host, of 0 and 1 or of booleans.

  Args:
    value: what the environment returned.
    num_actions: A.
    environment: name of the environment, for the message.

  Returns:
    [A], bool, a copy.

  Raises:
    InvalidEnvironmentError: if it is no mask of A actions.
  """
  try:
    array = np.asarray(value)
  except ValueError:  # Lists of different lengths.
    array = np.asarray(None)
  is_mask = array.shape == (num_actions,) and array.dtype.kind in 'biu'
  if not is_mask or not np.isin(array, (0, 1)).all():
    raise foreign.InvalidEnvironmentError(
      f'{environment} has the action mask {fields.shorten(value)}; '
      f'{num_actions} booleans, or numbers 0 and 1, are needed'
    )
  return np.array(array, bool)
