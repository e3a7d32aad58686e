"""What the library asks of an environment."""

import abc
from collections.abc import Callable
import inspect
from typing import Any

import chex
import numpy as np

from disco_rl import types
from disco_rl import utils


@types.chex_dataclass(frozen=True)
class UnusedEnvState:
  """The `states` of environments that keep their state to themselves."""


class Environment(abc.ABC):
  """A batch of independent streams of experience that reset themselves.

  On the last step of an episode a timestep carries `step_type` LAST, the
  terminal reward, and the *first observation of the next episode*. An episode
  that a time limit cut short has ended like any other.

  Attributes:
    is_jittable: whether `step` and `reset` are pure functions in JAX, to be
      compiled together with acting and learning.
    batch_size: B.
  """

  is_jittable = False

  def __init__(self, batch_size: int):
    """Initialises the batch.

    Args:
      batch_size: B, the number of streams, at least 1.
    """
    check_batch_size(batch_size)
    self.batch_size = batch_size

  @abc.abstractmethod
  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Advances every stream.

    Args:
      states: from `reset` or the last `step`.
      actions: [B], int32.

    Returns:
      The new states, and a timestep with leaves [B, ...].
    """

  @abc.abstractmethod
  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Starts every stream anew; returns as `step` does."""

  @abc.abstractmethod
  def single_observation_spec(self) -> types.SpecsTree:
    """Specs of one stream's observation."""

  @abc.abstractmethod
  def single_action_spec(self) -> types.ActionSpec:
    """Spec of one stream's action."""

  def snapshot(self) -> Any:
    """What the environment keeps to itself, as a tree of arrays and numbers.

    Their shapes and types must always be the same.

    Returns:
      All that `restore` needs to go on from here, or None if it cannot be had.
      A pure environment has nothing to add to its `states`.
    """
    return None

  def restore(self, snapshot: Any) -> Any:
    """Goes back to where `snapshot` was made.

    Args:
      snapshot: from `snapshot`, not None.

    Returns:
      The `states` of that moment.
    """
    del snapshot
    raise NotImplementedError(f'{type(self).__name__} makes no snapshots')

  def close(self) -> None:  # noqa: B027
    """Frees what the environment holds; by default nothing."""

  def batched_observation_spec(self) -> types.SpecsTree:
    """Specs of the observations of all streams, [B, ...]."""
    return utils.broadcast_specs(
      self.single_observation_spec(), self.batch_size
    )

  def batched_action_spec(self) -> types.ActionSpec:
    """Spec of the actions of all streams, [B]."""
    return utils.broadcast_specs(self.single_action_spec(), self.batch_size)


def from_settings(env_class: Callable[..., Any], settings: Any) -> Any:
  """Makes an environment of one stream.

  Args:
    env_class: takes the settings as one object, which is then its only required
      argument, or each of them as a keyword argument.
    settings: a mapping, e.g. a ConfigDict.

  Returns:
    What `env_class` returns.
  """
  parameters = inspect.signature(env_class).parameters.values()
  positional = [
    p
    for p in parameters
    if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
  ]
  required = [p for p in positional if p.default is p.empty]
  takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
  if not required and takes_any_name:
    return env_class(**settings)
  candidates = required or positional
  if len(candidates) == 1 and candidates[0].name not in settings:
    return env_class(settings)
  return env_class(**settings)


def check_batch_size(batch_size: int) -> None:
  """Refuses a batch without streams."""
  if batch_size < 1:
    raise ValueError(
      f'an environment needs a batch_size of at least 1, got {batch_size}'
    )


def check_actions(actions: types.Array, batch_size: int) -> np.ndarray:
  """Actions for streams on the host, [B], one for each."""
  actions = np.asarray(actions)
  if actions.shape != (batch_size,):
    raise ValueError(
      f'actions must have shape ({batch_size},), got {actions.shape}'
    )
  return actions
