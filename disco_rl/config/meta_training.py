"""Settings of meta-training: sizes, weights and agents."""

from collections.abc import Mapping
import dataclasses
from typing import Any, NamedTuple

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import schema
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry

# For fine-tuning a trained η; the default of `Config` is for random η and would
# ruin a trained one.
FINE_TUNING_LEARNING_RATE = 1e-5

# The small reference setting: a board of 5x5.
_ENV_SETTINGS = {'catch': dict(rows=5, columns=5)}


@dataclasses.dataclass(frozen=True)
class MetaLossWeights:
  """Weights of the terms of the meta-loss, see `meta_training/meta_loss.py`.

  Default weights of terms that a rule does not have are ignored.
  """

  policy_gradient: float = 1.0
  entropy: float = -0.01
  y_entropy: float = -0.001
  z_entropy: float = -0.001
  y_mean: float = 0.001
  z_mean: float = 0.001
  pi_mean: float = 0.001
  target_kl: float = 0.01


def default_batching() -> batching_lib.Batching:
  """Makes the sizes of the small reference setting, without replay."""
  return batching_lib.Batching(
    batch_size=32, rollout_length=16, num_envs=32, fresh_in_batch=True
  )


class Segment(NamedTuple):
  """Consecutive inner updates that are differentiated in the same way."""

  first: int
  last: int  # Not included.
  rematerialize: bool


@dataclasses.dataclass(frozen=True)
class Config:
  """Settings of meta-training; the defaults are the small reference setting.

  Attributes:
    batching: sizes of the inner updates. The validation trajectory is twice as
      long as a rollout.
    num_inner_updates: N, the agent's updates per meta-update.
    learning_rate: step size of η.
    adam_per_agent: whether each agent's meta-gradient is scaled by a separate
      Adam before averaging, which balances their scales, as published;
      otherwise one Adam scales the average.
    max_grad_norm: bound on the norm of Adam's input; None for no clip.
    max_abs_update: element-wise bound on Adam's output, before the learning
      rate; None for no clip (published: 1).
    lifetimes: lifetimes of agents, in inner updates. Each agent draws one with
      probability ∝ 1 / lifetime, and is reset at its end. Empty for agents that
      are reset only if they diverge.
    agent_learning_rates: bounds between which each agent draws its learning
      rate when it is reset, log-uniform, instead of `agent.learning_rate`.
      Empty for agents that have the same one.
    rematerialize_all_but: how many of the last inner updates (and the first)
      keep their intermediate values for the backward pass, which recomputes
      those of all others. A larger number needs more memory and less time. 0
      keeps none, None keeps all.
    meta_gradient_mode: how inner updates are differentiated: in plain
      `'reverse'` mode, in `'mixed'` mode (see `Agent.in_mixed_mode`), or
      `'auto'` for the faster: mixed where they are rematerialised.
    weights: weights of the terms of the meta-loss; or a mapping from names of
      the rule's terms to weights, with weight 0 for terms that are not named.
  """

  batching: batching_lib.Batching = dataclasses.field(
    default_factory=default_batching
  )
  num_inner_updates: int = 2
  learning_rate: float = 5e-4
  adam_per_agent: bool = False
  max_grad_norm: float | None = None
  max_abs_update: float | None = None
  lifetimes: tuple[int, ...] = ()
  agent_learning_rates: tuple[float, ...] = ()
  rematerialize_all_but: int | None = 3
  meta_gradient_mode: str = 'auto'
  weights: MetaLossWeights | Mapping[str, float] = dataclasses.field(
    default_factory=MetaLossWeights
  )

  def __post_init__(self) -> None:
    schema.check_fields(self, 'meta')
    batching = self.batching
    if not isinstance(batching, batching_lib.Batching):
      raise ValueError(
        'batching must be a config.batching.Batching, got '
        f'{fields.shorten(batching)}'
      )
    if not isinstance(self.weights, MetaLossWeights):
      schema.check_mapping('weights', self.weights)
      for name, weight in self.weights.items():
        fields.check(fields.Field(float), f'weights.{name}', weight)
    if batching.min_replay_size is not None:
      raise ValueError(
        'min_replay_size has no effect in meta-training, where every '
        'meta-update learns: leave it out'
      )
    stored = self.num_inner_updates * batching.num_envs
    if not batching.on_policy and batching.replay_capacity < stored:
      raise ValueError(
        f'replay_capacity ({batching.replay_capacity}) must hold the {stored} '
        'trajectories of one meta-update'
      )
    short = [x for x in self.lifetimes if x < self.num_inner_updates]
    if short:
      raise ValueError(
        f'lifetimes must be at least num_inner_updates '
        f'({self.num_inner_updates}), got {short}'
      )

  @property
  def validation_length(self) -> int:
    """Steps of the validation trajectory."""
    return 2 * self.batching.rollout_length

  @property
  def env_steps(self) -> int:
    """Environment steps of one agent in a meta-update."""
    inner = self.num_inner_updates * self.batching.rollout_length
    return (inner + self.validation_length) * self.batching.num_envs

  def uses_mixed_mode(self, rematerialize: bool) -> bool:
    """Returns whether inner updates are differentiated in mixed mode.

    Args:
      rematerialize: whether they are rematerialised.
    """
    if self.meta_gradient_mode == 'auto':
      return rematerialize
    return self.meta_gradient_mode == 'mixed'

  def rematerialization_plan(self, num_updates: int) -> list[Segment]:
    """Divides inner updates by how they are differentiated.

    The first is a segment of its own: nothing before it depends on η, so most
    of its backward pass is not needed.

    Args:
      num_updates: N.

    Returns:
      Segments without gaps, in order.
    """
    kept = num_updates - 1
    if self.rematerialize_all_but is not None:
      kept = min(kept, self.rematerialize_all_but)
    segments = [
      Segment(0, 1, self.rematerialize_all_but == 0),
      Segment(1, num_updates - kept, True),
      Segment(num_updates - kept, num_updates, False),
    ]
    return [segment for segment in segments if segment.first < segment.last]

  def per_shard(self, num_shards: int) -> 'Config':
    """Returns the config of one of `num_shards` equal shards of a batch."""
    return dataclasses.replace(
      self, batching=self.batching.per_shard(num_shards)
    )


def get_agent_settings(kind: str = 'disco') -> config_dict.ConfigDict:
  """Makes the settings of the agents that η is trained with.

  Args:
    kind: the rule's name in `update_rules.registry`.

  Returns:
    For the discovered rule, those of the small reference setting; for others,
    the default settings of their kind.
  """
  config = agents.get_settings(kind)
  if kind == 'disco':
    config.learning_rate = 5e-4
    net_args = config.net_settings.net_args
    net_args.dense = (512, 512)
    net_args.model_kwargs.update(head_mlp_hiddens=(256,), lstm_size=256)
  return config


def get_env_settings(name: str) -> config_dict.ConfigDict:
  """Makes the settings of an environment that η is trained in.

  Args:
    name: see `environments.registry`.

  Returns:
    Its default settings; for Catch, with a board of 5x5.
  """
  config: Any = registry.default_settings(name)
  config.update(_ENV_SETTINGS.get(name, {}))
  return config
