"""Finds groups on the host whose agents differ by their environment only.

The published experiment has 57 games with the same images and actions. Their
groups run the same program, which is traced and compiled only once. They can
also be joined, so that a few agents of each are sharded over many devices.
"""

from collections.abc import Collection, Mapping, Sequence
import math
from typing import Any

import jax

from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry
from disco_rl.meta_training import groups as groups_lib

Probes = Mapping[str, registry.EnvironmentFn]


def make_probes(settings: Mapping[str, Any], custom: Collection[str]) -> Probes:
  """Returns functions that make one stream of environments on the host.

  Args:
    settings: names of environments to their settings.
    custom: names of those that are not in the registry, which are left out.

  Returns:
    The functions by name, without workers.
  """
  return {
    name: registry.environment_fn(
      name, **{key: x for key, x in own.items() if key != 'num_workers'}
    )
    for name, own in settings.items()
    if name not in custom and registry.is_on_host(name)
  }


def place(
  groups: Sequence[groups_lib.Group],
  probes: Probes,
  config: config_lib.Config,
  devices: Sequence[jax.Device],
  num_lane_shards: int | None,
) -> tuple[list[groups_lib.Group], int]:
  """Arranges devices in rows, and joins groups if their agents need it.

  Without joining, rows must divide the agents of each group, and the columns
  the batches. If that is impossible, or rows that are given do not divide the
  agents, neighbours that are alike but for their numbers of agents are joined
  until they do. Agents of a joint group act one after the other before they
  are differentiated, so no more groups are joined than needed.

  Args:
    groups: one group per environment.
    probes: environments on the host, by the names of the groups that may be
      joined, to be made with one stream.
    config: the sizes, over all devices.
    devices: the devices.
    num_lane_shards: number of rows; None to choose it.

  Returns:
    The groups, and the number of rows. If nothing fits, that is what does not
    need joining, for an error that names it.
  """
  rows = num_lane_shards
  if rows is None:
    rows = math.gcd(len(devices), *(group.num_agents for group in groups))
    if _fits(rows, config, devices):
      return list(groups), rows
  elif not any(group.num_agents % rows for group in groups):
    return list(groups), rows
  runs = _runs(groups, probes)
  if num_lane_shards is None:
    totals = [sum(group.num_agents for group in run) for run in runs]
    most = math.gcd(len(devices), *totals)
    fitting = [
      n
      for n in range(most, rows, -1)
      if not most % n and _fits(n, config, devices)
    ]
    if not fitting:
      return list(groups), rows
    rows = fitting[0]
  joined = []
  for run in runs:
    first = 0
    for last in range(len(run)):
      own = run[first : last + 1]
      if not sum(group.num_agents for group in own) % rows:
        joined.append(groups_lib.join(own))
        first = last + 1
    joined += run[first:]
  return joined, rows


def _fits(
  rows: int, config: config_lib.Config, devices: Sequence[jax.Device]
) -> bool:
  """Returns whether the columns of a grid divide batches and processes."""
  columns = len(devices) // rows
  sizes = config.batching
  num_processes = len({device.process_index for device in devices})
  of_process = len(devices) // num_processes
  is_block = not columns % of_process or not of_process % columns
  return is_block and not (
    sizes.num_envs % columns or sizes.batch_size % columns
  )


def _runs(
  groups: Sequence[groups_lib.Group], probes: Probes
) -> list[list[groups_lib.Group]]:
  """Divides groups into runs of neighbours that can be joined."""
  runs: list[list[groups_lib.Group]] = []
  kinds = [_shared(x) if x.name in probes else None for x in groups]
  last = None
  for i, group in enumerate(groups):
    kind, neighbours = None, kinds[max(i - 1, 0) : i] + kinds[i + 1 : i + 2]
    if kinds[i] is not None and kinds[i] in neighbours:
      kind = (kinds[i], _specs(probes[str(group.name)]))
    if kind is not None and kind == last:
      runs[-1].append(group)
    else:
      runs.append([group])
    last = kind
  return runs


def count(groups: Sequence[groups_lib.Group], probes: Probes) -> dict[int, int]:
  """Counts the groups that run the same program.

  An environment of one stream is made and closed for every group that may be
  like another one.

  Args:
    groups: the groups.
    probes: see `place`; of a joint group, that of its first member.

  Returns:
    Index of the first of several groups that are alike to their number, in the
    order of the groups.
  """
  found: list[tuple[int, Any, Any]] = []  # Index, what is needed, specs.
  counts: dict[int, int] = {}
  needs = [_needs(group) for group in groups]
  for i, group in enumerate(groups):
    specs = None
    name = str(group.parts[0].name)
    if name in probes and needs.count(needs[i]) > 1:
      specs = _specs(probes[name])
      same = [j for j, own, x in found if own == needs[i] and x == specs]
      if same:
        counts[same[0]] += 1
        continue
      found.append((i, needs[i], specs))
    counts[i] = 1
  return counts


def first_of_each(
  groups: Sequence[groups_lib.Group], built: Sequence[groups_lib.Built]
) -> list[int]:
  """Finds for every group the first one that runs the same program.

  Args:
    groups: the groups.
    built: what they consist of.

  Returns:
    Indices of groups; a group in JAX is alone.
  """
  kinds: list[Any] = []
  for i, (group, own) in enumerate(zip(groups, built, strict=True)):
    specs = _describe(*own.specs)
    kinds.append((_needs(group), specs) if own.host is not None else i)
  return [kinds.index(kind) for kind in kinds]


def _needs(group: groups_lib.Group) -> Any:
  """Returns what groups that are alike have in common, besides specs."""
  return *_shared(group), group.num_agents


def _shared(group: groups_lib.Group) -> tuple[Any, ...]:
  """Returns what groups that can be joined have in common, besides specs."""
  return group.agent_settings.to_dict(), id(group.optimizer)


def _specs(probe: registry.EnvironmentFn) -> Any:
  """Returns the specs of an environment's observations and actions."""
  env = registry.as_environment_fn(probe)(1, 0)
  try:
    return _describe(
      env.single_observation_spec(),
      env.single_action_spec(),
      env.has_action_mask,
    )
  finally:
    env.close()


def _describe(
  observation: types.SpecsTree, action: types.ActionSpec, has_mask: bool
) -> Any:
  """Returns the specs in a form that can be compared."""
  leaves, structure = jax.tree.flatten(observation)
  shapes = [(x.shape, str(x.dtype)) for x in leaves]
  bounds = (action.shape, int(action.minimum), int(action.maximum))
  return shapes, structure, bounds, has_mask
