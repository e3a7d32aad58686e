"""Groups of agents that train η together."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import NamedTuple

import jax
from ml_collections import config_dict
import numpy as np
import optax

from disco_rl import agent as agent_lib
from disco_rl import fields
from disco_rl import optimizers
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import streams
from disco_rl.learning import actors
from disco_rl.meta_training import host_group
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import returns
from disco_rl.rule_zoo import file_format
from disco_rl.update_rules import base


@dataclasses.dataclass(frozen=True)
class Group:
  """Agents that differ only by their seeds.

  Attributes:
    env_fn: makes their environment, in JAX or on the host.
    agent_settings: see `agent.get_settings_disco`; with a group `value_fn`, the
      settings of their critics.
    num_agents: number of agents.
    optimizer: optimiser of the agents' parameters, instead of that of
      `agent_settings`; meta-gradients pass through it, see `Agent`.
    name: name of the environment, for the names of metrics; by default
      `group_0`, `group_1`, ...
    members: groups in environments on the host that are joined in this one, see
      `alike.place`; by default it is alone.
  """

  env_fn: registry.EnvironmentFn
  agent_settings: config_dict.ConfigDict
  num_agents: int = 2
  optimizer: optax.GradientTransformation | None = None
  name: str | None = None
  members: tuple['Group', ...] = ()

  @property
  def parts(self) -> tuple['Group', ...]:
    """The members, or the group alone."""
    return self.members or (self,)


def join(groups: Sequence[Group]) -> Group:
  """Joins groups whose agents differ by their environment on the host only.

  Their programs are one, and its agents can be sharded over more devices.

  Args:
    groups: at least one group, in the order of the agents.

  Returns:
    A group with all their agents.
  """
  if len(groups) == 1:
    return groups[0]
  return dataclasses.replace(
    groups[0],
    num_agents=sum(group.num_agents for group in groups),
    name=', '.join(str(group.name) for group in groups),
    members=tuple(groups),
  )


def check(groups: Sequence[Group], placement: parallel.Placement) -> list[str]:
  """Checks the sizes and names of groups.

  Args:
    groups: all groups.
    placement: the devices, over whose rows the agents of a group are sharded.

  Returns:
    Their names, all different, also those of members.

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
  members = [own.name for group in groups for own in group.members]
  if len({*names, *members}) < len(names) + len(members):
    raise ValueError(f'groups must have different names, got {names}')
  for name, group in zip(names, groups, strict=True):
    if group.num_agents < 1:
      raise ValueError(f'num_agents must be >= 1, got {group.num_agents}')
    if group.num_agents % placement.num_lane_shards:
      raise ValueError(
        f'{group.num_agents} agents of a group ({fields.shorten(name)}) cannot '
        f'be sharded over {placement.num_lane_shards} rows of devices '
        '(lane_shards)'
      )
  return names


class Built(NamedTuple):
  """What a group consists of."""

  agent: meta_gradient.MetaAgent  # The same for all agents.
  rule: base.UpdateRule
  host: host_group.HostGroup | None  # None for environments in JAX.
  families: tuple[str, ...]  # Of tasks in the environment.
  # Of one observation and action, and whether there are action masks.
  specs: tuple[types.SpecsTree, types.ActionSpec, bool]


def build(
  group: Group,
  config: config_lib.Config,
  placement: parallel.Placement,
  regularizer: meta_loss.Regularizer | None,
  first_seed: int,
  acting_device: jax.Device | None,
) -> Built:
  """Builds the agents of a group.

  Args:
    group: the group.
    config: the sizes, over all devices.
    placement: the devices.
    regularizer: a further term of the meta-loss, or None.
    first_seed: seed of the first agent's environment, if that is on the host;
      those of the others follow.
    acting_device: see `host_group.HostGroup`.

  Returns:
    The agents. An environment on the host must be closed.
  """
  env_fns = [
    registry.as_environment_fn(own.env_fn)
    for own in group.parts
    for _ in range(own.num_agents)
  ]
  shard = config.per_shard(placement.num_batch_shards)
  num_envs = config.batching.num_envs
  seeds = range(first_seed, first_seed + group.num_agents)
  part = placement.own_part(group.num_agents, num_envs)
  lanes, own_streams = part or (range(group.num_agents), range(num_envs))
  share = streams.Share(own_streams.start, len(own_streams), num_envs)
  make_env = lambda seed: streams.make(
    env_fns[seed - first_seed], seed, dataclasses.replace(share)
  )
  env = make_env(seeds[lanes.start])
  device_sizes = (shard.batching.num_envs, 0)
  if env.is_jittable and (share.size, seeds[lanes.start]) != device_sizes:
    # Every device acts in its own shard of the environments.
    env = env_fns[0](*device_sizes)
  axis_name = placement.batch_axis
  try:
    settings, optimizer = _with_learning_rates(group, config)
    agent = agent_lib.Agent.for_environment(env, settings, axis_name, optimizer)
    is_whole = share.size == share.total
    actor = actors.make(agent, env, share=None if is_whole else share)
    meta_agent = meta_gradient.MetaAgent(
      agent, actor, shard, axis_name, regularizer
    )
    host = None
    if isinstance(actor, actors.HostActor):
      if part is None:
        raise ValueError(
          f'{actor.env_name} runs on the host, so rows of devices must consist '
          'of whole processes, or processes of whole rows: '
          f'{placement.num_lane_shards} rows (lane_shards) of '
          f'{placement.num_batch_shards} devices cannot be divided among '
          f'{placement.num_processes} processes in this way'
        )
      host = host_group.HostGroup(
        actor,
        env,
        make_env,
        seeds,
        lanes,
        config,
        placement,
        acting_device,
        [k for own in group.parts for k in range(own.num_agents)],
      )
  except BaseException:
    env.close()  # On the host, it may have processes.
    raise
  specs = (
    agent.single_observation_spec,
    agent.single_action_spec,
    env.has_action_mask,
  )
  families = tuple(env.families)
  return Built(meta_agent, agent.update_rule, host, families, specs)


def _with_learning_rates(
  group: Group, config: config_lib.Config
) -> tuple[config_dict.ConfigDict, optax.GradientTransformation | None]:
  """Returns the settings of agents, and their optimiser instead of those."""
  if not config.agent_learning_rates:
    return group.agent_settings, group.optimizer
  if group.optimizer is not None:
    raise ValueError(
      'learning rates cannot be drawn (meta.agent_learning_rates) for an '
      'optimiser of your own (agent_optimizer): leave out one of them'
    )
  optimizer = optimizers.agent_optimizer(group.agent_settings)
  settings = group.agent_settings.copy_and_resolve_references()
  if 'optimizer' in settings:  # It is part of the optimiser above.
    with settings.unlocked():
      del settings['optimizer']
  return settings, optimizers.with_factor(optimizer)


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


def sources(
  groups: Sequence[Group], names: Sequence[str], built: Sequence[Built]
) -> list[returns.Source]:
  """Returns the names by which returns are averaged, those of all parts."""
  return [
    returns.Source(name if own.name is None else own.name, made.families)
    for group, name, made in zip(groups, names, built, strict=True)
    for own in group.parts
  ]


def by_part(
  groups: Sequence[Group], logs: Sequence[Mapping[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
  """Divides the logs of joint groups among their members.

  Args:
    groups: the groups.
    logs: the log of each of them, leaves [n].

  Returns:
    The log of each part.
  """
  divided = []
  for group, log in zip(groups, logs, strict=True):
    first = 0
    for own in group.parts:
      rows = slice(first, first + own.num_agents)
      divided.append({name: x[rows] for name, x in log.items()})
      first += own.num_agents
  return divided
