"""Python objects that replace parts of a request for meta-training."""

from collections.abc import Mapping, Sequence
import dataclasses

import jax
from ml_collections import config_dict
import optax

from disco_rl import types
from disco_rl.environments import registry
from disco_rl.meta_training import meta_loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objects:
  """Python objects that replace parts of a request; None for no replacement.

  Attributes:
    env_fns: environments that are not in the registry, by name.
    agent_settings: settings of all agents, instead of those of the rule and the
      environments.
    critic: settings of the agents' critics, instead of the default.
    weights: weights of the meta-loss by names of the rule's own terms, instead
      of the settings.
    regularizer: a further term of the meta-loss, see `trainer.Trainer`.
    agent_optimizer: optimiser of the agents' parameters, see `Agent`.
    meta_optimizer: optimiser of η, see `trainer.Trainer`.
    devices: devices over which the work is sharded, instead of their number.
  """

  env_fns: Mapping[str, registry.EnvironmentFn] = dataclasses.field(
    default_factory=dict
  )
  agent_settings: config_dict.ConfigDict | None = None
  critic: types.ValueFnConfig | None = None
  weights: Mapping[str, float] | None = None
  regularizer: meta_loss.Regularizer | None = None
  agent_optimizer: optax.GradientTransformation | None = None
  meta_optimizer: optax.GradientTransformation | None = None
  devices: Sequence[jax.Device] | None = None

  @property
  def are_needed(self) -> bool:
    """Whether the run cannot be made from its request alone."""
    ignored = ('devices',)
    return any(
      getattr(self, field.name)
      for field in dataclasses.fields(self)
      if field.name not in ignored
    )
