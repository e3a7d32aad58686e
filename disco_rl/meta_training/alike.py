"""Finds groups on the host whose agents differ by their environment only.

The published experiment has 57 games with the same images and actions. Their
groups run the same program, which is traced and compiled only once. They can
also be joined, so that a few agents of each are sharded over many devices.
"""

from collections.abc import Collection, Sequence
import math
from typing import Any

import jax

from disco_rl import types
from disco_rl.environments import registry
from disco_rl.meta_training import groups as groups_lib


def place(
  groups: Sequence[groups_lib.Group],
  on_host: Collection[str],
  num_devices: int,
  num_lane_shards: int | None,
) -> tuple[list[groups_lib.Group], int]:
  """Joins groups until rows of devices divide the agents of each.

  Neighbours are joined if they are alike but for their numbers of agents. No
  more of them are joined than needed, since a group acts while the devices
  differentiate the one before.

  Args:
    groups: one group per environment.
    on_host: names of the groups that may be joined, whose environments are on
      the host.
    num_devices: number of devices.
    num_lane_shards: number of rows; None for as many as possible.

  Returns:
    The groups, and the number of rows. Groups that cannot be joined stay as
    they are, also if the rows do not divide them.
  """
  rows = num_lane_shards
  if rows is None:
    rows = math.gcd(num_devices, *(group.num_agents for group in groups))
    if rows == num_devices:
      return list(groups), rows
  elif not any(group.num_agents % rows for group in groups):
    return list(groups), rows
  runs = _runs(groups, on_host)
  if num_lane_shards is None:
    totals = [sum(group.num_agents for group in run) for run in runs]
    rows = math.gcd(num_devices, *totals)
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


def _runs(
  groups: Sequence[groups_lib.Group], on_host: Collection[str]
) -> list[list[groups_lib.Group]]:
  """Divides groups into runs of neighbours that can be joined."""
  runs: list[list[groups_lib.Group]] = []
  kinds = [_shared(x) if x.name in on_host else None for x in groups]
  last = None
  for i, group in enumerate(groups):
    kind, neighbours = None, kinds[max(i - 1, 0) : i] + kinds[i + 1 : i + 2]
    if kinds[i] is not None and kinds[i] in neighbours:
      kind = (kinds[i], _specs(group))
    if kind is not None and kind == last:
      runs[-1].append(group)
    else:
      runs.append([group])
    last = kind
  return runs


def count(
  groups: Sequence[groups_lib.Group], on_host: Collection[str]
) -> dict[int, int]:
  """Counts the groups that run the same program.

  An environment of one stream is made and closed for every group that may be
  like another one.

  Args:
    groups: the groups.
    on_host: names of the groups (or of members of joint groups) that may be
      compared, whose environments are on the host.

  Returns:
    Index of the first of several groups that are alike to their number, in the
    order of the groups.
  """
  found: list[tuple[int, Any, Any]] = []  # Index, what is needed, specs.
  counts: dict[int, int] = {}
  needs = [_needs(group) for group in groups]
  for i, group in enumerate(groups):
    specs = None
    if group.parts[0].name in on_host and needs.count(needs[i]) > 1:
      specs = _specs(group)
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


def _specs(group: groups_lib.Group) -> Any:
  """Returns the specs of a group's observations and actions."""
  env = registry.as_environment_fn(group.env_fn)(1, 0)
  try:
    return _describe(env.single_observation_spec(), env.single_action_spec())
  finally:
    env.close()


def _describe(observation: types.SpecsTree, action: types.ActionSpec) -> Any:
  """Returns the specs in a form that can be compared."""
  leaves, structure = jax.tree.flatten(observation)
  shapes = [(x.shape, str(x.dtype)) for x in leaves]
  bounds = (action.shape, int(action.minimum), int(action.maximum))
  return shapes, structure, bounds
