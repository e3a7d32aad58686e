"""Networks by one name each, for an agent's settings.

  settings = agent.get_settings_disco()
  network_settings.choose(settings, 'conv', core='lstm')

What the rule asks of a network (which heads, which action model) stays as the
settings have it; what comes before that is chosen here.
"""

from collections.abc import Mapping
import inspect
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.networks import cores
from disco_rl.networks import nets
from disco_rl.networks import torsos

# Besides the torsos themselves: name to torso, its arguments, and the width of
# the action model.
PRESETS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
  # Of the published Atari agents.
  'atari': (
    'residual',
    dict(channels=(256, 384, 384, 256), dense=(768,)),
    1024,
  ),
}

# What an agent gives to every network, and is no setting.
_SPECS = ('out_spec', 'action_spec', 'model_out_spec')

_OF_ALL_NETWORKS = frozenset(
  {*inspect.signature(nets.MLPHeadNet).parameters, 'precision'}
)


def known_names() -> list[str]:
  """What `choose` takes."""
  return list(dict.fromkeys([*torsos.TORSOS, *PRESETS, *nets.NETWORKS]))


def choose(
  agent_settings: config_dict.ConfigDict,
  name: str | None = None,
  core: str | None = None,
) -> None:
  """Changes the network of an agent's settings, in place.

  Afterwards all arguments of torso and core are among the settings, at their
  defaults, and can be changed one by one.

  Args:
    agent_settings: see `agent.get_settings_disco`.
    name: a torso (`torsos.TORSOS`), a preset, or a whole network
      (`nets.register_network`); None to leave it as it is. The critic of
      `policy_gradient` gets the same torso.
    core: a memory (`cores.CORES`); None to leave it as it is. A critic has
      none.
  """
  net_settings = agent_settings.net_settings
  model_size = None
  whole_networks = set(nets.NETWORKS) - set(torsos.TORSOS)
  with agent_settings.unlocked():
    if name in whole_networks:
      if core is not None:
        raise ValueError(
          f'the network {name!r} is a whole one: a core ({core!r}) goes with '
          f'the torsos {", ".join(torsos.TORSOS)}'
        )
      net_settings.name = name
      args = utils.default_arguments(nets.NETWORKS[name])
      net_settings.net_args = config_dict.ConfigDict(
        {k: v for k, v in args.items() if k not in _SPECS}
      )
      return
    args = net_settings.net_args.to_dict()
    if name is not None:
      table: dict[str, tuple[str, Any, Any]] = {
        **{torso: (torso, {}, None) for torso in torsos.TORSOS},
        **PRESETS,
        # Only for the message: they were dealt with above.
        **{network: (network, {}, None) for network in whole_networks},
      }
      torso, changes, model_size = utils.lookup(table, name, 'network')
      kept = {k: v for k, v in args.items() if k in _OF_ALL_NETWORKS}
      if torso == net_settings.name == 'mlp':
        kept = args  # Its sizes are part of the settings.
      args = {**_defaults(torsos.TORSOS[torso]), **kept, **changes}
      net_settings.name = torso
      _choose_torso_of_critic(agent_settings, torso, changes)
    if core is not None:
      build = utils.lookup(cores.CORES, core, 'core')
      args.update(core=core, core_kwargs=_defaults(build))
    if model_size is not None and args.get('model_kwargs'):
      args['model_kwargs'] = dict(
        head_mlp_hiddens=(model_size,), lstm_size=model_size
      )
    args.setdefault('precision', 'float32')
    net_settings.net_args = config_dict.ConfigDict(args)


def _choose_torso_of_critic(
  agent_settings: config_dict.ConfigDict, torso: str, changes: Mapping[str, Any]
) -> None:
  """A critic that comes along sees what the agent sees."""
  critic = agent_settings.get('value_fn')
  if critic is None or critic.net == torso:
    return
  kept = {k: v for k, v in critic.net_args.items() if k in _OF_ALL_NETWORKS}
  with critic.unlocked():
    critic.net = torso
    critic.net_args = config_dict.ConfigDict(
      {**_defaults(torsos.TORSOS[torso]), **kept, **changes}
    )


def _defaults(build: Any) -> dict[str, Any]:
  """The default arguments of a torso or a core, but for its Haiku name."""
  arguments = utils.default_arguments(build)
  arguments.pop('name', None)
  return arguments
