"""Settings of agents in meta-training."""

from ml_collections import config_dict

from disco_rl import settings


def get_agent_settings() -> config_dict.ConfigDict:
  """The agents of the small reference setting."""
  config = settings.get_settings_disco()
  config.learning_rate = 5e-4
  net_args = config.net_settings.net_args
  net_args.dense = (512, 512)
  net_args.model_kwargs.update(head_mlp_hiddens=(256,), lstm_size=256)
  return config
