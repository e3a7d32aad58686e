"""Checks of settings that depend on several of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import schema
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry

# Limit on environments in Python, for all agents together; each takes memory
# and time.
_MAX_HOST_STREAMS = 2**14


def declared_fields(group: str, env: str) -> dict[str, fields.Field]:
  """Returns the fields of an environment's settings, by path.

  Args:
    group: path of the group that contains them.
    env: name of the environment.
  """
  declared = registry.settings_fields(env)
  return {f'{group}.{name}': field for name, field in declared.items()}


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
  """Checks that seeds are one or more different numbers; returns them."""
  checked = schema.check('seeds', list(seeds))
  if not checked or len(set(checked)) != len(checked):
    raise ValueError(
      'seeds must be one or more different numbers, got '
      f'{fields.shorten(checked)}'
    )
  return checked


def check_env_seeds(
  group: str, settings: Mapping[str, Any], seeds: Iterable[int]
) -> None:
  """Raises a `ValueError` if an environment would have too large a seed.

  Args:
    group: path of the environment's settings.
    settings: its settings; the seeds of agents are added to `random_seed`.
    seeds: the seeds of agents.
  """
  first, last = settings.get('random_seed'), max(seeds)
  if isinstance(first, int) and first + last > schema.MAX_SEED:
    raise ValueError(
      f'{group}.random_seed {first} is too large for the seed {last}, which is '
      f'added to it: the sum may be at most {schema.MAX_SEED}'
    )


def check_rule_name(agent: config_dict.ConfigDict, kind: str) -> None:
  """Raises a `ValueError` if the agents' rule is not of the loaded rule's kind.

  Args:
    agent: the agents' settings.
    kind: the kind of the loaded rule.
  """
  name = agent.update_rule_name
  if name != kind:
    raise ValueError(
      f'agent.update_rule_name must be {kind}, the kind of the rule, got '
      f'{name}: choose another rule instead (--rule; in Python: rule=...)'
    )


def has_workers(env: str) -> bool:
  """Returns whether an environment can be stepped in worker processes.

  Args:
    env: its name.
  """
  field = registry.settings_fields(env).get('num_workers')
  return field is fields.WORKERS


def check_streams(
  group: str,
  env: str,
  settings: Mapping[str, Any],
  sizes: batching_lib.Batching,
  num_seeds: int,
  sizes_group: str = 'batching',
) -> None:
  """Checks the number of environments that run in Python, and their workers.

  Args:
    group: path of the environment's settings.
    env: its name; nothing is checked for one that is in JAX.
    settings: its settings.
    sizes: the sizes of one agent's batches.
    num_seeds: number of agents.
    sizes_group: path of the sizes' settings.

  Raises:
    ValueError: if there are more than are accepted, or if they cannot be
      divided among the workers.
  """
  if not registry.is_on_host(env):
    return
  total = sizes.num_envs * num_seeds
  if total > _MAX_HOST_STREAMS:
    raise ValueError(
      f'{sizes_group}.num_envs ({sizes.num_envs}) for each of {num_seeds} '
      f'seeds makes {total} environments {env}, which run in Python: at most '
      f'{_MAX_HOST_STREAMS} are accepted'
    )
  num_workers = settings['num_workers'] if has_workers(env) else 0
  if num_workers and sizes.num_envs % num_workers:
    raise ValueError(
      f'{group}.num_workers must be 0 or divide {sizes_group}.num_envs '
      f'({sizes.num_envs}), got {num_workers}'
    )


def check_host_environments(
  settings: config_dict.ConfigDict,
  agents_by_env: Mapping[str, int],
  objects: Mapping[str, Any],
) -> None:
  """Checks seeds and number of the environments of meta-training on the host.

  Args:
    settings: all settings.
    agents_by_env: name of every environment to its number of agents, in the
      order of their groups.
    objects: those that are not in the registry, by name.
  """
  sizes = batching_lib.from_settings(settings.batching, 'batching')
  first = settings.seed
  for name, num_agents in agents_by_env.items():
    if name not in objects and registry.is_on_host(name):
      seeds = range(first, first + num_agents)
      check_env_seeds(f'env.{name}', settings.env[name], seeds)
      own = settings.env[name]
      check_streams(f'env.{name}', name, own, sizes, num_agents)
    first += num_agents


def check_evaluations(
  settings: config_dict.ConfigDict, objects: Mapping[str, Any]
) -> None:
  """Checks the sizes and environments of evaluations in meta-training.

  Args:
    settings: all settings.
    objects: the environments that are not in the registry, by name.
  """
  sizes = batching_lib.from_settings(settings.eval.batching, 'eval.batching')
  batching_lib.check_steps(settings.eval.steps, sizes, 'eval.steps')
  seeds = range(settings.eval.num_seeds)
  group = 'eval.env' if settings.eval.env else 'env'
  for name, own in (settings.eval.env or settings.env).items():
    check_env_seeds(f'{group}.{name}', own, seeds)
    if name not in objects:
      check_streams(
        f'{group}.{name}', name, own, sizes, len(seeds), 'eval.batching'
      )
