"""The settings of the published meta-training, by name.

From "Discovering state-of-the-art reinforcement learning algorithms" (Oh et
al., Nature 2025). What it leaves open is chosen here, see
docs/published_experiment.md.
"""

from collections.abc import Mapping, Sequence
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
_PROCGEN = tuple(
  f'procgen:{game}'
  for game in (
    *('bigfish', 'bossfight', 'caveflyer', 'chaser', 'climber', 'coinrun'),
    *('dodgeball', 'fruitbot', 'heist', 'jumper', 'leaper', 'maze', 'miner'),
    *('ninja', 'plunder', 'starpilot'),
  )
)


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
    envs=(*_ATARI, *_PROCGEN),
    missing='the 30 levels of DMLab-30',
    num_envs=103,
    num_agents=206,
  ),
}


def get(name: str) -> Experiment:
  """Returns an experiment; `name` is a key of `EXPERIMENTS`."""
  return utils.lookup(EXPERIMENTS, name, 'preset')


def of_request(request: Mapping[str, Any]) -> 'Preset | None':
  """Returns the preset of a request, if it has one.

  Args:
    request: see `resolve.META_TRAINING`, completed.
  """
  if request['preset'] is None:
    return None
  preset = Preset(request['preset'], request['scale'], request['env'])
  preset.warn()
  return preset


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
    self._scaled_origin = self.origin
    if self._scale != 1:
      self._scaled_origin = f'preset {name} at scale {self._scale}'

  def network(self, suggested: str | None) -> tuple[str | None, bool]:
    """Returns the published network.

    Args:
      suggested: the network that is suggested for an environment.

    Returns:
      The name of the network, and whether it is another one.
    """
    network = self._experiment.networks.get(suggested, suggested)
    return network, network != suggested

  def apply(
    self,
    layers: layers_lib.Layers,
    *,
    chooses_agents: bool,
    chooses_networks: bool,
  ) -> None:
    """Changes settings that do not depend on those of the user.

    Args:
      layers: the settings of meta-training; a learning rate of η that is set
        already, that of fine-tuning, is kept.
      chooses_agents: whether the number of agents is that of the preset.
      chooses_networks: whether the networks are made smaller by the scale.
    """
    values = self._values()
    if 'meta.learning_rate' in layers.origins:
      del values['meta.learning_rate']
    layers.apply(self.origin, {k: x for k, x in values.items() if k in layers})
    own, least = self._experiment, scaling.LEAST_BATCH
    scaled: dict[str, Any] = {
      'batching.batch_size': scaling.size(own.batch_size, self._scale, least)
    }
    if chooses_agents:
      scaled |= dict(num_agents=None, total_agents=self._num_agents())
    if chooses_networks and self._scale != 1:
      for group in ('net', 'critic_net'):
        for env, settings in layers[group].items():
          path = f'{group}.{env}'
          scaled |= scaling.network_widths(settings, path, self._scale)
    layers.apply(self._scaled_origin, scaled)

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

  def apply_derived(self, layers: layers_lib.Layers) -> None:
    """Changes settings that depend on sizes of the user, unless they are set.

    Args:
      layers: the settings, with the final sizes.
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
    found: dict[str, Any] = {
      'batching.num_envs': num_envs,
      'batching.replay_capacity': capacity - capacity % num_envs,
      # At least one meta-update; not scaled, since agents with smaller batches
      # do not learn in fewer updates.
      'meta.lifetimes': tuple(max(num_updates, x) for x in own.lifetimes),
    }
    layers.apply(
      self._scaled_origin,
      {k: x for k, x in found.items() if k not in layers.origins},
    )

  def _values(self) -> dict[str, Any]:
    """Returns the settings that do not depend on the scale."""
    own = self._experiment
    values: dict[str, Any] = {
      'meta.num_inner_updates': own.num_inner_updates,
      'meta.learning_rate': own.meta_learning_rate,
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
    for name, value in own.hyper_params.items():
      values[f'agent.hyper_params.{name}'] = value
    for env in self._envs:
      # One network and one compiled program for all games of Atari.
      values[f'env.{env}.full_action_space'] = True
    return values

  def _num_agents(self) -> int:
    """Returns the number of all agents, at least one per environment."""
    own = self._experiment
    published = fractions.Fraction(own.num_agents)
    if self._envs == tuple(own.envs):  # Without those of missing environments.
      published *= fractions.Fraction(len(own.envs), own.num_envs)
    return max(len(self._envs), scaling.size(int(published), self._scale))
