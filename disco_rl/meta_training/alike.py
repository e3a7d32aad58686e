"""Finds groups on the host whose agents differ by their environment only.

The published experiment has 57 games with the same images and actions. Their
groups run the same program, which is traced and compiled only once.
"""

from collections.abc import Sequence
from typing import Any

import jax

from disco_rl import types
from disco_rl.environments import registry
from disco_rl.meta_training import groups as groups_lib


def count(
  groups: Sequence[groups_lib.Group], names: Sequence[str]
) -> dict[int, int]:
  """Counts the groups that run the same program.

  An environment of one stream is made and closed for every group that may be
  like another one.

  Args:
    groups: the groups.
    names: name of each group's environment; only those that the registry has on
      the host are compared.

  Returns:
    Index of the first of several groups that are alike to their number, in the
    order of the groups.
  """
  found: list[tuple[int, Any, Any]] = []  # Index, what is needed, specs.
  counts: dict[int, int] = {}
  needs = [_needs(group) for group in groups]
  for i, group in enumerate(groups):
    specs = None
    if registry.is_on_host(names[i]) and needs.count(needs[i]) > 1:
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
  settings = group.agent_settings.to_dict()
  return settings, group.num_agents, id(group.optimizer)


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
