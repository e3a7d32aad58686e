"""`disco-rl meta-train --preset`, at a scale that runs in a test."""

import json

import numpy as np
import pytest

import disco_rl
from disco_rl import memory
from disco_rl.cli import main
from disco_rl.meta_training import plan as plan_lib
from disco_rl.runs import metrics
from tests.support import documented_rule
from tests.support import runs

ENVS = ('catch', 'catch_numpy')


@pytest.fixture
def arguments(tmp_path, monkeypatch):
  """Returns a function that makes the arguments of a small run."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  own_rule = documented_rule.write(tmp_path)

  def make(*more, envs=ENVS, steps=4):
    return [
      *('meta-train', own_rule, '--rule=entropy_cost', f'--steps={steps}'),
      *('--preset=disco57', '--scale=1/64', '--quiet'),
      *('--set=checkpoint_every=2', *(f'--env={env}' for env in envs), *more),
    ]

  return make


@pytest.mark.slow
def test_a_scaled_preset_is_resumed_bit_exact(tmp_path, arguments):
  """With replay, lifetimes and an environment on the host."""
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  short = '--set=meta.lifetimes=20,40'
  assert main.main(arguments(short, f'--out={whole}')) == 0
  config = json.loads((whole / 'config.json').read_text())
  assert config['settings']['total_agents'] == 2
  assert config['settings']['batching']['batch_size'] == 2
  assert config['request']['scale'] == '1/64'
  rows = metrics.read_csv(whole / 'metrics.csv')
  assert len(rows) == 4
  for row in rows:
    assert np.isfinite(row['meta_grad_norm']) and row['meta_grad_norm'] > 0
    assert row['num_nonfinite_agents'] == 0
  assert sum(row['num_resets'] for row in rows) > 0
  assert main.main(arguments(short, f'--out={parts}', steps=2)) == 0
  resume = ['meta-train', '--resume', str(parts), '--steps=4', '--quiet']
  assert main.main(resume) == 0
  runs.check_same_files(parts, whole)


def test_the_settings_in_python_are_those_of_the_command(monkeypatch):
  plans = []

  def stop(plan, *_, **__):
    plans.append(plan)
    raise KeyboardInterrupt

  monkeypatch.setattr(plan_lib.Plan, 'open', stop)
  monkeypatch.setattr(plan_lib.Plan, 'start', stop)
  words = ['--preset=disco57', '--scale=1/16', *(f'--env={x}' for x in ENVS)]
  with pytest.raises(KeyboardInterrupt):
    main.main(['meta-train', *words])
  for scale in ('1/16', 0.0625):
    with pytest.raises(KeyboardInterrupt):
      disco_rl.meta_train(list(ENVS), preset='disco57', scale=scale)
  command, *python = plans
  assert len(python) == 2
  for plan in python:
    for name in ('settings', 'origins'):
      assert plan.config[name] == command.config[name]
    assert plan.request['scale'] == command.request['scale'] == '1/16'


def test_a_dry_run_prints_what_the_run_takes(arguments, capsys):
  assert main.main(arguments('--dry-run', '--flops=1e12')) == 0
  printed = capsys.readouterr()
  config = json.loads(printed.out)
  origins = config['origins']
  assert origins['meta.num_inner_updates'] == 'preset disco57'
  assert origins['batching.batch_size'] == 'preset disco57 at scale 1/64'
  assert '2 agents on 1 device, each with at least' in printed.err
  assert f'{2 * (20 * 29 + 58):,} environment steps' in printed.err
  assert 'at 1.0 TFLOP/s per device, as given by --flops' in printed.err
  assert 'this run needs at least' in printed.err


def test_what_does_not_fit_is_refused_with_its_numbers(
  arguments, monkeypatch, capsys, tmp_path
):
  monkeypatch.setattr(memory, 'available', lambda: 10**5)
  before = sorted(tmp_path.iterdir())
  assert main.main(arguments('--dry-run', envs=('catch',))) == 2
  printed = capsys.readouterr()
  assert json.loads(printed.out)['settings']['total_agents'] == 2
  assert '2 agents on 1 device, each with at least' in printed.err
  assert 'a meta-update takes about' in printed.err
  assert 'but this machine has 0.1 MB free: lower' in printed.err
  assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
  ('more', 'message'),
  [
    (['--scale=0'], 'scale (--scale; in Python: scale=...) must be 1/N'),
    (['--scale=2'], "got '2'"),
    (['--scale=1/0'], "got '1/0'"),
    (['--scale=text'], "got 'text'"),
    (['--preset=atari'], 'unknown preset'),
    (['--flops=1e12'], '--flops is for the estimate of --dry-run only'),
    (['--num-agents=2', '--set=total_agents=4'], 'both give total_agents'),
  ],
)
def test_mistakes_are_refused(more, message, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  words = ['meta-train', '--env=catch', '--quiet', *more]
  if not any(word.startswith('--preset') for word in more):
    words.append('--preset=disco57')
  assert main.main(words) == 2
  error = capsys.readouterr().err
  assert message in error and len(error.strip().splitlines()) == 1
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('flops', ['0', '-1', 'fast', 'nan', 'inf'])
def test_speeds_that_are_refused(flops, capsys):
  with pytest.raises(SystemExit) as caught:
    main.main(['meta-train', f'--flops={flops}', '--dry-run'])
  assert caught.value.code == 2
  assert 'must be a number above 0' in capsys.readouterr().err


def test_a_scale_needs_a_preset(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert main.main(['meta-train', '--scale=1/2']) == 2
  assert 'but none is given (--preset' in capsys.readouterr().err
  with pytest.raises(ValueError, match='makes the sizes of a preset smaller'):
    disco_rl.meta_train('catch', scale=0.5)
  with pytest.raises(ValueError, match='envs must be one or more'):
    disco_rl.meta_train()
