"""The settings of the published evaluations, by name.

From "Discovering state-of-the-art reinforcement learning algorithms" (Oh et
al., Nature 2025). They are those of large machines: a replay of 1.76 million
steps of Atari frames, for one, needs 50 GB.
"""

from collections.abc import Mapping
import dataclasses
import logging
from typing import Any

from ml_collections import config_dict

from disco_rl import checks
from disco_rl import experiment
from disco_rl import utils


@dataclasses.dataclass(frozen=True)
class Preset:
  """How agents were trained on one benchmark.

  Attributes:
    learning_rate: its highest value.
    schedule: of the learning rate, see `optimizers.learning_rate_schedule`.
    warmup_steps: environment steps over which it rises.
    weight_decay: of the optimiser.
    max_abs_update: of the optimiser.
    discount: γ.
    frame_stack: frames shown at once; 1 for no stacking.
    batch_size: trajectories per update.
    replay_fraction: how much of a batch is replayed; all but one trajectory
      where it asks for less than one that is fresh.
    replay_steps: environment steps kept.
    rollout_length: steps of a trajectory.
    network: of `network_settings.PRESETS`, None for any.
  """

  learning_rate: float
  schedule: str
  warmup_steps: int
  weight_decay: float
  max_abs_update: float
  discount: float
  frame_stack: int
  batch_size: int
  replay_fraction: float
  replay_steps: int
  rollout_length: int
  network: str | None = None


def _preset(
  learning_rate: float,
  warmup_steps: float,
  weight_decay: float,
  batch_size: int,
  replay_fraction: float,
  replay_steps: float,
  schedule: str = 'cosine',
  max_abs_update: float = 1.0,
  discount: float = 0.997,
  frame_stack: int = 4,
  rollout_length: int = 29,
  network: str | None = None,
) -> Preset:
  return Preset(
    learning_rate=learning_rate,
    schedule=schedule,
    warmup_steps=int(warmup_steps),
    weight_decay=weight_decay,
    max_abs_update=max_abs_update,
    discount=discount,
    frame_stack=frame_stack,
    batch_size=batch_size,
    replay_fraction=replay_fraction,
    replay_steps=int(replay_steps),
    rollout_length=rollout_length,
    network=network,
  )


PRESETS: Mapping[str, Preset] = {
  'atari': _preset(3e-4, 5e6, 0.1, 96, 0.95, 1.76e6, network='atari'),
  'crafter': _preset(
    3e-4, 0, 0.3, 24, 0.99, 4e5, schedule='constant', frame_stack=32
  ),
  'dmlab': _preset(
    5e-4,
    1e6,
    0.01,
    96,
    0.9,
    2.2e5,
    discount=0.99,
    frame_stack=1,
    rollout_length=100,
  ),
  'nethack': _preset(1e-4, 1e7, 0.03, 96, 0.95, 1.76e6, max_abs_update=0.3),
  'procgen': _preset(3e-4, 1e6, 0.1, 192, 0.9, 8.8e5),
  'sokoban': _preset(3e-4, 0, 0.1, 96, 0.9, 8.8e5),
}


def apply(config: config_dict.ConfigDict, name: str) -> None:
  """Changes the settings of a run to those of a preset, in place.

  What a preset says in environment steps is left to `derive`, which is called
  once the sizes of batch and rollout are known.

  Args:
    config: with the groups `agent` (that has a group `optimizer`), `env` and
      `experiment`, as `disco-rl eval --dry-run` shows them.
    name: a key of `PRESETS`.
  """
  preset = utils.lookup(PRESETS, name, 'preset')
  agent = config.agent
  agent.learning_rate = preset.learning_rate
  agent.max_abs_update = preset.max_abs_update
  agent.optimizer.schedule = preset.schedule
  agent.optimizer.weight_decay = preset.weight_decay
  _set_if_there(agent.hyper_params, 'discount_factor', preset.discount)
  _set_if_there(agent.update_rule, 'value_discount', preset.discount)
  if 'value_fn' in agent:
    agent.value_fn.discount_factor = preset.discount
  if 'frame_stack' in config.env:
    config.env.frame_stack = preset.frame_stack
  elif preset.frame_stack > 1:
    logging.getLogger(__name__).warning(
      'the preset %s shows %d frames at once, for which this environment has '
      'no setting',
      name,
      preset.frame_stack,
    )
  sizes = config.experiment
  sizes.rollout_length = preset.rollout_length
  sizes.batch_size = preset.batch_size
  with sizes.ignore_type():
    sizes.replay_fraction = preset.replay_fraction


def derive(config: config_dict.ConfigDict, name: str) -> None:
  """Sets what a preset says in environment steps, in place.

  Args:
    config: as of `apply`.
    name: a key of `PRESETS`.
  """
  preset = utils.lookup(PRESETS, name, 'preset')
  sizes = config.experiment
  checks.check_at_least(sizes, batch_size=1, rollout_length=2, replay_ratio=1)
  num_envs = max(
    1,
    experiment.num_environments(
      sizes.batch_size, sizes.replay_ratio, sizes.replay_fraction
    ),
  )
  steps_per_update = num_envs * sizes.rollout_length
  config.agent.optimizer.warmup_updates = -(
    -preset.warmup_steps // steps_per_update
  )
  capacity = preset.replay_steps // sizes.rollout_length
  sizes.replay_capacity = capacity - capacity % num_envs


def _set_if_there(group: config_dict.ConfigDict, name: str, value: Any) -> None:
  if name in group:
    group[name] = value
