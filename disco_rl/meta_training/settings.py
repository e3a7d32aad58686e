"""Settings of agents and environments in meta-training."""

from typing import Any

from ml_collections import config_dict

from disco_rl import settings
from disco_rl.environments import registry

# The small reference setting plays on a small board.
_ENV_SETTINGS = {'catch': dict(rows=5, columns=5)}


def get_agent_settings(rule: str = 'disco') -> config_dict.ConfigDict:
  """Settings of the agents that η is trained with.

  Args:
    rule: the kind of rule, a key of `settings.SETTINGS`.

  Returns:
    For the discovered rule those of the small reference setting, for others
    those they were registered with.
  """
  if rule != 'disco':
    return settings.get_settings(rule)
  config = settings.get_settings_disco()
  config.learning_rate = 5e-4
  net_args = config.net_settings.net_args
  net_args.dense = (512, 512)
  net_args.model_kwargs.update(head_mlp_hiddens=(256,), lstm_size=256)
  return config


def get_env_settings(name: str) -> config_dict.ConfigDict:
  """The settings of an environment that η is trained in.

  Args:
    name: see `environments.registry`.

  Returns:
    Its default settings, those of Catch with a board of 5x5.
  """
  config: Any = registry.default_settings(name)
  config.update(_ENV_SETTINGS.get(name, {}))
  return config
