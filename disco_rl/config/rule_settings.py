"""Applies the settings that a rule was trained with, after checking them.

They come from a rule's file, which is not trusted.
"""

from collections.abc import Mapping
import inspect
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl.networks import meta_nets
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import plain_settings
from disco_rl.update_rules import input_transforms
from disco_rl.update_rules import registry


def update(
  config: config_dict.ConfigDict,
  plain: Mapping[str, Any],
  where: str = 'the rule',
) -> None:
  """Updates an agent's settings with those of a trained rule, in place.

  Args:
    config: the agent's settings.
    plain: the groups `update_rule` and `hyper_params` in the form of
      `runs.plain_settings`; either may be missing. Groups inside them, such as
      the meta-network's settings, are replaced as a whole.
    where: the rule's name in messages.

  Raises:
    ValueError: if the settings are unknown or not valid.
  """
  is_known = config.update_rule_name in registry.BUILT_IN
  custom = () if is_known else schema.CUSTOM
  with config.unlocked():
    for group in rule_lib.SETTINGS_GROUPS:
      recorded = plain.get(group, {})
      if not isinstance(recorded, Mapping):
        raise ValueError(
          f'{where} records {group} as {fields.shorten(recorded)}, which is '
          'not a group of settings'
        )
      try:
        restored = plain_settings.from_plain(recorded)
        if is_known:
          _check_group(config, group, restored)
        schema.check_tree(restored, f'agent.{group}', custom)
      except (TypeError, ValueError) as error:
        raise ValueError(
          f'{where} records settings that are not valid: {error}'
        ) from None
      for name, value in restored.items():
        if isinstance(value, Mapping):
          value = config_dict.ConfigDict(value)
        config[group][name] = value


def _check_group(
  config: config_dict.ConfigDict, group: str, recorded: Mapping[str, Any]
) -> None:
  """Checks names and types of the settings of a built-in rule."""
  known = set(config[group])
  if group == 'update_rule':
    known |= _arguments(registry.UPDATE_RULES[config.update_rule_name])
  for name, value in recorded.items():
    path = f'agent.{group}.{name}'
    if name not in known:
      raise ValueError(
        f'unknown setting {fields.shorten(path)}; known: '
        f'{", ".join(sorted(known))}'
      )
    default = config[group].get(name)
    is_group = isinstance(default, config_dict.ConfigDict)
    if is_group != isinstance(value, Mapping):
      words = 'a group of settings' if is_group else 'a single setting'
      raise ValueError(f'{path} must be {words}, got {fields.shorten(value)}')
    if isinstance(value, Mapping) and name == 'net':
      _check_meta_network(value, path)
    elif default is not None and not isinstance(value, Mapping):
      schema.check(path, value, default, custom=())


def _check_meta_network(net: Mapping[str, Any], path: str) -> None:
  """Checks the arguments of a meta-network and of the meta-RNN inside it."""
  name = schema.check(f'{path}.name', net.get('name'), custom=())
  build = meta_nets.META_NETS[name]
  if build is not meta_nets.LSTM:
    return  # A custom network checks its own arguments.
  _check_arguments(build, {k: v for k, v in net.items() if k != 'name'}, path)
  inner = net['meta_rnn_kwargs']
  if not isinstance(inner, Mapping):
    raise ValueError(f'{path}.meta_rnn_kwargs is not a group of settings')
  given = {'input_option': None, **inner}
  _check_arguments(meta_nets.MetaLSTM, given, f'{path}.meta_rnn_kwargs')
  for option in (net['input_option'], inner.get('input_option')):
    if option is not None:
      _check_inputs(option, f'{path}.input_option')


def _check_arguments(build: Any, given: Mapping[str, Any], path: str) -> None:
  parameters = inspect.signature(build).parameters
  for name, parameter in parameters.items():
    if parameter.default is parameter.empty and name not in given:
      raise ValueError(f'{path}.{name} is missing')
  unknown = sorted(set(given) - set(parameters))
  if unknown:
    raise ValueError(
      f'unknown setting {fields.shorten(f"{path}.{unknown[0]}")}; known: '
      f'{", ".join(sorted(parameters))}'
    )


def _check_inputs(option: Any, path: str) -> None:
  """Checks types, sources and transforms of the inputs of a meta-network."""
  is_option = isinstance(option, types.MetaNetInputOption) and all(
    isinstance(inputs, list | tuple)
    and all(
      isinstance(one, types.TransformConfig)
      and isinstance(one.source, str)
      and isinstance(one.transforms, list | tuple)
      and all(isinstance(name, str) for name in one.transforms)
      for one in inputs
    )
    for inputs in (option.base, option.action_conditional)
  )
  if not is_option:
    raise ValueError(f'{path} is not a list of inputs')
  try:
    input_transforms.check_option(option)
  except (KeyError, ValueError) as error:
    raise ValueError(f'{path}: {error.args[0]}') from None


def _arguments(build: Any) -> set[str]:
  return set(inspect.signature(build).parameters)
