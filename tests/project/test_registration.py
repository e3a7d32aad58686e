"""Custom rules, networks and environments, by name."""

import json

from ml_collections import config_dict
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.config import agents
from disco_rl.networks import nets
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import registry as rules
from examples import jax_environment
from examples import own_rule

MODULE = """
from ml_collections import config_dict

import disco_rl
from disco_rl.networks import nets
from examples import jax_environment
from examples import own_rule

def my_net(out_spec, action_spec, model_out_spec, width=5):
  return nets.get_network('mlp', out_spec=out_spec, dense=(width,),
                          action_spec=action_spec, head_w_init_std=None)

disco_rl.register_rule('my_rule', own_rule.Reinforce)
disco_rl.register_network('my_net', my_net)
disco_rl.register_environment(
  'my_env', jax_environment.Corridor,
  lambda: config_dict.ConfigDict(dict(length=5))
)
"""


def test_the_commands_know_what_a_module_registers(
  tmp_path, monkeypatch, capsys
):
  (tmp_path / 'my_registrations.py').write_text(MODULE)
  monkeypatch.chdir(tmp_path)
  command = ['eval', '--rule=my_rule', '--net=my_net', '--env=my_env']
  assert main.main([*command, '--dry-run']) == 2
  assert "unknown environment 'my_env'" in capsys.readouterr().err
  sizes = ['--set=batching.batch_size=4', '--set=batching.num_envs=4']
  sizes += ['--set=batching.rollout_length=4', '--steps=2', '--quiet']
  sizes += ['--set=agent.net_settings.net_args.width=3', '--devices=1']
  assert main.main([*command, '--use=my_registrations', *sizes]) == 0
  first_line = capsys.readouterr().out.splitlines()[0]
  assert first_line.startswith('rule my_rule (registered) on my_env, seeds')
  config = json.loads(
    (tmp_path / 'runs' / 'my_env-my_rule' / 'config.json').read_text()
  )
  agent = config['settings']['agent']
  assert agent['update_rule'] == dict(discount=0.9, entropy_cost=0.01)
  assert agent['net_settings'] == dict(name='my_net', net_args=dict(width=3))
  assert config['settings']['env'] == dict(length=5)
  assert main.main([*command, '--core=lstm', '--dry-run']) == 2
  assert 'is complete and takes no core' in capsys.readouterr().err
  run = disco_rl.load_run(tmp_path / 'runs' / 'my_env-my_rule')
  assert run.rule == rule_lib.load_rule('my_rule')


def test_registering_again_replaces_what_is_ones_own_only():
  for value in (own_rule.Reinforce, actor_critic.ActorCritic):
    disco_rl.register_rule('mine', value)  # As when a cell is run again.
    assert rules.UPDATE_RULES['mine'] is value
  assert disco_rl.load_rule('mine').kind == 'mine'
  for _ in range(2):
    disco_rl.register_network('mine', nets.NETWORKS['mlp'])
    disco_rl.register_environment('mine', jax_environment.Corridor)
  for register, name in (
    (disco_rl.register_rule, 'actor_critic'),
    (disco_rl.register_network, 'conv'),
    (disco_rl.register_environment, 'catch'),
    (disco_rl.register_environment, 'gym'),
    (disco_rl.register_rule, 'a:b'),
  ):
    with pytest.raises(ValueError, match=f"cannot be registered as '{name}'"):
      register(name, own_rule.Reinforce)
  with pytest.raises(ValueError, match='needs a class of update rules'):
    disco_rl.register_rule('other', 3)


def test_a_rule_that_needs_a_critic_gets_one():
  class Needy(own_rule.Reinforce):
    needs_value_out = True

  disco_rl.register_rule('needy', Needy)
  assert 'value_fn' in agents.get_settings('needy')


class Nothing:
  """Neither a rule nor a network."""

  def __init__(self, **arguments):
    del arguments


def test_what_is_made_is_checked_before_it_is_used():
  disco_rl.register_rule('nothing', Nothing)
  with pytest.raises(
    ValueError, match=r'the rule nothing made .* no method ag'
  ):
    disco_rl.evaluate('catch', 'nothing')
  disco_rl.register_network('nothing', Nothing)
  with pytest.raises(ValueError, match=r'the network nothing made .*Policy'):
    disco_rl.evaluate('catch', 'actor_critic', net='nothing')
  settings = lambda: config_dict.ConfigDict(dict(random_seed='x'))
  disco_rl.register_environment('nothing', Nothing, settings)
  message = "random_seed of nothing must be a whole number, got 'x'"
  with pytest.raises(ValueError, match=message):
    disco_rl.evaluate('nothing', 'actor_critic')
