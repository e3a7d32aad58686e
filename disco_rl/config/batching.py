"""Sizes of rollouts, batches and replay."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from disco_rl import schema


@dataclasses.dataclass(frozen=True)
class Batching:
  """Sizes of rollouts, batches and replay.

  In every iteration, the agent acts in `num_envs` environments for one rollout
  each. A batch is sampled from the replay, or consists of those rollouts and
  replayed ones. The defaults are those of the published evaluation on Catch.

  Attributes:
    batch_size: trajectories per learner step.
    rollout_length: steps of a trajectory, T+1.
    num_envs: number of environments. Each trajectory is used `batch_size /
      num_envs` times on average. If it equals `batch_size`, there is no replay,
      and each batch consists of the new rollouts.
    fresh_in_batch: whether a batch contains the new rollouts besides replayed
      ones; otherwise all of it is sampled from the replay.
    replay_capacity: trajectories kept; a multiple of `num_envs`.
    min_replay_size: trajectories needed before learning begins; None for one
      batch.
  """

  batch_size: int = 64
  rollout_length: int = 29
  num_envs: int = 2
  fresh_in_batch: bool = False
  replay_capacity: int = 1024
  min_replay_size: int | None = None

  def __post_init__(self) -> None:
    schema.check_fields(self)
    if self.num_envs > self.batch_size:
      raise ValueError(
        f'num_envs ({self.num_envs}) must be at most batch_size '
        f'({self.batch_size}): a batch contains the new rollouts'
      )
    if self.on_policy:
      return
    if self.replay_capacity % self.num_envs:
      raise ValueError(
        f'replay_capacity ({self.replay_capacity}) must be a multiple of the '
        f'number of environments, num_envs ({self.num_envs})'
      )
    if not 1 <= self.first_fill <= self.replay_capacity:
      raise ValueError(
        f'min_replay_size ({self.first_fill}) must be between 1 and '
        f'replay_capacity ({self.replay_capacity})'
      )

  @property
  def on_policy(self) -> bool:
    """Whether there is no replay."""
    return self.num_envs == self.batch_size

  @property
  def num_replayed(self) -> int:
    """Trajectories of a batch that are sampled from the replay."""
    if self.on_policy:
      return 0
    return self.batch_size - self.num_envs * self.fresh_in_batch

  @property
  def env_steps(self) -> int:
    """Steps of all environments in one rollout."""
    return self.num_envs * self.rollout_length

  @property
  def first_fill(self) -> int:
    """Trajectories needed before learning begins."""
    if self.min_replay_size is None:
      return self.batch_size
    return self.min_replay_size

  @property
  def num_warm_up(self) -> int:
    """Iterations before the first learner step."""
    if self.on_policy:
      return 0
    return -(-self.first_fill // self.num_envs) - 1

  def fits_shards(self, num_shards: int) -> bool:
    """Returns whether environments and batch can be sharded evenly."""
    sizes = (self.num_envs, self.batch_size)
    return num_shards >= 1 and not any(n % num_shards for n in sizes)

  def per_shard(self, num_shards: int) -> 'Batching':
    """Returns the sizes of one of `num_shards` equal shards.

    Args:
      num_shards: must divide the environments, the batch and the replay.

    Returns:
      The sizes, divided by `num_shards`.

    Raises:
      ValueError: if environments or batch cannot be sharded evenly.
    """
    if not self.fits_shards(num_shards):
      raise ValueError(
        f'{self.num_envs} environments and batches of {self.batch_size} cannot '
        f'be sharded over {num_shards} devices: num_envs and batch_size must '
        'be multiples of the number of devices'
      )
    capacity, min_size = self.replay_capacity, self.min_replay_size
    if not self.on_policy:
      capacity //= num_shards
    if min_size is not None:
      min_size = -(-min_size // num_shards)
    return dataclasses.replace(
      self,
      batch_size=self.batch_size // num_shards,
      num_envs=self.num_envs // num_shards,
      replay_capacity=capacity,
      min_replay_size=min_size,
    )


def num_fresh(batch_size: int, replay_fraction: float) -> int:
  """Returns how many trajectories of a batch are fresh.

  Args:
    batch_size: trajectories in a batch.
    replay_fraction: the fraction that is replayed, in [0, 1).

  Returns:
    At least 1.
  """
  if not 0 <= replay_fraction < 1:
    raise ValueError(
      f'replay_fraction must be in [0, 1), got {replay_fraction}'
    )
  return max(1, round(batch_size * (1 - replay_fraction)))


def from_settings(settings: Mapping[str, Any], path: str) -> Batching:
  """Makes a `Batching` from a group of settings.

  Args:
    settings: the group.
    path: its path, for messages.

  Returns:
    The sizes.

  Raises:
    ValueError: if they do not fit together; the message begins with `path`.
  """
  try:
    return Batching(**settings)
  except ValueError as error:
    # It begins with the name of a size.
    raise ValueError(f'{path}.{error}') from None


def check_steps(steps: int, batching: Batching, name: str = 'steps') -> None:
  """Raises a `ValueError` for a run in which nothing would be learned.

  Args:
    steps: iterations of the run.
    batching: sizes of batch, rollout and replay.
    name: name of the setting `steps`, for the message.
  """
  if steps <= batching.num_warm_up:
    raise ValueError(
      f'{name} {steps} is too few to learn anything: the first '
      f'{batching.num_warm_up} iterations only fill the replay, with the '
      f'{batching.first_fill} trajectories that learning starts with. Raise '
      'it, or change batch_size, num_envs or min_replay_size'
    )
