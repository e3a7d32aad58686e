"""Budgets in environment steps, in runs of the command."""

import json

from disco_rl.cli import main
from disco_rl.runs import metrics
from tests.support import runs


def _resume(out, *options):
  return main.main(['eval', f'--resume={out}', '--quiet', *options])


def test_a_budget_is_rounded_up_and_can_be_raised(tmp_path, capsys):
  out = tmp_path / 'run'
  # An iteration has rollouts of 6 steps in 2 environments.
  assert runs.evaluate('--env-steps=9e1', f'--out={out}') == 0
  said = '90 environment steps of each agent = 8 iterations'
  assert said in capsys.readouterr().out
  assert metrics.read_csv(out / 'metrics.csv')[-1]['env_steps'] == 96
  assert _resume(out, '--env-steps=50') == 2
  assert 'beyond the 5 of this run' in capsys.readouterr().err
  assert _resume(out, '--env-steps=140', '--steps=20') == 2
  assert '--steps 20 and --env-steps 140 are two' in capsys.readouterr().err
  assert _resume(out, '--env-steps=14_0') == 0
  said = 'iteration 8, 140 environment steps of each agent = 12 iterations'
  assert said in capsys.readouterr().out
  assert metrics.read_csv(out / 'metrics.csv')[-1]['env_steps'] == 144
  config = json.loads((out / 'config.json').read_text())
  assert config['request']['env_steps'] == 140
  assert config['settings']['steps'] == 12
  # A run of an earlier version, whose requests have no such entry.
  del config['request']['env_steps']
  config['request']['steps'] = 12
  (out / 'config.json').write_text(json.dumps(config))
  assert _resume(out, '--steps=16') == 0
  config = json.loads((out / 'config.json').read_text())
  assert config['request']['env_steps'] is None
  assert config['settings']['steps'] == 16


def test_a_dry_run_says_how_many_iterations(capsys):
  assert runs.evaluate('--env-steps=90', '--dry-run') == 0
  captured = capsys.readouterr()
  assert json.loads(captured.out)['settings']['steps'] == 8
  said = '90 environment steps of each agent = 8 iterations\n'
  assert f'disco-rl eval: {said}' in captured.err
