"""Trackers of the commands, also after a kill."""

import json
import sys

import pytest

from disco_rl.cli import main
from disco_rl.runs import metrics
from tests.support import events
from tests.support import runs

TENSORBOARD = '--track=tensorboard'


@pytest.fixture(autouse=True)
def needs_tensorboard():
  pytest.importorskip('tensorboardX', reason='needs the extra [tensorboard]')


def _rows(out):
  return metrics.read_csv(out / 'metrics.csv')


def test_after_a_kill_the_events_are_the_table(tmp_path):
  out = tmp_path / 'run'
  options = ('--rule=actor_critic', '--num-seeds=2', '--set=checkpoint_every=8')
  options = runs.changed(runs.TINY, *options, '--steps=100_000')
  process = runs.start('eval', *options, TENSORBOARD, f'--out={out}')
  runs.wait_for_rows(out, 6, process)
  process.kill()
  process.communicate()
  before = events.scalars(out / 'tensorboard' / 'seed_0')
  assert len(before) >= 1
  done = max(row['iteration'] for row in _rows(out))
  # It is at its last checkpoint, so that some rows come again.
  steps = int(done) // 8 * 8 + 12
  code, _, error = runs.finish(
    'eval', f'--resume={out}', TENSORBOARD, f'--steps={steps}'
  )
  assert code == 0, error
  rows = _rows(out)
  assert rows[-1]['iteration'] == steps and len(rows) == 2 * steps / 4
  events.check_same(out, rows)
  # Left out, and added again: rows that it missed come from the table.
  for more, options in ((4, ()), (8, (TENSORBOARD,))):
    options = (*options, f'--steps={steps + more}', '--quiet')
    assert main.main(['eval', f'--resume={out}', *options]) == 0
  events.check_same(out, _rows(out))
  # Added to a run that is finished already.
  assert main.main(['eval', f'--resume={out}', TENSORBOARD, '--quiet']) == 0
  events.check_same(out, _rows(out))


def test_meta_training(tmp_path):
  out = tmp_path / 'run'
  sizes = ('batch_size=3', 'num_envs=3', 'rollout_length=5')
  options = (
    *(f'--set=batching.{size}' for size in sizes),
    *('--set=meta.num_inner_updates=1', '--set=env.catch.columns=4'),
    *('--set=net.catch.net_args.dense=(8,)', '--num-agents=1'),
    '--set=critic_net.catch.net_args.dense=(8,)',
  )
  steps = ('--env-steps=70', f'--out={out}', '--quiet', TENSORBOARD)
  assert main.main(['meta-train', '--init=random', *options, *steps]) == 0
  rows = _rows(out)
  # A meta-update has rollouts of 5 steps and validation of 10, in 3 streams.
  assert [row['env_steps'] for row in rows] == [45, 90]
  events.check_same(out, rows)
  config = json.loads((out / 'config.json').read_text())
  assert config['settings']['steps'] == 2
  assert config['request']['env_steps'] == 70


def test_cells_of_benchmarks(tmp_path):
  out = tmp_path / 'run'
  command = ['benchmark', '--rules', 'actor_critic', '--suite=tiny', '--quiet']
  # A rollout has 24 environment steps.
  options = ['--seeds=1', '--env-steps=170', f'--out={out}', TENSORBOARD]
  assert main.main([*command, *options]) == 0
  cells = sorted((out / 'cells').iterdir())
  assert len(cells) == 2
  for cell in cells:
    rows = _rows(cell)
    assert rows[-1]['iteration'] == 8
    events.check_same(cell, rows)
  assert '192' in (out / 'table.md').read_text()
  again = ['benchmark', f'--resume={out}', '--quiet']
  assert main.main(again) == 0
  assert main.main([*again, '--env-steps=170']) == 2


@pytest.mark.parametrize('command', ['eval', 'meta-train', 'benchmark'])
def test_a_missing_package_is_reported_before_anything_is_written(
  command, tmp_path, monkeypatch, capsys
):
  monkeypatch.setitem(sys.modules, 'tensorboardX', None)
  out = tmp_path / 'run'
  rules = ['--rules', 'actor_critic'] if command == 'benchmark' else []
  assert main.main([command, *rules, TENSORBOARD, f'--out={out}']) == 2
  error = capsys.readouterr().err
  assert 'tracker tensorboard needs the package tensorboardX: pip' in error
  assert error.count('\n') == 1 and not out.exists()


def test_a_tracker_of_a_module(tmp_path, monkeypatch, capsys):
  (tmp_path / 'my_tracker.py').write_text("""
import disco_rl
from disco_rl.runs import trackers

class Mine(trackers.Tracker):
  def write(self, rows):
    raise RuntimeError('no connection')

disco_rl.register_tracker('mine', Mine)
""")
  monkeypatch.syspath_prepend(tmp_path)
  out = tmp_path / 'run'
  use = ('--use=my_tracker', '--track=mine', f'--out={out}')
  assert runs.evaluate('--steps=8', *use) == 0
  error = capsys.readouterr().err
  assert error.count('the tracker mine failed') == 1
  assert '(RuntimeError: no connection)' in error
  assert len(_rows(out)) == 2
  assert runs.evaluate('--steps=8', '--track=min') == 2
  assert 'did you mean mine?' in capsys.readouterr().err
