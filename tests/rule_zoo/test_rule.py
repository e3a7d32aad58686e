"""Rules with their settings: saved from Python, used by the commands."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import disco_rl
from disco_rl import agent
from disco_rl import types
from disco_rl.cli import main
from disco_rl.config import resolve
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import store
from disco_rl.runs import plain_settings
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import registry
from tests.support import small


def _changed_settings():
  """A meta-network of another size that also sees other inputs."""
  config = small.settings('disco')
  option = config.update_rule.net.input_option
  changed = types.MetaNetInputOption(
    base=(
      *option.base[:4],
      types.TransformConfig(
        source='extra_from_rule/adv', transforms=('normalize', 'clip')
      ),
    ),
    action_conditional=option.action_conditional[:2],
  )
  with config.unlocked():
    config.update_rule.net.input_option = changed
    config.update_rule.net.meta_rnn_kwargs.input_option = changed
    config.update_rule.value_discount = 0.9
  return config


def test_a_changed_meta_network_saved_from_python_works_in_the_command(
  tmp_path, capsys
):
  config = _changed_settings()
  rule = registry.get_update_rule('disco', **config.update_rule)
  eta, _ = rule.init_params(jax.random.PRNGKey(0))
  path = tmp_path / 'mine.npz'
  disco_rl.save_rule(path, eta, settings=config, metadata=dict(by='hand'))
  loaded = disco_rl.load_rule(path)
  assert loaded.name == 'mine' and loaded.kind == 'disco'
  assert file_format.load_metadata(path)['by'] == 'hand'
  jax.tree.map(np.testing.assert_array_equal, loaded.eta, eta)
  again = resolve.agent_settings(loaded)
  assert plain_settings.to_plain(again.update_rule) == plain_settings.to_plain(
    config.update_rule
  )
  # Its parameters fit only the inputs it was trained with.
  assert main.main(['eval', '--rule', str(path), '--dry-run']) == 0
  shown = json.loads(capsys.readouterr().out)['settings']['agent']
  assert len(shown['update_rule']['net']['input_option']['base']) == 5
  assert shown['update_rule']['value_discount'] == 0.9
  disco_rl.save_rule(path, eta)
  assert main.main(['eval', '--rule', str(path), '--dry-run']) == 2


def test_a_loaded_rule_is_saved_with_its_settings(tmp_path):
  config = _changed_settings()
  eta = {'m': {'w': np.ones(2, np.float32)}}
  first, second = tmp_path / 'first.npz', tmp_path / 'second.npz'
  disco_rl.save_rule(first, eta, settings=config)
  rule = disco_rl.load_rule(first)
  disco_rl.save_rule(second, rule)
  again = disco_rl.load_rule(second)
  assert again.kind == rule.kind and again.settings == rule.settings
  jax.tree.map(np.testing.assert_array_equal, again.eta, rule.eta)
  with pytest.raises(ValueError, match='leave out settings'):
    disco_rl.save_rule(second, rule, settings=config)
  with pytest.raises(ValueError, match='no parameters that could be saved'):
    disco_rl.save_rule(second, disco_rl.load_rule('actor_critic'))


@pytest.mark.parametrize(
  ('name', 'value'),
  [('value_discount', 5.0), ('td_lambda', -1.0), ('pi_cost', float('inf'))],
)
def test_settings_out_of_range_are_not_saved(tmp_path, name, value):
  config = agent.get_settings_disco()
  with config.unlocked():
    group = 'update_rule' if name == 'value_discount' else 'hyper_params'
    config[group][name] = value
  path = tmp_path / 'mine.npz'
  with pytest.raises(store.RuleFileError, match=f'{group}.{name} must be'):
    disco_rl.save_rule(path, {'m': {'w': np.ones(2)}}, settings=config)
  assert not path.exists()


def test_the_best_rule_of_a_run_is_taken_and_named(tmp_path):
  eta = {'m': {'w': np.ones(2, np.float32)}}
  with pytest.raises(store.RuleFileError, match=r'without a rule\.npz'):
    disco_rl.load_rule(tmp_path)
  disco_rl.save_rule(tmp_path / 'rule.npz', eta, metadata=dict(step=9))
  rule = disco_rl.load_rule(tmp_path)
  assert rule.name == tmp_path.name and 'last rule' in rule.provenance
  disco_rl.save_rule(tmp_path / 'best_rule.npz', eta, metadata=dict(step=4))
  rule = disco_rl.load_rule(str(tmp_path))
  assert 'best rule' in rule.provenance and 'meta-update 4' in rule.provenance
  assert rule.name == tmp_path.name and rule.path.name == 'best_rule.npz'


class Learned(actor_critic.ActorCritic):
  """An actor-critic with one parameter, to test its file."""

  def init_params(self, rng_key):
    return dict(log_cost=jnp.zeros([])), {}


def test_a_rule_of_ones_own_with_parameters_is_saved_and_loaded(
  tmp_path, monkeypatch
):
  get_settings = agent.get_settings_actor_critic
  disco_rl.register_rule('learned', Learned, get_settings)
  config = get_settings()
  config.update_rule_name = 'learned'
  path = tmp_path / 'learned.npz'
  disco_rl.save_rule(path, dict(log_cost=jnp.ones([])), settings=config)
  rule = disco_rl.load_rule(path)
  assert rule.kind == 'learned' and float(rule.eta['log_cost']) == 1.0
  with pytest.raises(
    ValueError, match='needs parameters η, but none were given'
  ):
    training.check_rule_params(Learned(), disco_rl.load_rule('learned').eta)
  monkeypatch.delitem(registry.UPDATE_RULES, 'learned')
  with pytest.raises(store.RuleFileError, match='--use MODULE'):
    disco_rl.load_rule(path)


@pytest.mark.parametrize('path', ['/dev/zero', '/dev/null', '/dev/stdin'])
def test_devices_are_not_read_as_rules(path, capsys):
  with pytest.raises(ValueError, match=f'{path} is not an ordinary file'):
    disco_rl.load_rule(path)
  assert main.main(['eval', '--rule', path, '--dry-run']) == 2
  assert f'{path} is not an ordinary file' in capsys.readouterr().err


def test_parameters_of_the_wrong_form_are_refused(tmp_path):
  spec = dict(m=dict(w=np.ones(2)))
  with pytest.raises(ValueError, match=r"load_rule\('disco_103'\)\.eta"):
    file_format.check_like('disco_103', spec)
  with pytest.raises(ValueError, match='further levels'):
    file_format.save(tmp_path / 'x.npz', dict(a=dict(b=dict(c=np.ones(1)))))


def test_rules_can_be_given_by_name(monkeypatch):
  """The name of a rule and the loaded rule give the same run."""
  seen = []

  class StopError(Exception):
    pass

  def population(env_fn, agent_settings, batching, **kwargs):
    seen.append((agent_settings.to_json_best_effort(), batching))
    raise StopError

  monkeypatch.setattr(population_lib, 'Population', population)
  for rule in ('catch_small', disco_rl.load_rule('catch_small'), None):
    with pytest.raises(StopError):
      disco_rl.evaluate('catch', rule)
  assert seen[0] == seen[1] == seen[2]
