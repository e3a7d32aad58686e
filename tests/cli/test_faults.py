"""Real processes that are killed, interrupted and left without space or output.

After every fault, `--resume` continues the run, and in the end its files are
those of an undisturbed run: bit-exact, and without a lost row.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from disco_rl.runs import files
from disco_rl.runs import metrics
from tests.support import runs

pytestmark = pytest.mark.slow

_EVAL = ['--rule=actor_critic']
_EVAL += runs.changed(runs.TINY, '--set=checkpoint_every=40')
# Name to command, its arguments and its number of steps.
KINDS = {
  'device': ('eval', _EVAL, 2000),
  'host': ('eval', [*_EVAL, '--env=catch_numpy'], 1200),
  'meta-train': (
    'meta-train',
    [
      *('--set=env.catch.columns=4', '--set=batching.rollout_length=7'),
      *('--set=batching.batch_size=4', '--set=batching.num_envs=2'),
      *('--set=batching.replay_capacity=16', '--set=meta.lifetimes=6,20'),
      '--set=critic_net.catch.net_args.dense=6,6',
      *('--set=net.catch.net_args.dense=9,8', '--set=checkpoint_every=4'),
    ],
    80,
  ),
}
_NUMPY = 'catch_numpy'
KINDS['mixture'] = (
  'meta-train',
  [
    *KINDS['meta-train'][1],
    *('--env=catch', f'--env={_NUMPY}'),
    f'--set=critic_net.{_NUMPY}.net_args.dense=6,6',
    f'--set=net.{_NUMPY}.net_args.dense=9,8',
  ],
  80,
)
# Fresh agents are evaluated on the host, in worker processes.
_EVAL_ENV = 'dm:tests.support.broken:BrokenDm'
KINDS_OF_SIGNALS = {
  'evaluations': (
    'meta-train',
    [
      *KINDS['meta-train'][1],
      *('--eval-every=2', f'--eval-env={_EVAL_ENV}', '--set=eval.num_seeds=1'),
      f'--set=eval.env.{_EVAL_ENV}.num_workers=2',
      *('--set=eval.steps=400', '--set=eval.batching.batch_size=4'),
      '--set=eval.batching.rollout_length=7',
      f'--set=net.{_EVAL_ENV}.net_args.dense=9,8',
    ],
    4,
  ),
}


class Faulty:
  """A run in a folder, which is resumed after each fault."""

  def __init__(self, kind, out):
    kinds = {**KINDS, **KINDS_OF_SIGNALS}
    self.command, self._arguments, self._steps = kinds[kind]
    self.out = out

  def start(self, **options):
    """Starts the run, or resumes it if there is one."""
    if (self.out / 'config.json').exists():
      return runs.start(self.command, '--resume', str(self.out), **options)
    arguments = [*self._arguments, f'--steps={self._steps}']
    return runs.start(self.command, *arguments, f'--out={self.out}', **options)

  def finish(self, **options):
    """Runs to the end; returns the exit code, the output and the errors."""
    process = self.start(**options)
    out, error = process.communicate()
    assert 'Traceback' not in error and 'Fatal' not in error, error
    return process.returncode, out, error

  def is_done(self):
    rows = self._rows()
    return bool(rows) and rows[-1]['iteration'] == self._steps

  def wait_for_more_rows(self, process):
    """Waits until a process that was just started has written rows, or ended.

    The rows must be good at any moment.
    """
    before = len(self._rows())
    while len(self._rows()) <= before and process.poll() is None:
      time.sleep(0.05)

  def _rows(self):
    return metrics.read_csv(self.out / 'metrics.csv')


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """Returns a function from a kind to the folder of a run without faults."""
  made = {}

  def make(kind):
    if kind not in made:
      out = tmp_path_factory.mktemp('whole') / 'x'
      code, _, error = Faulty(kind, out).finish()
      assert code == 0, error
      made[kind] = out
    return made[kind]

  return make


@pytest.mark.parametrize('kind', KINDS)
def test_killed_at_any_moment(kind, whole, tmp_path):
  wanted = whole(kind)  # First, so that its programs need no compilation.
  run = Faulty(kind, tmp_path / 'x')
  moments = random.Random(kind)
  for i in range(6):
    process = run.start()
    if i % 2:
      run.wait_for_more_rows(process)
      time.sleep(moments.uniform(0, 1))
    else:
      time.sleep(moments.uniform(0.5, 12))
    process.kill()
    process.communicate()
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, wanted)


@pytest.mark.parametrize('kind', KINDS)
def test_ctrl_c_at_any_second(kind, whole, tmp_path):
  run = Faulty(kind, tmp_path / 'x')
  for seconds in range(1, 9):
    process = run.start()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode in ((0, 130) if run.is_done() else (130,)), error
    assert 'Traceback' not in error and 'Fatal' not in error, error
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, whole(kind))


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_process_group_saves(number, whole, tmp_path):
  run = Faulty('host', tmp_path / 'x')
  process = run.start(start_new_session=True)
  runs.wait_for_rows(run.out, 3, process)
  os.killpg(process.pid, number)
  out, error = process.communicate()
  assert process.returncode == 130, error
  assert 'Saved. Resume with: ' in out and 'Traceback' not in error
  state = files.read_npz(run.out / 'state.npz')
  rows = metrics.read_csv(run.out / 'metrics.csv')
  assert int(state['iteration']) == rows[-1]['iteration']
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, whole('host'))


def test_signals_while_a_rule_is_evaluated_with_workers(whole, tmp_path):
  """In the evaluation of the baseline, and in those after meta-updates."""
  wanted = whole('evaluations')
  run = Faulty('evaluations', tmp_path / 'x')
  for number, rows in ((signal.SIGINT, 0), (signal.SIGHUP, 2)):
    process = run.start(start_new_session=True)
    if rows:
      runs.wait_for_rows(run.out, rows, process)
    while not (run.out / 'config.json').exists() and process.poll() is None:
      time.sleep(0.05)
    time.sleep(1)
    begin = time.monotonic()
    os.killpg(process.pid, number)
    out, error = process.communicate()
    assert process.returncode == 130, error
    assert time.monotonic() - begin < 60
    assert 'Saved. Resume with: ' in out and 'Traceback' not in error, error
    with pytest.raises(ProcessLookupError):  # No worker is left.
      for _ in range(200):
        os.killpg(process.pid, 0)
        time.sleep(0.1)
    assert len(metrics.read_csv(run.out / 'metrics.csv')) == rows
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, wanted)


def test_a_second_ctrl_c_harms_no_file(whole, tmp_path):
  run = Faulty('device', tmp_path / 'x')
  process = run.start()
  runs.wait_for_rows(run.out, 12, process)
  process.send_signal(signal.SIGINT)
  time.sleep(0.15)
  process.send_signal(signal.SIGINT)
  _, error = process.communicate()
  assert process.returncode == 130 and 'Traceback' not in error, error
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, whole('device'))


def _with_files_limited_to(size):
  """A command line that runs another one, whose files cannot be larger.

  The limit is set in the new process: a function that runs in it before the
  program (`preexec_fn`) would make this process fork, beside JAX's threads.
  """
  limit = (
    'import os, resource, sys; '
    f'resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); '
    'os.execv(sys.argv[1], sys.argv[1:])'
  )
  return [sys.executable, '-c', limit]


def test_no_space_for_a_checkpoint(whole, tmp_path):
  run = Faulty('device', tmp_path / 'x')
  code, _, error = run.finish(under=_with_files_limited_to(50_000))
  state = run.out / 'state.npz'
  assert code == 1 and f'stopped: cannot write {state}: ' in error
  assert 'There is no checkpoint yet' in error and 'Errno' not in error
  code, _, error = run.finish()
  assert code == 0 and 'stopped before its first checkpoint' in error
  runs.check_same_files(run.out, whole('device'))


def test_no_space_for_metrics(whole, tmp_path):
  run = Faulty('device', tmp_path / 'x')
  process = run.start()
  runs.wait_for_rows(run.out, 30, process)
  process.send_signal(signal.SIGINT)
  process.communicate()
  table, state = run.out / 'metrics.csv', run.out / 'state.npz'
  before = table.read_bytes(), state.read_bytes()
  # Space for a part of the next row.
  limit = _with_files_limited_to(len(before[0]) + 30)
  code, _, error = run.finish(under=limit)
  assert code == 1 and f'stopped: cannot write {table}: ' in error, error
  assert 'Resume from the last checkpoint' in error and 'Errno' not in error
  assert before == (table.read_bytes(), state.read_bytes())
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, whole('device'))


@pytest.fixture
def small_disk(tmp_path):
  """A folder on a disk of 300 kB."""
  folder = tmp_path / 'disk'
  folder.mkdir()
  mount = ['mount', '-t', 'tmpfs', '-o', 'size=300k', 'tmpfs', str(folder)]
  if subprocess.run(mount, capture_output=True).returncode:
    pytest.skip('file systems cannot be mounted here')
  yield folder
  subprocess.run(['umount', '--lazy', str(folder)], check=True)


@pytest.mark.parametrize('free', [30_000, 130_000, 190_000])
def test_a_disk_that_fills_up(free, whole, small_disk):
  """In the first checkpoint, in the first picture, in the second checkpoint."""
  run = Faulty('device', small_disk / 'x')
  filling = small_disk / 'filling'
  filling.write_bytes(bytes(300 * 1024 - 8192 - free))
  code, _, error = run.finish()
  assert code == 1 and 'the disk is full' in error, error
  for path in run.out.glob('*.npz'):
    assert all(np.isfinite(x).all() for x in files.read_npz(path).values())
  metrics.read_csv(run.out / 'metrics.csv')
  filling.unlink()
  assert run.finish()[0] == 0
  runs.check_same_files(run.out, whole('device'))


@pytest.mark.parametrize('redirections', ['>&-', '2>&-', '>&- 2>&- <&-', ''])
def test_output_that_is_not_read(redirections, whole, tmp_path):
  command, arguments, steps = KINDS['device']
  out = tmp_path / 'x'
  arguments = [*arguments, f'--steps={steps}', f'--out={out}']
  program = [sys.executable, '-m', 'disco_rl.cli.main', command, *arguments]
  shell = f'"$@" {redirections or "2>&1 | head -1"}'
  done = subprocess.run(
    ['bash', '-o', 'pipefail', '-c', shell, 'bash', *program],
    env=runs.environment(),
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0 and 'Error' not in done.stderr, done.stderr
  runs.check_same_files(out, whole('device'))


def test_two_runs_that_start_at_once_have_two_folders(tmp_path):
  arguments = ['--steps=8', *_EVAL]
  processes = [runs.start('eval', *arguments, cwd=tmp_path) for _ in range(3)]
  for process in processes:
    _, error = process.communicate()
    assert process.returncode == 0, error
  names = {path.name for path in (tmp_path / 'runs').iterdir()}
  assert names == {f'catch-actor_critic{end}' for end in ('', '-2', '-3')}
  for name in names:
    config = json.loads((tmp_path / 'runs' / name / 'config.json').read_text())
    assert config['request']['steps'] == 8


@pytest.mark.parametrize('home', ['/proc/nowhere', '/dev/null'])
def test_a_user_without_a_writable_home(home, tmp_path):
  nowhere = dict.fromkeys(('XDG_CACHE_HOME', 'XDG_CONFIG_HOME'), '')
  code, _, error = runs.finish(
    'eval',
    *_EVAL,
    '--steps=8',
    f'--out={tmp_path / "x"}',
    env={'HOME': home, 'DISCO_RL_COMPILATION_CACHE': '', **nowhere},
  )
  assert code == 0 and 'Traceback' not in error, error
