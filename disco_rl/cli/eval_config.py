"""What `disco-rl eval` was asked for, and the settings that follow from it."""

import argparse
import dataclasses
from typing import Any

from ml_collections import config_dict

import disco_rl
from disco_rl import evaluation
from disco_rl import experiment
from disco_rl.cli import errors
from disco_rl.cli import overrides
from disco_rl.environments import registry

# What can be said on the command line, and is then fixed for a run.
DEFAULTS: dict[str, Any] = dict(
  rule='best',
  env='catch',
  steps=evaluation.DEFAULT_ITERATIONS,
  seed=0,
  num_seeds=1,
  devices=0,
  set=[],
)


def from_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
  """What was asked for, defaults filled in."""
  given = {name: getattr(arguments, name) for name in DEFAULTS}
  return {
    name: default if given[name] is None else given[name]
    for name, default in DEFAULTS.items()
  }


def resolve(asked: dict[str, Any], update_rule: str) -> config_dict.ConfigDict:
  """All settings of a run.

  Args:
    asked: as `DEFAULTS`.
    update_rule: a key of `settings.SETTINGS`.

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
      agent=evaluation.default_agent_settings(update_rule),
    )
  )
  overrides.apply(config, asked['set'])
  for name, least in dict(
    steps=1, num_seeds=1, devices=0, chunk_size=1, checkpoint_every=1
  ).items():
    if config[name] < least:
      raise errors.UsageError(
        f'{name} must be at least {least}, got {config[name]}'
      )
  return config


def describe(
  asked: dict[str, Any],
  rule: str,
  update_rule: str,
  settings: config_dict.ConfigDict,
) -> dict[str, Any]:
  """What `config.json` of a run says.

  Args:
    asked: as `DEFAULTS`.
    rule: its name, for people.
    update_rule: a key of `settings.SETTINGS`.
    settings: from `resolve`.

  Returns:
    A tree of JSON types.
  """
  return dict(
    command='eval',
    version=disco_rl.__version__,
    rule=rule,
    update_rule=update_rule,
    asked=asked,
    settings=overrides.to_plain(settings),
  )


def check_same(recorded: dict[str, Any], now: dict[str, Any]) -> None:
  """Refuses to go on with a run whose settings would be others now.

  Args:
    recorded: the settings of `config.json`.
    now: those this version of the library makes of what was asked for.
  """
  before, after = _flatten(recorded), _flatten(now)
  changed = [
    f'{name} was {before.get(name)!r}, is {after.get(name)!r}'
    for name in sorted(before.keys() | after.keys())
    if before.get(name) != after.get(name) and name != 'steps'
  ]
  if changed:
    raise errors.UsageError(
      'the run was made with other settings, by another version or an edited '
      f'config.json: {"; ".join(changed[:5])}'
    )


def _flatten(tree: Any, path: str = '') -> dict[str, Any]:
  if not isinstance(tree, dict):
    return {path: tree}
  flat: dict[str, Any] = {}
  for name, inner in tree.items():
    flat |= _flatten(inner, f'{path}.{name}' if path else name)
  return flat
