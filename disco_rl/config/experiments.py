"""The settings of the published meta-training, by name.

From "Discovering state-of-the-art reinforcement learning algorithms" (Oh et
al., Nature 2025). What it leaves open is chosen here, see
docs/published_experiment.md.
"""

from collections.abc import Sequence
import dataclasses
import fractions
import logging
from typing import Any

from disco_rl import utils
from disco_rl.config import batching
from disco_rl.config import layers as layers_lib
from disco_rl.config import scaling

_GAMES = (
  *('Alien', 'Amidar', 'Assault', 'Asterix', 'Asteroids', 'Atlantis'),
  *('BankHeist', 'BattleZone', 'BeamRider', 'Berzerk', 'Bowling', 'Boxing'),
  *('Breakout', 'Centipede', 'ChopperCommand', 'CrazyClimber', 'Defender'),
  *('DemonAttack', 'DoubleDunk', 'Enduro', 'FishingDerby', 'Freeway'),
  *('Frostbite', 'Gopher', 'Gravitar', 'Hero', 'IceHockey', 'Jamesbond'),
  *('Kangaroo', 'Krull', 'KungFuMaster', 'MontezumaRevenge', 'MsPacman'),
  *('NameThisGame', 'Phoenix', 'Pitfall', 'Pong', 'PrivateEye', 'Qbert'),
  *('Riverraid', 'RoadRunner', 'Robotank', 'Seaquest', 'Skiing', 'Solaris'),
  *('SpaceInvaders', 'StarGunner', 'Surround', 'Tennis', 'TimePilot'),
  *('Tutankham', 'UpNDown', 'Venture', 'VideoPinball', 'WizardOfWor'),
  *('YarsRevenge', 'Zaxxon'),
)
_ATARI = tuple(f'atari:{game}' for game in _GAMES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """The settings of meta-training on one set of environments.

  Attributes:
    envs: the environments that this library has.
    missing: words for the others; empty if there are none.
    num_envs: number of environments, with those that are missing.
    num_agents: number of agents in all of them.
    num_inner_updates: N.
    meta_learning_rate: step size of a random η.
    max_abs_meta_update: bound on the updates of η.
    batch_size: trajectories per update of an agent.
    replay_fraction: fraction of a batch that is replayed.
    rollout_length: steps of a trajectory, T+1.
    replay_steps: capacity of the replay, in environment steps.
    lifetimes: lifetimes of agents, in updates.
    learning_rate: step size of the agents.
    max_abs_update: bound on the updates of the agents.
    discount: γ.
    hyper_params: the rule's costs and coefficients.
    networks: suggested network of an environment to the published one.
  """

  envs: Sequence[str]
  missing: str = ''
  num_envs: int
  num_agents: int
  num_inner_updates: int = 20
  meta_learning_rate: float = 1e-3
  max_abs_meta_update: float = 1.0
  batch_size: int = 96
  replay_fraction: float = 0.9
  rollout_length: int = 29
  replay_steps: int = 220_000
  lifetimes: tuple[int, ...] = (10_000, 20_000, 40_000, 80_000, 160_000)
  learning_rate: float = 3e-4
  max_abs_update: float = 1.0
  discount: float = 0.997
  hyper_params: dict[str, float] = dataclasses.field(
    default_factory=lambda: dict(
      pi_cost=1.0,
      y_cost=1.0,
      z_cost=1.0,
      aux_policy_cost=1.0,
      value_cost=0.2,
      target_params_coeff=0.9,
    )
  )
  networks: dict[str | None, str] = dataclasses.field(
    default_factory=lambda: {'residual': 'atari'}
  )


EXPERIMENTS: dict[str, Experiment] = {
  'disco57': Experiment(envs=_ATARI, num_envs=57, num_agents=128),
  'disco103': Experiment(
    envs=_ATARI,
    missing='the 16 games of ProcGen and the 30 levels of DMLab-30',
    num_envs=103,
    num_agents=206,
  ),
}


def get(name: str) -> Experiment:
  """Returns an experiment; `name` is a key of `EXPERIMENTS`."""
  return utils.lookup(EXPERIMENTS, name, 'preset')


class Preset:
  """An experiment at a scale, as settings of meta-training."""

  def __init__(self, name: str, scale: Any | None, envs: Sequence[str]):
    """Looks up the experiment.

    Args:
      name: a key of `EXPERIMENTS`.
      scale: see `scaling.parse`; None for 1.
      envs: the environments of the run.
    """
    self._experiment = get(name)
    self._scale = scaling.parse(1 if scale is None else scale)
    self._envs = tuple(envs)
    self._name = name
    self.origin = f'preset {name}'
    # The layer of what the scale makes smaller.
    self.scaled_origin = self.origin
    if self._scale != 1:
      self.scaled_origin = f'preset {name} at scale {self._scale}'

  def network(self, suggested: str | None) -> str | None:
    """Returns the published network, given that of an environment."""
    return self._experiment.networks.get(suggested, suggested)

  def warn(self) -> None:
    """Logs which of the published environments are missing."""
    experiment = self._experiment
    if experiment.missing and self._envs == tuple(experiment.envs):
      logging.getLogger(__name__).warning(
        'the preset %s trains in %d of %d environments: %s are not among those '
        'of this library, and are left out with their agents',
        self._name,
        len(experiment.envs),
        experiment.num_envs,
        experiment.missing,
      )

  def values(
    self, layers: layers_lib.Layers, is_trained: bool
  ) -> dict[str, Any]:
    """Returns the settings that do not depend on the scale.

    Args:
      layers: the settings of meta-training.
      is_trained: whether η is that of a trained rule, which is fine-tuned.

    Returns:
      Path of a setting to its value, for the settings that exist in `layers`.
    """
    own = self._experiment
    found: dict[str, Any] = {
      'meta.num_inner_updates': own.num_inner_updates,
      'meta.max_abs_update': own.max_abs_meta_update,
      'meta.adam_per_agent': True,
      'batching.rollout_length': own.rollout_length,
      'batching.fresh_in_batch': True,
      'agent.learning_rate': own.learning_rate,
      'agent.max_abs_update': own.max_abs_update,
      'agent.hyper_params.discount_factor': own.discount,
      'agent.update_rule.value_discount': own.discount,
      'agent.value_fn.discount_factor': own.discount,
    }
    if not is_trained:
      found['meta.learning_rate'] = own.meta_learning_rate
    for name, value in own.hyper_params.items():
      found[f'agent.hyper_params.{name}'] = value
    for env in self._envs:
      # One network and one compiled program for all games.
      found[f'env.{env}.full_action_space'] = True
    return {k: v for k, v in found.items() if k in layers}

  def scaled_values(self, layers: layers_lib.Layers) -> dict[str, Any]:
    """Returns the sizes that the scale makes smaller.

    Args:
      layers: see `values`.

    Returns:
      Path of a setting to its value.
    """
    own, scale = self._experiment, self._scale
    least = scaling.LEAST_BATCH
    return {
      'num_agents': None,
      'total_agents': self._num_agents(),
      'batching.batch_size': scaling.size(own.batch_size, scale, least),
    }

  def network_values(self, layers: layers_lib.Layers) -> dict[str, Any]:
    """Returns the widths of networks, if the scale makes them smaller.

    Args:
      layers: the settings, with the networks at scale 1.

    Returns:
      Path of a setting to its value.
    """
    found: dict[str, Any] = {}
    if self._scale != 1:
      for group in ('net', 'critic_net'):
        for env, settings in layers[group].items():
          path = f'{group}.{env}'
          found |= scaling.network_widths(settings, path, self._scale)
    return found

  def derived_values(self, layers: layers_lib.Layers) -> dict[str, Any]:
    """Returns the settings that depend on sizes set elsewhere.

    Args:
      layers: the settings, with the final sizes.

    Returns:
      Path of a setting to its value, without settings that a layer changed.
    """
    own, scale = self._experiment, self._scale
    batch_size = layers['batching.batch_size']
    num_envs = batching.num_fresh(batch_size, own.replay_fraction)
    if 'batching.num_envs' in layers.origins:
      num_envs = layers['batching.num_envs']
    num_updates = layers['meta.num_inner_updates']
    length = layers['batching.rollout_length']
    capacity = scaling.size(own.replay_steps, scale) // length
    capacity = max(capacity, num_updates * num_envs)
    lifetimes = (scaling.size(x, scale, num_updates) for x in own.lifetimes)
    found = {
      'batching.num_envs': num_envs,
      'batching.replay_capacity': capacity - capacity % num_envs,
      'meta.lifetimes': tuple(
        dict.fromkeys(max(num_updates, x) for x in lifetimes)
      ),
    }
    return {k: v for k, v in found.items() if k not in layers.origins}

  def _num_agents(self) -> int:
    """Returns the number of all agents, at least one per environment."""
    own = self._experiment
    published = fractions.Fraction(own.num_agents)
    if self._envs == tuple(own.envs):  # Without those of missing environments.
      published *= fractions.Fraction(len(own.envs), own.num_envs)
    return max(len(self._envs), scaling.size(int(published), self._scale))
