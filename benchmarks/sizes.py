"""Settings of agents in two sizes: the published one, and a small one."""

from typing import Any

from disco_rl import agent

NAMES = ('published', 'small')


def agent_settings(name: str) -> Any:
  """Makes the settings of an agent that learns with Disco.

  Args:
    name: `'published'`, or `'small'` for a rule with 32 predictions, 31 bins
      and 64 hidden units, and small agent networks.

  Returns:
    A ConfigDict; see `disco_rl.agent.get_settings_disco`.
  """
  settings = agent.get_settings_disco()
  if name == 'published':
    return settings
  if name != 'small':
    raise ValueError(f'the size must be one of {NAMES}, got {name!r}')
  settings.update_rule.num_bins = 31
  settings.update_rule.net.update(prediction_size=32, hidden_size=64)
  settings.update_rule.net.meta_rnn_kwargs.hidden_size = 32
  settings.net_settings.net_args.dense = (64, 64)
  settings.net_settings.net_args.model_kwargs.update(
    head_mlp_hiddens=(32,), lstm_size=32
  )
  return settings
