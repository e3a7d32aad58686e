"""Damaged entries of a run's config are named."""

import pytest

from disco_rl.runs import config_entries
from disco_rl.runs import run_folder

EVAL = dict(
  command='eval',
  rule='actor_critic',
  rule_settings={},
  is_by_name=True,
  request=dict(env='catch'),
  settings={},
  num_devices=1,
)
META_TRAIN = {
  **EVAL,
  'command': 'meta-train',
  'init': 'random',
  'request': dict(env=['catch'], eval_env=[]),
}


@pytest.mark.parametrize('config', [EVAL, META_TRAIN])
def test_whole_configs_are_accepted(config):
  config_entries.check('x', config)


@pytest.mark.parametrize(
  ('config', 'entry', 'value', 'message'),
  [
    (EVAL, 'num_devices', None, 'num_devices must be the number of devices'),
    (EVAL, 'num_devices', True, 'the number of devices, got True'),
    (EVAL, 'num_devices', '1', "the number of devices, got '1'"),
    (EVAL, 'num_devices', 0, 'the number of devices, got 0'),
    (
      *(EVAL, 'rule_settings', {'update_rule': 5}),
      "'update_rule' of rule_settings must be a group of settings, got 5",
    ),
    (EVAL, 'rule', 3, 'rule must be the name of a rule, got 3'),
    (EVAL, 'is_by_name', 1, 'is_by_name must be true or false, got 1'),
    (EVAL, 'settings', [], 'settings must be a group of settings'),
    (EVAL, 'request', dict(env=None), 'env of the request must be the name'),
    (META_TRAIN, 'init', None, 'init must be the name of a rule, got None'),
    (META_TRAIN, 'request', dict(env='catch'), 'must be a list of names'),
    (META_TRAIN, 'request', dict(env=['a'], eval_env=3), 'eval_env of the'),
  ],
)
def test_damaged_entries_are_named(config, entry, value, message):
  with pytest.raises(run_folder.RunFolderError, match=message) as error:
    config_entries.check('x', {**config, entry: value})
  assert str(error.value).startswith('x/config.json is damaged: ')


@pytest.mark.parametrize('entry', ['command', 'rule', 'num_devices'])
def test_missing_entries_are_named(entry):
  config = {name: value for name, value in EVAL.items() if name != entry}
  if entry == 'command':
    del config['num_devices']
  with pytest.raises(run_folder.RunFolderError, match=f'{entry} .*nothing'):
    config_entries.check('x', config)


def test_missing_entries_of_the_request_are_named():
  config_entries.check_request('x', dict(env='a', steps=3), ['steps', 'env'])
  message = 'x/config.json is damaged: its request has no steps'
  with pytest.raises(run_folder.RunFolderError, match=message):
    config_entries.check_request('x', dict(env='a'), ['steps', 'env'])
