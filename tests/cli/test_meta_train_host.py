"""`disco-rl meta-train` in environments on the host, alone or in a mixture."""

import json
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.meta_training import evaluation_tables
from disco_rl.runs import files
from disco_rl.runs import metrics
from tests.support import broken
from tests.support import documented_rule
from tests.support import runs

DM = 'dm:tests.support.broken:BrokenDm'
GYM = 'gym:tests.support.broken:BrokenGym'


@pytest.fixture
def arguments(tmp_path, monkeypatch):
  """Returns a function that makes the arguments of a small run."""
  monkeypatch.chdir(tmp_path)
  own_rule = documented_rule.write(tmp_path)

  def make(out, *more, envs=('catch', DM), steps=4):
    small = [
      *(own_rule, '--rule=entropy_cost', '--quiet', f'--steps={steps}'),
      *('--set=meta.num_inner_updates=1', '--num-agents=2'),
      *('--set=batching.rollout_length=5', '--set=batching.batch_size=4'),
      *('--set=batching.num_envs=2', '--set=batching.replay_capacity=8'),
      '--set=checkpoint_every=2',
    ]
    small += [f'--env={env}' for env in envs]
    for env in envs:
      small.append(f'--set=net.{env}.net_args.dense=9,8')
      small.append(f'--set=critic_net.{env}.net_args.dense=6,6')
    return ['meta-train', *runs.changed(small, *more), f'--out={out}']

  return make


@pytest.fixture
def paths(tmp_path, monkeypatch):
  repaired = tmp_path / 'repaired'
  monkeypatch.setenv(broken.REPAIRED_BY, str(repaired))
  return tmp_path / 'whole', tmp_path / 'stopped', repaired


def _trouble(trouble, at, env=DM):
  return f'--set=env.{env}.kwargs={{"trouble": "{trouble}", "at": {at}}}'


def test_a_mixture_is_resumed_bit_exact(tmp_path, arguments, capsys):
  """With agents that are reset, and evaluations in the environments."""
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  more = [
    *('--set=meta.lifetimes=2,3', '--eval-every=2', '--set=eval.num_seeds=1'),
    *('--set=eval.steps=4', '--set=eval.batching.batch_size=2'),
    *('--set=eval.baseline=none', '--set=eval.batching.num_envs=2'),
  ]
  envs = ('catch', 'catch_numpy', DM)
  make = lambda out, steps: arguments(out, *more, envs=envs, steps=steps)
  assert main.main(make(whole, 4)) == 0
  rows = metrics.read_csv(whole / 'metrics.csv')
  for env in envs:
    assert np.isfinite(rows[-1][f'return/{env}'])
    evaluations, _ = evaluation_tables.read(whole, env)
    assert [row['iteration'] for row in evaluations] == [0, 2, 4]
  assert sum(row['num_resets'] for row in rows) > 0
  assert main.main(make(parts, 2)) == 0
  capsys.readouterr()
  resume = ['meta-train', '--resume', str(parts), '--steps=4', '--quiet']
  assert main.main(resume) == 0
  assert 'note' not in capsys.readouterr().err
  runs.check_same_files(parts, whole)


def test_environments_without_snapshots_are_reset_with_a_note(
  tmp_path, arguments, capsys
):
  out = tmp_path / 'x'
  env = 'gym:CartPole-v1'
  make = arguments(out, '--checkpoint-replay=never', envs=('catch', env))
  assert main.main(make) == 0
  saved = files.read_npz(out / 'state.npz')
  assert not any('buffer' in name for name in saved)
  assert any('groups/1/agents/actor/1/timestep' in name for name in saved)
  capsys.readouterr()
  resume = ['meta-train', '--resume', str(out), '--steps=6', '--quiet']
  assert main.main(resume) == 0
  error = capsys.readouterr().err
  assert f'environments of {env} make no snapshots, and were reset' in error
  assert 'the replay is not part of the checkpoint' in error
  assert len(metrics.read_csv(out / 'metrics.csv')) == 6


def test_a_dry_run_counts_environments_on_the_host(tmp_path, arguments, capsys):
  out = tmp_path / 'x'
  assert main.main([*arguments(out, envs=('catch_numpy',)), '--dry-run']) == 0
  captured = capsys.readouterr()
  config = json.loads(captured.out)
  assert config['settings']['overlap_acting'] is True
  assert 'this run needs at least' in captured.err
  # Two agents with two boards of 8x8 float32.
  assert 'environments 0.0 MB' in captured.err
  large = ['--set=env.catch_numpy.rows=1024', '--set=env.catch_numpy.columns=9']
  large += ['--set=batching.rollout_length=1000000']
  make = [*arguments(out, *large, envs=('catch_numpy',)), '--dry-run']
  assert main.main(make) == 2
  assert 'this run needs' in capsys.readouterr().err
  assert not out.exists()


@pytest.mark.parametrize(
  ('trouble', 'at', 'message', 'more'),
  [
    (
      *('nan', 41),
      f"{DM} returned inf in the observation['count'] of stream 0 "
      '(meta-update 3, agent 0, step 11 of the rollout)',
      [],
    ),
    pytest.param(
      *('step', 41),
      f'{DM} failed in step 41: RuntimeError: as asked for',
      [],
      marks=pytest.mark.slow,
    ),
    pytest.param(
      *('exit', 41),
      f'{DM} failed in step 41: SystemExit: 3',
      ['--set=overlap_acting=false'],
      marks=pytest.mark.slow,
    ),
    pytest.param(
      *('die', 41),
      f'worker 0 (streams 0 to 0 of {DM}) died with exit code 3',
      [f'--set=env.{DM}.num_workers=2'],
      marks=pytest.mark.slow,
    ),
    pytest.param(
      *('hang', 41),
      f'worker 0 (streams 0 to 0 of {DM}) did not answer step within 9 seconds',
      [f'--set=env.{DM}.num_workers=2', f'--set=env.{DM}.worker_timeout=9'],
      marks=pytest.mark.slow,
    ),
  ],
)
def test_an_environment_that_fails_leaves_the_checkpoint(
  trouble, at, message, more, paths, arguments, capsys
):
  """The repaired run resumes as if nothing had happened."""
  whole, stopped, repaired = paths
  make = lambda out: arguments(out, _trouble(trouble, at), *more)
  assert main.main(make(stopped)) == 1
  error = capsys.readouterr().err
  assert message in error and 'Traceback' not in error, error
  assert '(meta-update 3, agent 0' in error
  assert f'--resume {stopped}' in error
  assert not multiprocessing.active_children()
  state = files.read_npz(stopped / 'state.npz')
  assert state['step'] == 2
  assert all(
    np.isfinite(x).all() for x in state.values() if x.dtype.kind == 'f'
  )
  repaired.touch()
  resume = ['meta-train', '--resume', str(stopped), '--quiet']
  assert main.main(resume) == 0
  assert main.main(make(whole)) == 0
  runs.check_same_files(whole, stopped)
  assert not multiprocessing.active_children()


@pytest.mark.parametrize(
  ('env', 'trouble', 'message'),
  [
    (GYM, 'construct', "KeyError: 'as asked for'"),
    (GYM, 'reset', 'failed in reset: RuntimeError: as asked for'),
    (GYM, 'huge_actions', 'actions'),
    (DM, 'space', "observation spec['text'] has the dtype object"),
  ],
)
def test_trouble_at_the_start_writes_nothing(
  env, trouble, message, tmp_path, arguments, capsys
):
  out = tmp_path / 'x'
  make = arguments(out, _trouble(trouble, 1, env), envs=('catch', env))
  assert main.main(make) == 2
  error = capsys.readouterr().err
  assert message in error and 'Traceback' not in error
  assert len(error.strip().splitlines()) == 1
  assert not out.exists()


@pytest.mark.slow
def test_agents_on_the_host_on_several_devices(tmp_path, arguments):
  """Of one population, on a row of two devices each, and resumed."""
  one, four, parts = (tmp_path / name for name in ('one', 'four', 'parts'))
  envs = ('catch_numpy', DM)
  sizes = ('--set=batching.batch_size=2',)  # Without replay.
  assert main.main(arguments(one, *sizes, envs=envs)) == 0
  sizes += ('--devices=4',)
  assert main.main(arguments(four, *sizes, envs=envs)) == 0
  for row, wanted in zip(
    metrics.read_csv(four / 'metrics.csv'),
    metrics.read_csv(one / 'metrics.csv'),
    strict=True,
  ):
    for name in ('meta_loss', 'rewards', f'return/{DM}'):
      np.testing.assert_allclose(row[name], wanted[name], 1e-3, 1e-5)
  assert main.main(arguments(parts, *sizes, envs=envs, steps=2)) == 0
  resume = ['meta-train', '--resume', str(parts), '--steps=4', '--quiet']
  assert main.main(resume) == 0
  runs.check_same_files(parts, four)


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_state_of_the_workers(tmp_path, arguments, number):
  whole, stopped = tmp_path / 'whole', tmp_path / 'stopped'
  more = [f'--set=env.{DM}.num_workers=2', '--set=checkpoint_every=500']
  make = lambda out: arguments(out, *more, steps=200)
  process = runs.start(*make(stopped), start_new_session=True, cwd=tmp_path)
  runs.wait_for_rows(stopped, 3, process)
  os.killpg(process.pid, number)
  _, error = process.communicate()
  assert process.returncode == 130, error
  with pytest.raises(ProcessLookupError):  # No worker is left.
    for _ in range(200):
      os.killpg(process.pid, 0)
      time.sleep(0.1)
  assert 0 < files.read_npz(stopped / 'state.npz')['step'] < 200
  resume = ['meta-train', '--resume', str(stopped), '--quiet']
  assert main.main(resume) == 0
  assert main.main(make(whole)) == 0
  runs.check_same_files(whole, stopped)


@pytest.mark.slow
def test_workers_end_with_a_command_that_is_killed(tmp_path, arguments):
  make = arguments(tmp_path / 'x', f'--set=env.{DM}.num_workers=2', steps=900)
  process = runs.start(*make, start_new_session=True, cwd=tmp_path)
  runs.wait_for_rows(tmp_path / 'x', 2, process)
  process.kill()
  process.communicate()
  with pytest.raises(ProcessLookupError):
    for _ in range(600):
      os.killpg(process.pid, 0)
      time.sleep(0.1)
