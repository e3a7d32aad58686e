"""Commands that several processes on this machine run together."""

import socket

import pytest

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
