"""Runs of several processes on this machine, as on several hosts."""

import importlib.util
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from tests.support import broken
from tests.support import events
from tests.support import processes
from tests.support import runs

_EVAL = ['--rule=actor_critic']
_EVAL += [x for x in runs.TINY if 'num_envs' not in x and 'devices' not in x]
_EVAL.append('--set=batching.num_envs=4')
_META = [
  *('--set=env.catch.columns=4', '--set=batching.rollout_length=7'),
  *('--set=batching.batch_size=4', '--set=batching.num_envs=2'),
  *('--set=batching.replay_capacity=16', '--set=meta.lifetimes=6,20'),
  '--set=critic_net.catch.net_args.dense=6,6',
  *('--set=net.catch.net_args.dense=9,8', '--set=checkpoint_every=2'),
]
# Name to command, its arguments and the steps between two checkpoints.
KINDS = {
  'device': ('eval', [*_EVAL, '--num-seeds=2'], 4),
  'host': ('eval', [*_EVAL, '--num-seeds=2', '--env=catch_numpy'], 4),
  'meta-train': ('meta-train', _META, 2),
  # Rows of the grid are agents of different processes.
  'agents': ('meta-train', [*_META, '--num-agents=4'], 2),
  # Two processes have two agents of each environment each; four share them.
  'mixed': ('meta-train', processes.mixed(), 2),
  'agents on the host': (
    'meta-train',
    [*processes.mixed('catch_numpy'), '--num-agents=4'],
    2,
  ),
}
# Those with environments on the host, which another number of processes resets.
ON_HOST = ('host', 'mixed', 'agents on the host')


def test_two_processes_make_the_run_of_one(tmp_path):
  arguments = [*_EVAL, '--devices=2', '--steps=8']
  one, two = tmp_path / 'one', tmp_path / 'two'
  started = processes.start('eval', *arguments, f'--out={one}', shape=(1, 2))
  if importlib.util.find_spec('tensorboardX') is not None:
    arguments.append('--track=tensorboard')
  results = processes.finish('eval', *arguments, f'--out={two}', shape=(2, 1))
  assert processes.wait(started)[0][0] == 0
  processes.check_close(two, one)
  if '--track=tensorboard' in arguments:  # Written by one of the processes.
    events.check_same(two, metrics.read_csv(two / 'metrics.csv'))
  assert 'metrics:' in results[0][1] and str(two) not in results[1][1]
  assert not (two / 'state.npz').exists()
  # One process goes on.
  code, _, error = runs.finish(
    *('eval', f'--resume={two}', '--steps=12'),
    env={'JAX_NUM_CPU_DEVICES': '2'},
  )
  assert code == 0, error
  assert not (two / 'state.orbax').exists()
  assert metrics.read_csv(two / 'metrics.csv')[-1]['iteration'] == 12


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
def test_processes_and_devices_make_the_same_run(kind, tmp_path):
  command, arguments, every = KINDS[kind]
  arguments = [*arguments, '--devices=4', f'--steps={3 * every}']
  for shape in ((1, 4), (2, 2), (4, 1)):
    out = tmp_path / str(shape[0])
    processes.finish(command, *arguments, f'--out={out}', shape=shape)
    if shape[0] > 1:
      processes.check_close(out, tmp_path / '1')


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
def test_a_run_is_resumed_by_other_numbers_of_processes(kind, tmp_path):
  command, arguments, every = KINDS[kind]
  arguments = [*arguments, '--devices=4']
  whole, out = tmp_path / 'whole', tmp_path / 'x'
  processes.finish(
    command, *arguments, f'--steps={4 * every}', f'--out={whole}', shape=(1, 4)
  )
  processes.finish(
    command, *arguments, f'--steps={every}', f'--out={out}', shape=(1, 4)
  )
  for i, shape in enumerate(((2, 2), (4, 1), (1, 4)), 2):
    results = processes.finish(
      command, f'--resume={out}', f'--steps={i * every}', shape=shape
    )
    assert ('environments on the host are reset' in results[0][2]) == (
      kind in ON_HOST
    )
    assert (out / 'state.npz').exists() == (shape[0] == 1)
    assert (out / 'state.orbax').exists() == (shape[0] > 1)
  if kind not in ON_HOST:
    processes.check_close(out, whole)


def _start(kind, out, **options):
  """Starts a run of two processes that takes long, or resumes it."""
  command, arguments, every = KINDS[kind]
  if (out / 'config.json').exists():
    return processes.start(command, f'--resume={out}', **options)
  return processes.start(
    *(command, *arguments, '--devices=2'),
    *(f'--steps={40 * every}', f'--out={out}'),
    **options,
  )


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """Returns a function from a kind to the folder of a run without faults."""
  made = {}

  def make(kind):
    if kind not in made:
      out = tmp_path_factory.mktemp('whole') / 'x'
      for code, _, error in processes.wait(_start(kind, out)):
        assert code == 0, error
      made[kind] = out
    return made[kind]

  return make


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['device', 'host', 'meta-train', 'mixed'])
def test_a_lost_process_ends_the_others(kind, whole, tmp_path):
  wanted, out = whole(kind), tmp_path / 'x'
  for round_, victim in enumerate((1, 0, 1, 0)):
    started = _start(kind, out)
    before = len(metrics.read_csv(out / 'metrics.csv'))
    runs.wait_for_rows(out, before + 4, started[victim])
    time.sleep(0.05 * round_)
    killed = time.monotonic()
    started[victim].kill()
    results = processes.wait(started)
    assert time.monotonic() - killed < 60
    code, _, error = results[1 - victim]
    assert code == 1, error
    assert f'process {victim} of 2' in error and 'was lost' in error, error
  for code, _, error in processes.wait(_start(kind, out)):
    assert code == 0, error
  runs.check_same_files(out, wanted)


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize('receivers', [(0,), (1,), (0, 1)])
def test_signals_stop_all_processes_together(
  number, receivers, whole, tmp_path
):
  wanted, out = whole('device'), tmp_path / 'x'
  started = _start('device', out)
  runs.wait_for_rows(out, 6, started[0])
  for i in receivers:
    started[i].send_signal(number)
  for code, _, error in processes.wait(started):
    assert code == 130, error
    assert 'Traceback' not in error and 'lost' not in error, error
  for code, _, error in processes.wait(_start('device', out)):
    assert code == 0, error
  runs.check_same_files(out, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
  'own, words',
  [
    (([], ['--num-processes=3']), ['--num-processes 3']),
    ((['--seed=1'], ['--seed=2']), ['seed', 'process 1 has another']),
    ((['--env=catch'], ['--env=catch_numpy']), ['catch_numpy', 'process 1']),
    (
      (['--set=env.rows=6'], ['--set=env.rows=7']),
      ['env.rows', 'process 1 has another'],
    ),
  ],
)
def test_processes_that_differ_are_refused(own, words, tmp_path):
  out = tmp_path / 'x'
  arguments = [
    *(x for x in _EVAL if 'env.rows' not in x),
    *(f'--out={out}', '--connect-timeout=60'),
  ]
  results = processes.wait(processes.start('eval', *arguments, own=own))
  processes.check_refused(results, out, *words)


@pytest.mark.slow
def test_folders_that_differ_are_refused(tmp_path):
  own = [[f'--out={tmp_path / name}'] for name in 'ab']
  results = processes.wait(processes.start('eval', *_EVAL, own=own))
  processes.check_refused(
    results, tmp_path / 'a', 'folder', str(tmp_path / 'b')
  )
  assert not (tmp_path / 'b').exists()


@pytest.mark.slow
def test_devices_that_do_not_divide_are_refused(tmp_path):
  out = tmp_path / 'x'
  results = processes.wait(
    processes.start('meta-train', *_META, '--devices=3', f'--out={out}')
  )
  processes.check_refused(results, out, 'multiple of the 2 processes')


@pytest.mark.slow
def test_an_error_in_one_process_ends_the_others(tmp_path):
  out, name = tmp_path / 'x', 'dm:tests.support.broken:BrokenDm'
  _, arguments, _ = KINDS['host']
  arguments = [x for x in arguments if '--env=' not in x and '=env.' not in x]
  arguments += [f'--env={name}', '--steps=400', '--devices=2']
  arguments.append('--set=env.kwargs={"trouble": "step", "at": 60}')
  repaired = {broken.REPAIRED_BY: str(tmp_path)}
  started = processes.start(
    'eval', *arguments, f'--out={out}', own_variables=(repaired, {})
  )
  results = processes.wait(started)
  for code, _, error in results:
    assert code == 1, error
    assert 'as asked for' in error, error
  assert 'process 1 of 2' in results[0][2]
  assert f'--resume {out}' in results[0][2]
  rows = metrics.read_csv(out / 'metrics.csv')
  assert rows and rows[-1]['iteration'] < 400


_SLURM = dict(
  SLURM_JOB_ID='1',
  SLURM_STEP_NODELIST='127.0.0.1',
  SLURM_NTASKS='2',
  SLURM_STEP_NUM_NODES='1',
)


@pytest.mark.slow
def test_processes_of_slurm_are_detected(tmp_path):
  out = tmp_path / 'x'
  port = str(processes.free_port())
  variables = [
    {
      **_SLURM,
      **dict(SLURM_PROCID=str(i), SLURM_LOCALID=str(i)),
      'JAX_COORDINATOR_PORT': port,
    }
    for i in range(2)
  ]
  results = processes.finish(
    *('eval', *_EVAL, '--steps=4', '--distributed=auto', f'--out={out}'),
    by_hand=False,
    own_variables=variables,
  )
  assert 'Traceback' not in results[0][2] + results[1][2]
  # By default, all devices are used.
  assert run_folder.read_config(out)['settings']['devices'] == 2
  assert len(metrics.read_csv(out / 'metrics.csv')) == 1


def test_without_a_cluster_nothing_is_detected(tmp_path):
  code, _, error = runs.finish('eval', *_EVAL, '--distributed=auto')
  assert code == 2 and 'no cluster' in error, error


@pytest.mark.parametrize(
  'arguments, words',
  [
    (['--process-id=1'], '--coordinator is missing'),
    (['--coordinator=a:1', '--num-processes=2'], '--process-id is missing'),
    (['--connect-timeout=5'], '--connect-timeout needs'),
    (
      ['--coordinator=a', '--num-processes=2', '--process-id=0'],
      'HOST:PORT',
    ),
    (
      ['--coordinator=a:1', '--num-processes=2', '--process-id=2'],
      'between 0 and 1',
    ),
  ],
)
def test_wrong_options(arguments, words, capsys):
  assert runs.evaluate(*arguments) == 2
  assert words in capsys.readouterr().err


# In Python, after `jax.distributed.initialize`.
_PROGRAM = """
import sys
import jax
import numpy as np
number = int(sys.argv[1])
if sys.argv[2:]:
  jax.distributed.initialize(f'127.0.0.1:{sys.argv[2]}', 2, number)
import disco_rl
sizes = disco_rl.Batching(
  batch_size=4, rollout_length=6, num_envs=4, replay_capacity=8
)
result = disco_rl.evaluate(
  'catch', 'actor_critic', num_iterations=4, batching=sizes, chunk_size=2,
  env_settings=dict(rows=5, columns=4),
)
assert not sys.argv[2:] or jax.process_count() == 2
print(result.rows[-1]['total_loss'])
"""


@pytest.mark.slow
def test_processes_that_the_user_has_connected():
  port = str(processes.free_port())
  printed = []
  for shape, more in (((1, 2), []), ((2, 1), [port])):
    started = [
      subprocess.Popen(
        [sys.executable, '-c', _PROGRAM, str(i), *more],
        env={**runs.environment(), 'JAX_NUM_CPU_DEVICES': str(shape[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
      )
      for i in range(shape[0])
    ]
    for code, out, error in processes.wait(started):
      assert code == 0, error
      printed.append(float(out.split()[-1]))
  np.testing.assert_allclose(printed[1:], printed[0], rtol=1e-4)
