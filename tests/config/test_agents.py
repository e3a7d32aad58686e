"""Settings of agents: what they refuse."""

import jax
import pytest

from disco_rl import agent
from disco_rl import types
from disco_rl.config import resolve
from disco_rl.rule_zoo import rule as rule_lib
from tests.support import small


def test_typos_in_settings_changed_from_python_are_refused():
  config = agent.get_settings_disco()
  with pytest.raises(AttributeError, match='lerning_rate'):
    config.lerning_rate = 1.0
  with pytest.raises(AttributeError, match='y_cots'):
    config.hyper_params.y_cots = 1.0
  with pytest.raises(KeyError, match='lerning_rate'):
    config.update(dict(lerning_rate=1.0))
  for rule in ('actor_critic', 'policy_gradient'):
    with pytest.raises(AttributeError, match='lerning_rate'):
      loaded = rule_lib.load_rule(rule)
      resolve.agent_settings(loaded, 'catch').lerning_rate = 1.0
  # Settings that were not made by the library are checked by the agent.
  config = small.settings('actor_critic')
  with config.unlocked():
    config.lerning_rate = 1.0
  with pytest.raises(ValueError, match=r'did you mean learning_rate\?'):
    small.make_agent('actor_critic', config)


def test_a_discount_that_nothing_reads_is_refused():
  config = small.settings('disco')  # Its value_discount is 0.97.
  small.make_agent('disco', config)
  config.hyper_params.discount_factor = 0.97
  small.make_agent('disco', config)
  config.hyper_params.discount_factor = 0.9
  with pytest.raises(ValueError, match=r'update_rule\.value_discount, 0\.97'):
    small.make_agent('disco', config)


def test_the_meta_network_cannot_see_observations():
  config = small.settings('disco')
  option = config.update_rule.net.input_option
  inputs = types.TransformConfig(source='observations', transforms=())
  with config.unlocked():
    config.update_rule.net.input_option = option.replace(
      base=(*option.base, inputs)
    )
  agent_ = lambda: small.make_agent('disco', config)
  with pytest.raises(ValueError, match='shape of observations'):
    agent_().update_rule.init_params(jax.random.PRNGKey(0))
