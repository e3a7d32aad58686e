"""Sizes and weights of meta-training."""

from collections.abc import Mapping
import dataclasses

from disco_rl import checks
from disco_rl import replay
from disco_rl import settings
from disco_rl import types
from disco_rl import utils

# Of η that was trained before: the default of `Config`, for random η, would
# ruin it.
FINE_TUNING_LEARNING_RATE = 1e-5


@dataclasses.dataclass(frozen=True)
class MetaLossWeights:
  """The default weights of the terms of the meta-loss; see `meta_loss.py`.

  Those of terms that a rule does not have do not count.
  """

  policy_gradient: float = 1.0
  entropy: float = -0.01
  y_entropy: float = -0.001
  z_entropy: float = -0.001
  y_mean: float = 0.001
  z_mean: float = 0.001
  pi_mean: float = 0.001
  target_kl: float = 0.01


@dataclasses.dataclass(frozen=True)
class Config:
  """How η is trained; the defaults are the small reference setting.

  Attributes:
    num_inner_updates: N, the agent's updates per meta-update.
    rollout_length: L, steps of a trajectory the agent learns from; the one that
      measures how well it learned has 2L.
    batch_size: trajectories per inner update.
    replay_fraction: how much of each inner batch is replayed; the rest is
      fresh, and that many environments act. 0 for none, published 0.9.
    replay_capacity: trajectories kept per agent, if any is replayed.
    learning_rate: of η.
    adam_per_agent: whether every agent's meta-gradient goes through an Adam of
      its own before the average, which balances their scales, as published; or
      the average through one Adam.
    max_grad_norm: clips the norm of what goes into Adam; None for no clip.
    max_abs_update: clips every element of what comes out of Adam, before the
      learning rate; None for no clip, published 1.
    lifetimes: in inner updates. An agent is given one of them, with
      probability ∝ 1 / lifetime, and begins anew when it is over. Empty for
      agents that are never reset.
    num_kept_updates: how many of the last inner updates (and the first) keep
      their intermediate values for the backward pass, which computes those of
      all others again. More of them need more memory and less time. 0 keeps
      none, None all.
    meta_gradient_mode: how inner updates are differentiated: in plain
      `'reverse'` mode, in `'mixed'` mode (see `Agent.in_mixed_mode`), or
      `'auto'` for whichever is faster: mixed where they are rematerialised.
    agents_at_once: how many agents of a group are computed in lockstep; the
      rest wait their turn within the same program. None for all of them. 1
      needs the least memory and is the fastest on CPU.
    weights: of the terms of the meta-loss; or a mapping from the names of a
      rule's own terms, where those not named have weight 0.
  """

  num_inner_updates: int = 2
  rollout_length: int = 16
  batch_size: int = 32
  replay_fraction: float = 0.0
  replay_capacity: int = 1024
  learning_rate: float = 5e-4
  adam_per_agent: bool = False
  max_grad_norm: float | None = None
  max_abs_update: float | None = None
  lifetimes: tuple[int, ...] = ()
  num_kept_updates: int | None = 6
  meta_gradient_mode: str = 'auto'
  agents_at_once: int | None = 1
  weights: MetaLossWeights | Mapping[str, float] = dataclasses.field(
    default_factory=MetaLossWeights
  )

  def __post_init__(self) -> None:
    checks.check_at_least(
      self,
      num_inner_updates=1,
      rollout_length=2,
      batch_size=1,
      replay_capacity=1,
    )
    replay.split_batch(self.batch_size, self.replay_fraction)
    if self.num_kept_updates is not None:
      checks.check_at_least(self, num_kept_updates=0)
    if self.num_replayed and self.replay_capacity % self.num_envs:
      raise ValueError(
        f'replay_capacity ({self.replay_capacity}) must be a multiple of the '
        f'{self.num_envs} trajectories that are fresh in a batch'
      )
    stored = self.num_inner_updates * self.num_envs
    if self.num_replayed and self.replay_capacity < stored:
      raise ValueError(
        f'replay_capacity ({self.replay_capacity}) must hold the {stored} '
        'trajectories of one meta-update'
      )
    utils.lookup(
      dict.fromkeys(('auto', 'mixed', 'reverse')),
      self.meta_gradient_mode,
      'meta_gradient_mode',
    )
    short = [x for x in self.lifetimes if x < self.num_inner_updates]
    if short:
      raise ValueError(
        f'lifetimes must be at least num_inner_updates '
        f'({self.num_inner_updates}), got {short}'
      )
    if self.agents_at_once is not None and self.agents_at_once < 1:
      raise ValueError(
        f'agents_at_once must be at least 1 or None, got {self.agents_at_once}'
      )
    for name in ('learning_rate', 'max_grad_norm', 'max_abs_update'):
      value = getattr(self, name)
      if value is not None and not value > 0:
        raise ValueError(f'{name} must be positive, got {value}')

  @property
  def num_envs(self) -> int:
    """How many environments each agent acts in."""
    return replay.split_batch(self.batch_size, self.replay_fraction)[0]

  @property
  def num_replayed(self) -> int:
    """How many trajectories of a batch come from the replay."""
    return self.batch_size - self.num_envs

  def uses_mixed_mode(self, rematerialize: bool) -> bool:
    """How inner updates that are rematerialised, or not, are differentiated.

    Args:
      rematerialize: whether they are.

    Returns:
      Whether in mixed mode.
    """
    if self.meta_gradient_mode == 'auto':
      return rematerialize
    return self.meta_gradient_mode == 'mixed'

  def segments(self, num_updates: int) -> list[tuple[int, int, bool]]:
    """Inner updates that are computed in the same way.

    The first stands alone: nothing before it depends on η, so that most of its
    backward pass falls away.

    Args:
      num_updates: N.

    Returns:
      First, last (not included), and whether they are rematerialised.
    """
    kept = num_updates - 1
    if self.num_kept_updates is not None:
      kept = min(kept, self.num_kept_updates)
    bounds = [
      (0, 1, self.num_kept_updates == 0),
      (1, num_updates - kept, True),
      (num_updates - kept, num_updates, False),
    ]
    return [bound for bound in bounds if bound[0] < bound[1]]

  @property
  def validation_length(self) -> int:
    """Steps of the trajectory that measures how well an agent learned."""
    return 2 * self.rollout_length

  def per_device(self, num_devices: int) -> 'Config':
    """The share of one of `num_devices` devices.

    Args:
      num_devices: must divide the environments, the batch and the replay.

    Returns:
      The config with a batch that many times smaller.
    """
    sizes = dict(
      environments=self.num_envs,
      replayed=self.num_replayed,
      replay_capacity=self.replay_capacity if self.num_replayed else 0,
    )
    for name, size in sizes.items():
      if size % num_devices:
        raise ValueError(
          f'{size} ({name} of an agent) cannot be spread over {num_devices} '
          'devices: it must be a multiple of their number'
        )
    return dataclasses.replace(
      self,
      batch_size=self.batch_size // num_devices,
      replay_capacity=max(1, self.replay_capacity // num_devices),
    )


def default_critic() -> types.ValueFnConfig:
  """The critic of the small reference setting."""
  return types.ValueFnConfig(**settings.get_settings_critic())
