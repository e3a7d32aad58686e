"""`disco-rl eval` in folders with things that a run cannot have made."""

import json
import shutil

import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.runs import files
from tests.support import runs


@pytest.fixture(scope='module')
def whole_run(tmp_path_factory):
  out = tmp_path_factory.mktemp('runs') / 'x'
  assert runs.evaluate('--steps=4', f'--out={out}') == 0
  return out


@pytest.fixture
def out(whole_run, tmp_path):
  """A copy of a finished run."""
  shutil.copytree(whole_run, tmp_path / 'x')
  return tmp_path / 'x'


def _replace_by_folder(path):
  path.unlink()
  path.mkdir()


def _replace_by_link(path):
  path.unlink()
  path.symlink_to('nowhere')


@pytest.mark.parametrize(
  ('name', 'replace', 'kind'),
  [
    ('params_0.npz', _replace_by_folder, 'a folder'),
    ('curve.png', _replace_by_folder, 'a folder'),
    ('.lock', _replace_by_folder, 'a folder'),
    ('metrics.csv', _replace_by_link, 'a broken symbolic link'),
    ('.lock', _replace_by_link, 'a broken symbolic link'),
  ],
)
def test_what_is_no_file_is_named_and_nothing_is_changed(
  out, capsys, name, replace, kind
):
  replace(out / name)
  before = runs.contents(out)
  resume = ['eval', f'--resume={out}', '--steps=8', '--quiet']
  assert main.main(resume) == 2
  message = f'{out / name} is {kind}'
  assert message in capsys.readouterr().err
  assert runs.evaluate('--steps=4', f'--out={out}', '--overwrite') == 2
  assert message in capsys.readouterr().err
  assert runs.contents(out) == before


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('metrics.csv', 'iteration,seed,foo\n', 'it has no column'),
    ('metrics.csv', 5000 * 'x', 'does not name the columns'),
  ],
)
def test_tables_of_others_are_refused(out, capsys, name, content, message):
  (out / name).write_text(content)
  before = runs.contents(out)
  assert main.main(['eval', f'--resume={out}', '--steps=8', '--quiet']) == 2
  shown = capsys.readouterr().err
  assert f'{out / name} is not a table' in shown and message in shown
  assert runs.contents(out) == before


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_state_that_is_not_finite_is_not_trained_on(out, capsys, value):
  """As if an older version had saved it, or another program."""
  arrays = files.read_npz(out / 'state.npz')
  arrays['buffer/data/rewards'][0] = value
  np.savez(out / 'state.npz', **arrays)
  before = runs.contents(out)
  assert main.main(['eval', f'--resume={out}', '--steps=8', '--quiet']) == 2
  message = f'{out}/state.npz has NaN or infinity in buffer/data/rewards'
  assert message in capsys.readouterr().err
  assert runs.contents(out) == before


def _without_steps(config):
  request = dict(config['request'])
  del request['steps']
  return {**config, 'request': request}


def _edit_request(config, **entries):
  return {**config, 'request': {**config['request'], **entries}}


@pytest.mark.parametrize(
  ('edit', 'message'),
  [
    (
      lambda config: _edit_request(
        config, set=[*config['request']['set'], 'chunk_size=4']
      ),
      'both give chunk_size: leave one out',
    ),
    (lambda config: _edit_request(config, rule='/dev/zero'), '/dev/zero'),
    (
      lambda config: _edit_request(config, rule='policy_gradient'),
      'was made with rule = actor_critic, not policy_gradient',
    ),
    (
      lambda config: {**config, 'rule_settings': {'update_rule': 5}},
      "'update_rule' of rule_settings must be a group of settings, got 5",
    ),
    (lambda config: {**config, 'num_devices': 0}, 'devices, got 0'),
    # Not the default, which would be a longer run.
    (_without_steps, 'config.json is damaged: its request has no steps'),
  ],
)
def test_edited_configs_are_refused(out, capsys, edit, message):
  config = json.loads((out / 'config.json').read_text())
  (out / 'config.json').write_text(json.dumps(edit(config)))
  before = runs.contents(out)
  assert main.main(['eval', f'--resume={out}', '--steps=8', '--quiet']) == 2
  assert message in capsys.readouterr().err
  assert runs.contents(out) == before
