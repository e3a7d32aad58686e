"""Budgets of runs: in environment steps, and schedules that end with a run.

Environment steps are those of one agent, as in the column `env_steps` of tables
of metrics: of all its environments together.
"""

from collections.abc import Mapping
from typing import Any

from disco_rl import fields
from disco_rl import schema
from disco_rl.config import batching as batching_lib
from disco_rl.config import layers as layers_lib


def steps_of(env_steps: int, per_step: int) -> int:
  """Converts environment steps to whole steps of a run, rounded up.

  Args:
    env_steps: environment steps of one agent, at least 1.
    per_step: environment steps of one agent in a step of the run.

  Returns:
    The number of steps.

  Raises:
    ValueError: if there are too many.
  """
  steps = -(-env_steps // per_step)
  if steps > fields.MAX_COUNT:
    raise ValueError(
      f'env_steps {env_steps} is too many: at {per_step} environment steps '
      f'each, a run may have at most {fields.MAX_COUNT} steps'
    )
  return steps


def apply(
  layers: layers_lib.Layers, request: Mapping[str, Any], per_step: int
) -> None:
  """Sets the number of steps, if the request counts environment steps.

  Args:
    layers: the settings, with the final sizes.
    request: has `env_steps`, perhaps None.
    per_step: environment steps of one agent in a step of the run.
  """
  if request['env_steps'] is not None:
    env_steps = schema.check('env_steps', request['env_steps'])
    steps = steps_of(env_steps, per_step)
    layers.apply('--env-steps', {'steps': steps})


def end_schedule(
  layers: layers_lib.Layers, batching: batching_lib.Batching
) -> None:
  """Makes a cosine schedule end with the run, unless its end is set.

  Args:
    layers: the settings of an evaluation, with the final number of steps.
    batching: its sizes.

  Raises:
    ValueError: if the learning rate would still rise at the end.
  """
  optimizer = layers.settings.agent.get('optimizer')
  if optimizer is None or optimizer.schedule != 'cosine':
    return
  if optimizer.total_updates:
    return
  steps = layers.settings.steps
  total = max(1, steps - batching.num_warm_up)
  if total <= optimizer.warmup_updates:
    raise ValueError(
      f'steps {steps} is too few: the learning rate rises for '
      f'{optimizer.warmup_updates} updates before it falls. Raise steps, or '
      'lower agent.optimizer.warmup_updates'
    )
  origin = layers.origins.get('steps', '--steps')
  layers.apply(origin, {'agent.optimizer.total_updates': total})
