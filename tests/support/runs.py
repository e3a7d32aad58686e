"""Runs of the commands in separate processes, and their folders."""

import os
import pathlib
import subprocess
import sys
import time

import numpy as np

from disco_rl.cli import main
from disco_rl.runs import compilation_cache
from disco_rl.runs import files
from disco_rl.runs import metrics

ROOT = pathlib.Path(__file__).parents[2]

# Options of `disco-rl eval` for programs that compile quickly.
TINY = [
  *('--set=agent.net_settings.net_args.dense=(9, 8)', '--set=env.rows=5'),
  *('--set=env.columns=4', '--set=batching.batch_size=8'),
  *('--set=batching.rollout_length=6', '--set=batching.num_envs=2'),
  *('--set=batching.replay_capacity=16', '--set=chunk_size=4'),
  *('--set=checkpoint_every=4', '--devices=1'),
]


def environment():
  """Returns the environment of a process that shares the compilation cache."""
  compilation_cache.publish()
  return {
    **os.environ,
    compilation_cache.VARIABLE: str(compilation_cache.common_folder() or 'off'),
    'JAX_NUM_CPU_DEVICES': '8',
    'PYTHONPATH': str(ROOT),
  }


def start(command, *arguments, under=(), **options):
  """Starts a command in a process that shares the compilation cache.

  Args:
    command: e.g. `'eval'`.
    *arguments: its arguments.
    under: a command line that is given the process's own as arguments.
    **options: further options of `subprocess.Popen`; those of `env` are added.

  Returns:
    The process.
  """
  variables = {**environment(), **options.pop('env', {})}
  program = [sys.executable, '-m', 'disco_rl.cli.main', command]
  if '--quiet' not in arguments:  # It is refused if given twice.
    program.append('--quiet')
  pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  return subprocess.Popen(
    [*under, *program, *arguments], env=variables, **{**pipes, **options}
  )


def finish(command, *arguments, **options):
  """Runs a command to its end; returns its exit code, output and errors."""
  process = start(command, *arguments, **options)
  out, error = process.communicate()
  return process.returncode, out, error


def wait_for_rows(out, count, process):
  """Returns once there are `count` rows of metrics."""
  for _ in range(6000):  # Five minutes: a busy machine may compile for long.
    if len(metrics.read_csv(out / 'metrics.csv')) >= count:
      return
    assert process.poll() is None, process.communicate()
    time.sleep(0.05)
  process.kill()
  raise AssertionError(f'no progress: {process.communicate()}')


def check_same_files(one, other):
  """Checks that two folders have the same files with the same numbers."""
  names = sorted(p.name for p in one.iterdir() if p.name != '.lock')
  assert names == sorted(p.name for p in other.iterdir() if p.name != '.lock')
  for name in names:
    if name.endswith('.csv'):
      assert (one / name).read_text() == (other / name).read_text(), name
    if name.endswith('.npz'):
      a, b = files.read_npz(one / name), files.read_npz(other / name)
      assert a.keys() == b.keys()
      for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def changed(options, *more):
  """Options with more of them, without settings that these give instead."""
  given = {_setting(option) for option in more if option.startswith('--set=')}
  return [*(x for x in options if _setting(x) not in given), *more]


def _setting(option):
  return option.split('=')[:2][-1]


def evaluate(*arguments, rule='actor_critic'):
  options = ['eval', '--rule', rule, '--quiet', *changed(TINY, *arguments)]
  return main.main(options)


def contents(folder):
  """Returns the contents of a folder's files, and the names of its folders."""
  return {
    path.name: path.read_bytes() if path.is_file() else None
    for path in folder.iterdir()
  }
