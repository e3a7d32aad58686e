"""Processes that do not fit together are refused before JAX starts."""

import socket
import threading
import time

import pytest

from disco_rl.processes import runtime
from tests.support import processes


def _start(*all_arguments, port=None, timeout=20.0):
  """Starts threads in place of processes; returns their errors."""
  port = port or processes.free_port()
  errors = [None] * len(all_arguments)

  def start(i, number, process_id):
    try:
      runtime.by_hand(f'127.0.0.1:{port}', number, process_id, timeout)
    except runtime.StartError as error:
      errors[i] = str(error)

  threads = [
    threading.Thread(target=start, args=(i, *x))
    for i, x in enumerate(all_arguments)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(60)
  return errors


def test_another_number_of_processes():
  errors = _start((2, 0), (3, 1))
  assert errors[0] == errors[1]
  assert '--num-processes 3, but process 0 has 2' in errors[0]


def test_the_same_number_twice():
  errors = _start((3, 0), (3, 1), (3, 1))
  assert set(errors) == {'two processes were started with --process-id 1'}


def test_a_number_out_of_range():
  for number, process_id in ((2, 2), (2, -1), (0, 0)):
    (error,) = _start((number, process_id))
    assert 'must be' in error


def test_missing_processes_are_named():
  began = time.monotonic()
  errors = _start((4, 0), (4, 2), timeout=2.0)
  assert time.monotonic() - began < 20
  assert errors[0] == errors[1]
  assert 'within 2 s; missing: 1, 3' in errors[0]


def test_an_unreachable_coordinator():
  (error,) = _start((2, 1), timeout=1.0)
  assert 'cannot be reached within 1 s (Connection refused)' in error


def test_a_port_in_use():
  with socket.create_server(('127.0.0.1', 0)) as server:
    (error,) = _start((2, 0), port=server.getsockname()[1])
  assert 'cannot listen on the coordinator' in error
  assert 'Address already in use' in error


def test_other_versions(monkeypatch):
  facts = iter([{'--num-processes': 2, 'jax': x} for x in ('0.1', '0.2')])
  monkeypatch.setattr(runtime, '_facts', lambda _: next(facts))
  errors = _start((2, 0), (2, 1))
  assert errors[0] == errors[1] and 'jax 0.' in errors[0]


def test_strangers_are_ignored():
  port = processes.free_port()
  stop = threading.Event()

  def disturb():
    while not stop.is_set():
      try:
        with socket.create_connection(('127.0.0.1', port), 1) as stranger:
          stranger.sendall(b'GET / HTTP/1.1\r\n\r\n')
      except OSError:
        time.sleep(0.05)

  thread = threading.Thread(target=disturb)
  thread.start()
  try:
    errors = _start((3, 0), (3, 1), (3, 1), port=port)
  finally:
    stop.set()
    thread.join()
  assert set(errors) == {'two processes were started with --process-id 1'}


@pytest.mark.parametrize(
  'address', ['', 'host', 'host:', ':1', 'host:0', 'host:65536', 'host:x']
)
def test_addresses(address):
  with pytest.raises(runtime.StartError, match='HOST:PORT'):
    runtime.by_hand(address, 2, 0)


def test_an_address_in_brackets():
  assert runtime._parse('[::1]:80') == ('::1', 80)
  assert runtime._parse('a.b:80') == ('a.b', 80)


def test_one_process_is_an_ordinary_one():
  assert runtime.by_hand('127.0.0.1:1', 1, 0) is None
  assert runtime.current() is None and runtime.is_writer()
