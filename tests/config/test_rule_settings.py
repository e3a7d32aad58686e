"""Settings that a rule's file records are checked before they are used."""

import copy

import pytest

from disco_rl.cli import main
from disco_rl.config import agents
from disco_rl.config import rule_settings
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.rule_zoo import store


@pytest.fixture(scope='module')
def recorded():
  return rule_lib.rule_settings(agents.get_settings_disco())


def _set(tree, path, value):
  *groups, name = path.split('.')
  for group in groups:
    tree = tree[group]
  if value is KeyError:
    del tree[name]
  else:
    tree[name] = value


def test_what_was_saved_is_accepted(recorded):
  config = agents.get_settings_disco()
  rule_settings.update(config, recorded)
  assert rule_lib.rule_settings(config) == recorded


@pytest.mark.parametrize(
  ('path', 'value', 'message'),
  [
    ('hyper_params', 5, 'records hyper_params as 5'),
    ('hyper_params.value_cost', 'x', 'hyper_params.value_cost must be a numb'),
    ('hyper_params.target_params_coeff', 2, 'coeff must be a number between'),
    ('hyper_params.discount_factor', 5, 'discount_factor must be a number bet'),
    ('hyper_params.other', 1, 'unknown setting .*hyper_params.other'),
    ('update_rule.num_bins', -1, 'num_bins must be a whole number of at least'),
    ('update_rule.num_bins', 10**9, 'num_bins must be a whole number between'),
    ('update_rule.moving_average_decay', 2, 'decay must be a number'),
    ('update_rule.other', 1, 'unknown setting .*update_rule.other'),
    (
      'update_rule.net',
      [],
      r'agent\.update_rule\.net must be a group of settings, got',
    ),
    ('update_rule.net.name', 'gru', 'net.name must be one of lstm'),
    ('update_rule.net.name', KeyError, 'net.name must be one of lstm'),
    ('update_rule.net.hidden_size', KeyError, 'net.hidden_size is missing'),
    ('update_rule.net.hidden_size', 0, 'net.hidden_size must be a whole numb'),
    ('update_rule.net.embedding_size', [0], 'embedding_size must be a list'),
    ('update_rule.net.depth', 3, 'unknown setting .*net.depth'),
    ('update_rule.net.meta_rnn_kwargs', 3, 'meta_rnn_kwargs is not a group'),
    ('update_rule.net.meta_rnn_kwargs.a', 3, 'unknown setting .*_kwargs.a'),
    ('update_rule.net.input_option', 3, 'input_option is not a list of inp'),
    ('update_rule.net.input_option.base', 3, 'input_option is not a list of'),
    (
      'update_rule.net.input_option.base',
      [dict(source='nothing', transforms=[])],
      'unknown meta-network input',
    ),
    (
      'update_rule.net.input_option.base',
      [dict(source='rewards', transforms=['nothing'])],
      'unknown input transform',
    ),
  ],
)
def test_wrong_settings_are_refused_by_name(recorded, path, value, message):
  changed = copy.deepcopy(recorded)
  _set(changed, path, value)
  with pytest.raises(ValueError, match=message) as error:
    rule_settings.update(agents.get_settings_disco(), changed, 'the rule x')
  assert str(error.value).startswith('the rule x records ')


def test_the_command_refuses_them(recorded, tmp_path, capsys):
  eta = {'m': {'w': [1.0]}}
  path = tmp_path / 'mine.npz'
  changed = copy.deepcopy(recorded)
  _set(changed, 'update_rule.net.hidden_size', -3)
  with pytest.raises(store.RuleFileError, match=r'net\.hidden_size must be a'):
    rule_lib.save_rule(path, eta, settings=changed)
  assert not path.exists()
  file_format.save(path, eta, dict(settings=changed))
  assert main.main(['eval', f'--rule={path}', '--dry-run']) == 2
  error = capsys.readouterr().err
  assert 'agent.update_rule.net.hidden_size must be a whole number' in error
