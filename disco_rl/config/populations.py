"""The environments of meta-training, and how many agents each of them has."""

from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import config_dict

from disco_rl.config import experiments
from disco_rl.config import layers as layers_lib
from disco_rl.config import meta_training as meta_lib
from disco_rl.config import scaling

NUM_AGENTS = 2  # In each environment, without a preset.


def complete(request: Mapping[str, Any]) -> dict[str, Any]:
  """Completes a request by what its preset decides.

  Args:
    request: see `resolve.META_TRAINING`.

  Returns:
    The same with a list of environments; without a preset, also with a number
    of agents in each of them.

  Raises:
    ValueError: if the preset is unknown, or the scale is not valid.
  """
  request = dict(request)
  preset, scale = request['preset'], request['scale']
  if scale is not None:
    scaling.parse(scale)
    if preset is None:
      raise ValueError(
        'scale (--scale; in Python: scale=...) makes the sizes of a preset '
        'smaller, but none is given (--preset; in Python: preset=...)'
      )
    request['scale'] = str(scaling.parse(scale))
  envs = ['catch'] if preset is None else experiments.get(preset).envs
  if request['env'] is None:
    request['env'] = list(envs)
  if preset is None and request['num_agents'] is None:
    request['num_agents'] = NUM_AGENTS
  return request


def agents_by_env(
  settings: config_dict.ConfigDict, envs: Sequence[str]
) -> dict[str, int]:
  """Returns how many agents of meta-training each environment has.

  Args:
    settings: from `resolve.meta_training`.
    envs: the environments, in the order of the request.

  Returns:
    Name of an environment to its number of agents.

  Raises:
    ValueError: if there are fewer agents than environments.
  """
  if settings.total_agents is None:
    return dict.fromkeys(envs, settings.num_agents)
  each, more = divmod(settings.total_agents, len(envs))
  if not each:
    raise ValueError(
      f'total_agents ({settings.total_agents}) must be at least the number of '
      f'environments ({len(envs)})'
    )
  return {name: each + (i < more) for i, name in enumerate(envs)}


def choose_num_agents(layers: layers_lib.Layers) -> None:
  """Makes sure that agents are counted in one of the two ways.

  Args:
    layers: the settings, with those of the user.

  Raises:
    ValueError: if they are counted in both ways, or in neither.
  """
  users = {'--set', 'settings'}
  names = ('num_agents', 'total_agents')
  given = [
    name
    for name in names
    if layers[name] is not None and layers.origins.get(name) in users
  ]
  if len(given) == 2:
    raise ValueError(
      'num_agents (in each environment) and total_agents (in all of them) '
      'cannot both be given: leave one out'
    )
  for name in given:
    other = names[name == 'num_agents']
    layers.apply(layers.origins[name], {other: None})
  if all(layers[name] is None for name in names):
    raise ValueError('num_agents and total_agents cannot both be none')


def environments(
  names: list[str], objects: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns environments by name, with their default settings.

  Args:
    names: their names.
    objects: those that are not in the registry, which have no settings.

  Raises:
    ValueError: if a name is given twice, or unknown.
  """
  envs: dict[str, Any] = {}
  for name in names:
    if name in envs:
      raise ValueError(f'the environment {name} is given twice')
    envs[name] = {} if name in objects else meta_lib.get_env_settings(name)
  return envs


def by_name(groups: Mapping[str, Any]) -> config_dict.ConfigDict:
  """Makes groups of settings whose names may contain dots."""
  return config_dict.ConfigDict(dict(groups), allow_dotted_keys=True)
