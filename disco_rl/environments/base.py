"""The interface that all environments implement."""

import abc
from collections.abc import Callable, Sequence
import inspect
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.environments import rendering


@types.chex_dataclass(frozen=True)
class UnusedEnvState:
  """The `states` of environments that store their state internally."""


class TaskFacts(NamedTuple):
  """What is logged of an agent's task."""

  family: jax.Array  # [], int32, index in `Environment.families`.
  reward_scale: jax.Array  # [], factor of rewards.


class Environment(abc.ABC):
  """A batch of independent streams of experience that reset automatically.

  On the last step of an episode, the timestep has `step_type` LAST, the
  terminal reward, and the *first observation of the next episode*. The same
  holds for episodes that a time limit ends (truncation).

  Attributes:
    is_jittable: whether `step` and `reset` are pure functions in JAX, which can
      be compiled together with acting and learning.
    batch_size: B.
    families: names of the families of tasks, if `reset` draws a task; returns
      are then logged by family, too.
  """

  is_jittable = False
  families: Sequence[str] = ()

  def __init__(self, batch_size: int):
    """Initialises the batch.

    Args:
      batch_size: B, the number of streams, at least 1.

    Raises:
      ValueError: if the batch size is less than 1.
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
    """Resets every stream; returns the same as `step`."""

  def reset_shard(
    self, rng_key: chex.PRNGKey, shard_key: chex.PRNGKey
  ) -> tuple[Any, types.EnvironmentTimestep]:
    """Resets the streams of this object, which are one shard of a batch.

    Args:
      rng_key: key of the whole batch, for what its shards have in common. By
        default they have nothing in common.
      shard_key: key of this shard; the same as `rng_key` if there is only one.

    Returns:
      The same as `reset`, which is equivalent if both keys are the same.
    """
    del rng_key
    return self.reset(shard_key)

  def task_facts(self, states: Any) -> TaskFacts:
    """Returns the family of the task in `states`, and its scale of rewards."""
    del states
    return TaskFacts(jnp.zeros([], jnp.int32), jnp.ones([]))

  @abc.abstractmethod
  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of one stream's observation, without [B]."""

  @abc.abstractmethod
  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of one stream's action, without [B]."""

  def snapshot(self) -> Any:
    """Returns the internal state, for checkpoints.

    Not needed for pure environments, whose state is in `states`.

    Returns:
      A tree of arrays and numbers from which `restore` resumes; its structure,
      shapes and dtypes must not change between calls. None if the environment
      cannot make snapshots, the default.
    """
    return None

  def restore(self, snapshot: Any) -> Any:
    """Restores the internal state from a snapshot.

    Args:
      snapshot: from `snapshot`, not None.

    Returns:
      The `states` at the time of the snapshot.

    Raises:
      NotImplementedError: if the environment cannot make snapshots.
    """
    del snapshot
    raise NotImplementedError(f'{type(self).__name__} cannot make snapshots')

  def render(self, states: Any, observation: Any) -> Any:
    """Draws the first stream as it is after `reset` or `step`.

    Optional. By default, an observation that is an image or a board is drawn
    (`rendering.picture`). Others may draw from their state, or ask a simulator,
    which `showing.drawable_settings` prepares for it.

    Args:
      states: from `reset` or `step`.
      observation: leaves [B, ...], of the same timestep.

    Returns:
      uint8, [H, W, 3], with one pixel per cell of a board; None if the
      environment cannot be drawn.
    """
    del states
    return rendering.picture(jax.tree.map(lambda x: x[0], observation))

  def render_end(self, states: Any, actions: types.Array) -> Any:
    """Draws the state in which an episode of the first stream ended.

    It is in no timestep, since streams are reset within the last step.

    Args:
      states: before the last step.
      actions: [B], those of the last step.

    Returns:
      See `render`; None if the state is not known, the default.
    """
    del states, actions

  def close(self) -> None:  # noqa: B027
    """Frees the environment's resources; does nothing by default."""

  def batched_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of the observations of all streams, [B, ...]."""
    return utils.broadcast_specs(
      self.single_observation_spec(), self.batch_size
    )

  def batched_action_spec(self) -> types.ActionSpec:
    """Returns the spec of the actions of all streams, [B]."""
    return utils.broadcast_specs(self.single_action_spec(), self.batch_size)


def from_settings(env_class: Callable[..., Any], settings: Any) -> Any:
  """Makes an environment of one stream from its settings.

  Args:
    env_class: a class that takes the settings as one object, its only required
      argument, or each of them as a keyword argument.
    settings: a mapping, e.g. a ConfigDict.

  Returns:
    The environment.
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
  """Raises a `ValueError` unless a batch has at least one stream."""
  if batch_size < 1:
    raise ValueError(
      f'an environment needs a batch_size of at least 1, got {batch_size}'
    )


def check_actions(actions: types.Array, batch_size: int) -> np.ndarray:
  """Converts actions to NumPy; raises a `ValueError` if they are not [B]."""
  actions = np.asarray(actions)
  if actions.shape != (batch_size,):
    raise ValueError(
      f'actions must have shape ({batch_size},), got {actions.shape}'
    )
  return actions
