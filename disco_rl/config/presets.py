"""Settings of evaluations, by name: as published, or as measured here.

The published ones are from "Discovering state-of-the-art reinforcement learning
algorithms" (Oh et al., Nature 2025). They need large machines: a replay of 1.76
million steps of Atari frames, for example, takes 50 GB. Those of `measured.py`
are the settings behind the numbers in docs/results.md.
"""

from collections.abc import Mapping
import dataclasses
import logging
from typing import Any

from disco_rl import utils
from disco_rl.config import batching
from disco_rl.config import layers as layers_lib
from disco_rl.config import measured

# Without a preset that chooses them.
ENV = 'catch'
STEPS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
  """The settings of agents on one benchmark.

  Attributes:
    learning_rate: peak of the learning rate.
    schedule: its schedule, see `optimizers.learning_rate_schedule`.
    warmup_steps: environment steps over which the learning rate rises.
    weight_decay: weight decay, see `optimizers.clipped_adam`.
    max_abs_update: bound on updates, see `optimizers.clipped_adam`.
    discount: γ.
    frame_stack: number of stacked frames; 1 for no stacking.
    batch_size: trajectories per update.
    replay_fraction: fraction of a batch that is replayed; at least one
      trajectory is fresh.
    replay_steps: capacity of the replay, in environment steps.
    rollout_length: steps of a trajectory, T+1.
    network: name of the network, see `config.networks.choose`; None for no
      preference.
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


def known_names() -> list[str]:
  """Lists all presets, those measured here first."""
  return [*measured.MEASURED, *PRESETS]


def get(name: str) -> Preset | measured.Measured:
  """Returns a preset; `name` is one of `known_names`."""
  known: dict[str, Preset | measured.Measured] = {}
  known.update(measured.MEASURED)
  known.update(PRESETS)
  return utils.lookup(known, name, 'preset')


def network(name: str | None) -> str | None:
  """Returns the network of a preset; None for no preset or no preference."""
  preset = None if name is None else get(name)
  return preset.network if isinstance(preset, Preset) else None


def complete(request: Mapping[str, Any]) -> dict[str, Any]:
  """Completes a request by the environment and steps of its preset.

  Args:
    request: see `resolve.EVALUATION`.

  Returns:
    The same, with an environment and a number of steps.

  Raises:
    ValueError: if the preset is unknown.
  """
  env, steps = ENV, STEPS
  if request['preset'] is not None:
    preset = get(request['preset'])
    if isinstance(preset, measured.Measured):
      env, steps = preset.env, preset.steps
  chosen = dict(env=env, steps=steps)
  return {
    **request,
    **{k: x for k, x in chosen.items() if request[k] is None},
  }


def values(name: str, layers: layers_lib.Layers, kind: str) -> dict[str, Any]:
  """Returns the settings of a preset, except those of `derived_values`.

  Args:
    name: one of `known_names`.
    layers: the settings of an evaluation, as `disco-rl eval --dry-run` shows
      them.
    kind: the kind of the rule, on which learning rates may depend.

  Returns:
    Path of a setting to its value, for the settings that exist in `layers`.
  """
  preset = get(name)
  if isinstance(preset, Preset):
    found = _published_values(preset)
    if preset.frame_stack > 1 and 'env.frame_stack' not in layers:
      logging.getLogger(__name__).warning(
        'the preset %s stacks %d frames, but this environment has no setting '
        'frame_stack',
        name,
        preset.frame_stack,
      )
  else:
    found = preset.values(kind)
  return {path: value for path, value in found.items() if path in layers}


def _published_values(preset: Preset) -> dict[str, Any]:
  return {
    'agent.learning_rate': preset.learning_rate,
    'agent.max_abs_update': preset.max_abs_update,
    'agent.optimizer.schedule': preset.schedule,
    'agent.optimizer.weight_decay': preset.weight_decay,
    'agent.hyper_params.discount_factor': preset.discount,
    'agent.update_rule.value_discount': preset.discount,
    'agent.value_fn.discount_factor': preset.discount,
    'env.frame_stack': preset.frame_stack,
    'batching.rollout_length': preset.rollout_length,
    'batching.batch_size': preset.batch_size,
    'batching.fresh_in_batch': True,
  }


def derived_values(name: str, layers: layers_lib.Layers) -> dict[str, Any]:
  """Returns the settings of a preset that depend on sizes set elsewhere.

  Presets count in environment steps, settings in updates and trajectories.

  Args:
    name: one of `known_names`.
    layers: the settings, with the final sizes.

  Returns:
    Path of a setting to its value, without settings that a layer changed.
  """
  preset = get(name)
  if not isinstance(preset, Preset):
    return {}
  batch_size = layers['batching.batch_size']
  num_envs = batching.num_fresh(batch_size, preset.replay_fraction)
  if 'batching.num_envs' in layers.origins:
    num_envs = layers['batching.num_envs']
  rollout_length = layers['batching.rollout_length']
  capacity = preset.replay_steps // rollout_length
  warmup_updates = -(-preset.warmup_steps // (num_envs * rollout_length))
  found = {
    'batching.num_envs': num_envs,
    'batching.replay_capacity': max(num_envs, capacity - capacity % num_envs),
    'agent.optimizer.warmup_updates': warmup_updates,
  }
  return {k: v for k, v in found.items() if k not in layers.origins}
