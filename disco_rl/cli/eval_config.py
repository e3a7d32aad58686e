"""What `disco-rl eval` was asked for, and the settings that follow from it."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import checks
from disco_rl import evaluation
from disco_rl import experiment
from disco_rl import network_settings
from disco_rl import optimizers
from disco_rl import presets
from disco_rl import rule_choice
from disco_rl.cli import overrides
from disco_rl.environments import registry

# What can be said on the command line, and is then fixed for a run.
DEFAULTS: dict[str, Any] = dict(
  rule=rule_choice.DEFAULT,
  env='catch',
  steps=evaluation.DEFAULT_ITERATIONS,
  seed=0,
  num_seeds=1,
  devices=0,
  net=None,
  core=None,
  preset=None,
  use=[],
  set=[],
)


def resolve(
  asked: dict[str, Any],
  update_rule: str,
  rule_settings: Mapping[str, Any] | None = None,
) -> config_dict.ConfigDict:
  """All settings of a run.

  Args:
    asked: as `DEFAULTS`.
    update_rule: a key of `settings.SETTINGS`.
    rule_settings: what the rule was trained with, of an agent's settings.

  Returns:
    `agent`, `env` and `experiment`, groups of settings, and single ones.
  """
  config = config_dict.ConfigDict(
    dict(
      steps=asked['steps'],
      seed=asked['seed'],
      num_seeds=asked['num_seeds'],
      devices=asked['devices'],  # 0: as many as fit.
      chunk_size=evaluation.DEFAULT_CHUNK_SIZE,
      checkpoint_every=100,  # Iterations.
      env=registry.default_settings(asked['env']),
      experiment=dataclasses.asdict(experiment.Config()),
      agent=evaluation.default_agent_settings(
        update_rule, trained_with=rule_settings
      ),
    )
  )
  with config.agent.unlocked():
    config.agent.optimizer = optimizers.get_settings()
  preset = asked['preset']
  if preset is not None:
    presets.apply(config, preset)
  network = (
    asked['net']
    or (preset and presets.PRESETS[preset].network)
    or registry.suggested_network(asked['env'])
  )
  network_settings.choose(config.agent, network, asked['core'])
  may_be_none = overrides.may_be_none(experiment.Config, 'experiment')
  overrides.apply(config, asked['set'], may_be_none)
  asked_for = {text.partition('=')[0].strip(): text for text in asked['set']}
  if preset is not None:
    # What follows from sizes, with those asked for, unless it was asked for.
    presets.derive(config, preset)
    for path, assignment in asked_for.items():
      if path in presets.DERIVED:
        overrides.apply(config, [assignment], may_be_none)
  if (
    'experiment.replay_ratio' in asked_for
    and config.experiment.replay_fraction is not None
  ):
    raise ValueError(
      'experiment.replay_ratio is not used where there is a replay_fraction: '
      'set experiment.replay_fraction=none with it'
    )
  optimizer = config.agent.optimizer
  if optimizer.schedule == 'cosine' and not optimizer.total_updates:
    sizes = experiment.Config(**config.experiment)
    optimizer.total_updates = max(1, config.steps - sizes.num_warm_up)
    if optimizer.total_updates <= optimizer.warmup_updates:
      raise ValueError(
        f'--steps {config.steps} are too few: the learning rate rises for '
        f'{optimizer.warmup_updates} updates before it falls. Raise --steps, '
        'or lower agent.optimizer.warmup_updates'
      )
  checks.check_at_least(
    config,
    steps=1,
    num_seeds=1,
    devices=0,
    chunk_size=1,
    checkpoint_every=1,
  )
  evaluation.check_num_iterations(
    config.steps, experiment.Config(**config.experiment), '--steps'
  )
  return config
