"""Chooses the network of an agent's settings by name.

```python
settings = agent.get_settings_disco()
networks.choose(settings, 'conv', core='lstm')
```

Heads and action model, which depend on the rule, stay as they are (presets
change the size of the action model). A critic gets the same torso.
"""

from collections.abc import Mapping
import dataclasses
import inspect
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.networks import cores
from disco_rl.networks import nets
from disco_rl.networks import torsos
from disco_rl.update_rules import registry as rules


@dataclasses.dataclass(frozen=True)
class _Choice:
  """A network that can be chosen by name.

  Attributes:
    net: its name for `nets.get_network`.
    args: arguments that differ from the defaults.
    model_size: width of the action model; None to leave it as it is.
    is_whole: whether it is a complete network, not a torso.
  """

  net: str
  args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  model_size: int | None = None
  is_whole: bool = False


# Choices besides the torsos.
_PRESETS: Mapping[str, _Choice] = {
  # The published Atari agents.
  'atari': _Choice(
    'residual', dict(channels=(256, 384, 384, 256), dense=(768,)), 1024
  ),
}

# Arguments that an agent passes to every network; they are not settings.
_SPECS = ('out_spec', 'action_spec', 'model_out_spec')

_OF_ALL_NETWORKS = frozenset(
  {*inspect.signature(nets.MLPHeadNet).parameters, 'precision'}
)


def known_names() -> list[str]:
  """Lists the names that `choose` accepts."""
  return list(_choices())


def choose(
  agent_settings: config_dict.ConfigDict,
  name: str | None = None,
  core: str | None = None,
) -> None:
  """Changes the network of an agent's settings, in place.

  All arguments of the torso and the core become settings, with their defaults.

  Args:
    agent_settings: see `agent.get_settings_disco`.
    name: a torso (`torsos.TORSOS`), a preset (`'atari'`), or a complete network
      (`nets.register_network`); None to leave it as it is. A critic gets the
      same torso.
    core: a memory (`cores.CORES`); None to leave it as it is. A critic gets
      none.
  """
  net_settings = agent_settings.net_settings
  choice = _Choice(net_settings.name)
  if name is not None:
    choice = utils.lookup(_choices(), name, 'network')
  with agent_settings.unlocked():
    if choice.is_whole:
      if core is not None:
        raise ValueError(
          f'the network {name!r} is complete and takes no core ({core!r}): '
          f'cores go with the torsos {", ".join(torsos.TORSOS)}'
        )
      args = utils.default_arguments(nets.NETWORKS[choice.net])
      args = {k: v for k, v in args.items() if k not in _SPECS}
    else:
      args = net_settings.net_args.to_dict()
      if name is not None:
        args = _torso_args(choice, net_settings.name, args)
        _choose_torso_of_critic(agent_settings, choice)
      if core is not None:
        build = utils.lookup(cores.CORES, core, 'core')
        args.update(core=core, core_kwargs=_defaults(build))
      if choice.model_size is not None and args.get('model_kwargs'):
        args['model_kwargs'] = dict(
          head_mlp_hiddens=(choice.model_size,), lstm_size=choice.model_size
        )
      args.setdefault('precision', 'float32')
    net_settings.name = choice.net
    net_settings.net_args = config_dict.ConfigDict(args)


def custom_groups(
  agent: config_dict.ConfigDict,
  networks_by_env: Mapping[str, Any] | None = None,
  critics_by_env: Mapping[str, Any] | None = None,
) -> list[str]:
  """Lists the groups whose settings a custom rule or network defines.

  Args:
    agent: the agents' settings.
    networks_by_env: in meta-training, the networks by environment.
    critics_by_env: in meta-training, the critics' networks by environment.

  Returns:
    Prefixes of paths, for `schema.field_of`.
  """
  groups = []
  if agent.update_rule_name not in rules.BUILT_IN:
    groups += ['agent.update_rule.', 'agent.hyper_params.']
  names = {
    'agent.net_settings.net_args.': agent.get('net_settings', {}).get('name'),
    'agent.value_fn.net_args.': (agent.get('value_fn') or {}).get('net'),
  }
  for env, own in (networks_by_env or {}).items():
    names[f'net.{env}.net_args.'] = own.name
  for env, own in (critics_by_env or {}).items():
    names[f'critic_net.{env}.net_args.'] = own['net']
  return groups + [
    group for group, name in names.items() if name not in torsos.BUILT_IN
  ]


def check_arguments(net_settings: config_dict.ConfigDict, path: str) -> None:
  """Raises a `ValueError` for arguments that a built-in network does not have.

  Args:
    net_settings: the name of a network, and its arguments.
    path: path of the group that contains them, for messages.
  """
  name = net_settings.name
  if name not in torsos.BUILT_IN:
    return  # A custom network checks its own arguments.
  known = {*_OF_ALL_NETWORKS, *_defaults(torsos.TORSOS[name])} - {*_SPECS}
  unknown = sorted(set(net_settings.net_args) - known)
  if unknown:
    raise ValueError(
      f'{path}: the network {name} has no setting {unknown[0]}; it has '
      f'{", ".join(sorted(known))}. Another network is chosen by its name '
      '(--net; in Python: net=...)'
    )


def match_critic(agent_settings: config_dict.ConfigDict) -> None:
  """Gives a critic the torso of the agent's network, in place.

  Args:
    agent_settings: the settings; unchanged without a critic, or if the network
      is not one of the library's torsos.
  """
  net_settings = agent_settings.net_settings
  if net_settings.name not in torsos.TORSOS:
    return
  defaults = _defaults(torsos.TORSOS[net_settings.name])
  args = {k: v for k, v in net_settings.net_args.items() if k in defaults}
  _choose_torso_of_critic(agent_settings, _Choice(net_settings.name, args))


def _choices() -> dict[str, _Choice]:
  """Returns all networks by name, including those registered by now."""
  return {
    **{torso: _Choice(torso) for torso in torsos.TORSOS},
    **_PRESETS,
    **{
      network: _Choice(network, is_whole=True)
      for network in nets.NETWORKS
      if network not in torsos.TORSOS
    },
  }


def _torso_args(
  choice: _Choice, old_net: str, old_args: Mapping[str, Any]
) -> dict[str, Any]:
  """Makes the arguments of a torso: its defaults, and those of all networks."""
  if choice.net == old_net == 'mlp':
    kept = dict(old_args)  # The settings already have its sizes.
  else:
    kept = {k: v for k, v in old_args.items() if k in _OF_ALL_NETWORKS}
  return {**_defaults(torsos.TORSOS[choice.net]), **kept, **choice.args}


def _choose_torso_of_critic(
  agent_settings: config_dict.ConfigDict, choice: _Choice
) -> None:
  """Gives a critic, if there is one, the torso of the agent."""
  critic = agent_settings.get('value_fn')
  if critic is None or critic.net == choice.net:
    return
  args = _torso_args(choice, critic.net, critic.net_args)
  with critic.unlocked():
    critic.net = choice.net
    critic.net_args = config_dict.ConfigDict(args)


def _defaults(build: Any) -> dict[str, Any]:
  """Returns the default arguments of a torso or a core, without its name."""
  arguments = utils.default_arguments(build)
  arguments.pop('name', None)
  return arguments
