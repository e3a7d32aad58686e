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


@dataclasses.dataclass(frozen=True, kw_only=True)
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

  learning_rate: float = 3e-4
  schedule: str = 'cosine'
  warmup_steps: int = 0
  weight_decay: float = 0.1
  max_abs_update: float = 1.0
  discount: float = 0.997
  frame_stack: int = 4
  batch_size: int = 96
  replay_fraction: float
  replay_steps: int
  rollout_length: int = 29
  network: str | None = None


PRESETS: Mapping[str, Preset] = {
  'atari': Preset(
    warmup_steps=5_000_000,
    replay_fraction=0.95,
    replay_steps=1_760_000,
    network='atari',
  ),
  'crafter': Preset(
    schedule='constant',
    weight_decay=0.3,
    frame_stack=32,
    batch_size=24,
    replay_fraction=0.99,
    replay_steps=400_000,
  ),
  'dmlab': Preset(
    learning_rate=5e-4,
    warmup_steps=1_000_000,
    weight_decay=0.01,
    discount=0.99,
    frame_stack=1,
    replay_fraction=0.9,
    replay_steps=220_000,
    rollout_length=100,
  ),
  'nethack': Preset(
    learning_rate=1e-4,
    warmup_steps=10_000_000,
    weight_decay=0.03,
    max_abs_update=0.3,
    replay_fraction=0.95,
    replay_steps=1_760_000,
  ),
  'procgen': Preset(
    warmup_steps=1_000_000,
    batch_size=192,
    replay_fraction=0.9,
    replay_steps=880_000,
  ),
  'sokoban': Preset(replay_fraction=0.9, replay_steps=880_000),
}

# The settings that `derive` sets.
DERIVED = ('agent.optimizer.warmup_updates', 'experiment.replay_capacity')


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
