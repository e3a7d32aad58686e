"""Commands that several processes on this machine run together."""

import socket

import numpy as np
import pytest

from disco_rl.runs import files
from disco_rl.runs import metrics
from tests.support import runs


def free_port():
  """Returns a port on which nothing listens."""
  with socket.create_server(('127.0.0.1', 0)) as server:
    return server.getsockname()[1]


def start(
  command,
  *arguments,
  shape=(2, 1),
  by_hand=True,
  own=(),
  own_variables=(),
  **options,
):
  """Starts the processes of a run.

  Args:
    command: e.g. `'eval'`.
    *arguments: its arguments, the same in all processes.
    shape: the number of processes, and the devices of each.
    by_hand: whether to give them their numbers.
    own: further arguments of each process.
    own_variables: further environment variables of each process.
    **options: further options of `subprocess.Popen`.

  Returns:
    The processes.
  """
  pytest.importorskip('orbax.checkpoint')  # An extra; saves their states.
  number, num_devices = shape
  port = free_port()
  variables = {'JAX_NUM_CPU_DEVICES': str(num_devices)}
  started = []
  for i in range(number):
    further = list(own[i]) if own else []
    if number > 1 and by_hand:
      further += [f'--coordinator=127.0.0.1:{port}', f'--process-id={i}']
      if not any(x.startswith('--num-processes') for x in further):
        further.append(f'--num-processes={number}')
    env = {**variables, **(own_variables[i] if own_variables else {})}
    started.append(
      runs.start(command, *arguments, *further, env=env, **options)
    )
  return started


def wait(started, timeout=300):
  """Waits for processes; returns exit code, output and errors of each."""
  results = []
  try:
    for process in started:
      out, error = process.communicate(timeout=timeout)
      results.append((process.returncode, out, error))
  finally:
    for process in started:
      process.kill()
  return results


def finish(command, *arguments, **options):
  """Runs processes to their end; checks that all succeed."""
  results = wait(start(command, *arguments, **options))
  for code, _, error in results:
    assert code == 0, error
  return results


def mixed(*envs, **sizes):
  """Returns arguments of a small `meta-train`, whose rule compiles quickly.

  Args:
    *envs: the environments; by default one in JAX and one on the host.
    **sizes: changes to `batching`.
  """
  envs = envs or ('catch', 'catch_numpy')
  sizes = {
    **dict(rollout_length=5, batch_size=4, num_envs=2, replay_capacity=8),
    **sizes,
  }
  arguments = [
    *('--use=tests.support.entropy_cost', '--rule=entropy_cost'),
    *('--set=meta.num_inner_updates=1', '--set=meta.lifetimes=2,3'),
    *(f'--set=batching.{name}={size}' for name, size in sizes.items()),
    *('--set=checkpoint_every=2', *(f'--env={env}' for env in envs)),
  ]
  for env in envs:
    arguments.append(f'--set=net.{env}.net_args.dense=9,8')
    arguments.append(f'--set=critic_net.{env}.net_args.dense=6,6')
  return arguments


def check_close(out, wanted):
  """Checks that runs have the same files, with almost the same numbers."""
  one, other = (metrics.read_csv(x / 'metrics.csv') for x in (out, wanted))
  assert len(one) == len(other) > 0
  for row, wanted_row in zip(one, other, strict=True):
    assert row.keys() == wanted_row.keys()
    for name, value in row.items():
      np.testing.assert_allclose(
        value, wanted_row[name], rtol=2e-3, atol=1e-4, err_msg=name
      )
  names = {x.name for x in wanted.glob('*.npz')} - {'state.npz'}
  assert names == {x.name for x in out.glob('*.npz')} - {'state.npz'} != set()
  for name in names:
    arrays, wanted_arrays = (files.read_npz(x / name) for x in (out, wanted))
    assert arrays.keys() == wanted_arrays.keys()
    for key, array in arrays.items():
      np.testing.assert_allclose(
        array, wanted_arrays[key], rtol=2e-3, atol=1e-4, err_msg=key
      )


def check_refused(results, out, *words):
  for code, _, error in results:
    assert code == 2, error
    assert 'Traceback' not in error
  errors = ' '.join(error for _, _, error in results)
  assert all(word in errors for word in words), errors
  assert not out.exists()
