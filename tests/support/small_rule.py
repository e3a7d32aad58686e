"""Files of small rules of the Disco form, for commands."""

import jax

from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import registry
from tests.support import small

# Options of agents that learn with them in a moment.
OPTIONS = [
  *('--set=env.rows=5', '--set=env.columns=4'),
  *('--set=batching.batch_size=8', '--set=batching.num_envs=8'),
  *('--set=batching.rollout_length=9', '--set=chunk_size=1'),
  '--set=agent.net_settings.net_args.dense=(9, 8)',
  '--set=agent.net_settings.net_args.model_kwargs.head_mlp_hiddens=(6,)',
  '--set=agent.net_settings.net_args.model_kwargs.lstm_size=5',
]


def save(path, prediction_size=7):
  """Saves a random rule with small networks."""
  settings = small.settings('disco')
  settings.update_rule.net.prediction_size = prediction_size
  rule = registry.get_update_rule('disco', **settings.update_rule)
  eta, _ = rule.init_params(jax.random.PRNGKey(0))
  rule_lib.save_rule(path, eta, settings=settings)
  return path
