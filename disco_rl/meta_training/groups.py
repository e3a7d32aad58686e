"""Groups of agents that train η together."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np
import optax

from disco_rl import agent as agent_lib
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import meta_loss
from disco_rl.rule_zoo import file_format
from disco_rl.update_rules import base


@dataclasses.dataclass(frozen=True)
class Group:
  """Agents that differ only by their seeds.

  Attributes:
    env_fn: makes their environment, which must be in JAX.
    agent_settings: see `agent.get_settings_disco`; with a group `value_fn`, the
      settings of their critics.
    num_agents: number of agents.
    optimizer: optimiser of the agents' parameters, instead of that of
      `agent_settings`; meta-gradients pass through it, see `Agent`.
    name: name of the environment, for the names of metrics; by default
      `group_0`, `group_1`, ...
  """

  env_fn: registry.EnvironmentFn
  agent_settings: config_dict.ConfigDict
  num_agents: int = 2
  optimizer: optax.GradientTransformation | None = None
  name: str | None = None


def check(groups: Sequence[Group], placement: parallel.Placement) -> list[str]:
  """Checks the sizes and names of groups.

  Args:
    groups: all groups.
    placement: the devices, over whose rows the agents of a group are sharded.

  Returns:
    Their names, all different.

  Raises:
    ValueError: if there are no groups, names are repeated, or the agents of a
      group cannot be sharded.
  """
  if not groups:
    raise ValueError('meta-training needs at least one group of agents')
  names = [
    f'group_{i}' if group.name is None else group.name
    for i, group in enumerate(groups)
  ]
  if len(set(names)) < len(groups):
    raise ValueError(f'groups must have different names, got {names}')
  for group in groups:
    if group.num_agents < 1:
      raise ValueError(f'num_agents must be >= 1, got {group.num_agents}')
    if group.num_agents % placement.num_lane_shards:
      raise ValueError(
        f'{group.num_agents} agents of a group cannot be sharded over '
        f'{placement.num_lane_shards} rows of devices'
      )
  return names


def build(
  group: Group,
  config: config_lib.Config,
  batch_axis_name: Any | None,
  regularizer: meta_loss.Regularizer | None,
) -> tuple[meta_gradient.MetaAgent, base.UpdateRule]:
  """Builds one agent of a group.

  Args:
    group: the group.
    config: the sizes; with a batch axis, those of one shard.
    batch_axis_name: axis over which batches are sharded, or None.
    regularizer: a further term of the meta-loss, or None.

  Returns:
    The agent, and its rule.

  Raises:
    ValueError: if the environment runs on the host.
  """
  env = registry.as_environment_fn(group.env_fn)(config.batching.num_envs, 0)
  agent = agent_lib.Agent.for_environment(
    env, group.agent_settings, batch_axis_name, group.optimizer
  )
  actor = actors.make(agent, env)
  if not isinstance(actor, actors.DeviceActor):
    actor.close()
    name = group.name or type(env).__name__
    raise ValueError(host_environment_message(name))
  built = meta_gradient.MetaAgent(
    agent, actor, config, batch_axis_name, regularizer
  )
  return built, agent.update_rule


def eta_spec(rules: Sequence[base.UpdateRule]) -> types.MetaParams:
  """Returns the specs of η, which must be the same for all groups."""
  specs = []
  for rule in rules:
    kind = type(rule).__name__
    with foreign.boundary(f'{kind} failed in init_params', ValueError):
      init = lambda r=rule: r.init_params(jax.random.PRNGKey(0))[0]
      specs.append(jax.eval_shape(init))
  if not jax.tree.leaves(specs[0]):
    raise ValueError('the rule of the agents has no parameters to train')
  for i, spec in enumerate(specs):
    file_format.check_like(spec, specs[0], f'the parameters of group {i}')
  return specs[0]


def average_names(names: Sequence[str]) -> list[str]:
  """Returns the names of the averages of `average_returns`, by group."""
  return [f'{what}/{name}' for name in names for what in ('episodes', 'return')]


def average_returns(
  names: Sequence[str], logs: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, float]:
  """Averages the returns of each group's episodes.

  Args:
    names: names of the groups.
    logs: `meta_gradient.EPISODE_LOG` of the agents of each group.

  Returns:
    `episodes/NAME`, and `return/NAME`, which is NaN without episodes.
  """
  averages = {}
  for name, log in zip(names, logs, strict=True):
    episodes, total = (
      float(np.sum(log[key])) for key in meta_gradient.EPISODE_LOG
    )
    averages[f'episodes/{name}'] = episodes
    averages[f'return/{name}'] = total / episodes if episodes else np.nan
  return averages


def host_environment_message(name: str) -> str:
  """Makes the error message for an environment on the host.

  Args:
    name: name of the environment.

  Returns:
    The message.
  """
  return (
    f'meta-training cannot use {name}, which runs on the host, outside of JAX: '
    'all agents act and learn inside one compiled program, so it needs '
    'environments written in JAX, such as catch, gymnax:<id> or your own. Use '
    f'one of those, or train agents in {name} with a fixed rule (`disco-rl '
    'eval`)'
  )
