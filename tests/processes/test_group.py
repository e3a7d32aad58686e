"""Processes agree on values, and end together."""

import socket
import subprocess
import sys
import threading

import pytest

from disco_rl.processes import group as group_lib
from disco_rl.processes import links
from tests.support import runs


def _pair(number=2):
  """Returns groups that are connected like those of `number` processes."""
  first, groups = {}, []
  for i in range(1, number):
    one, other = (links.Link(x) for x in socket.socketpair())
    first[i] = one
    groups.append(group_lib.Group(i, number, {0: other}, {0: 'here'}))
  return [group_lib.Group(0, number, first, {}), *groups]


def _in_all(groups, function):
  """Calls a function with all groups at once; returns results or errors."""
  results = [None] * len(groups)

  def call(i, group):
    try:
      results[i] = function(group)
    except Exception as error:
      results[i] = error

  threads = [threading.Thread(target=call, args=x) for x in enumerate(groups)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(30)
  return results


@pytest.fixture
def groups():
  made = _pair(3)
  yield made
  _in_all(made, lambda group: group.leave())


def test_values_are_gathered_in_order(groups):
  for i in range(20):
    results = _in_all(
      groups, lambda group, i=i: group.gather('x', [group.process_id, i])
    )
    assert results == [[[0, i], [1, i], [2, i]]] * 3
  assert _in_all(groups, lambda x: x.any(x.process_id == 2)) == [True] * 3
  assert _in_all(groups, lambda x: x.any(False)) == [False] * 3
  assert [x.is_writer for x in groups] == [True, False, False]


def test_facts_that_differ_raise_the_same_error_in_all(groups):
  facts = {'jax': '1', 'env.rows': 5, 'x': float('nan')}
  assert _in_all(groups, lambda x: x.check_same(facts)) == [None] * 3

  def check(group):
    group.check_same({**facts, 'env.rows': 5 + (group.process_id == 2)})

  errors = _in_all(groups, check)
  assert {type(error) for error in errors} == {group_lib.DifferenceError}
  assert {str(error) for error in errors} == {
    'process 2 has another env.rows than process 0: 6, not 5'
  }
  extra = {'more': 1}
  errors = _in_all(
    groups, lambda x: x.check_same(extra if x.process_id == 1 else {})
  )
  assert 'only one of process 1 and process 0 has more' in str(errors[0])


# A process with a connection to this one.
_PROGRAM = """
import json, socket, sys, time
from disco_rl.processes import group, links
links.SILENCE_SECONDS = float(sys.argv[4])
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
number = int(sys.argv[2])
own = group.Group(number, 3, {2 - number: links.Link(connection)}, {})
own.program = 'disco-rl eval'
own.advice = lambda: 'Resume.'
own._send_all(kind='ready')
exec(sys.argv[3])
time.sleep(60)
"""


def _run_beside(action, program='', number=0, silence=50):
  """Runs a process, and an action on a link to it; returns how it ended."""
  with socket.create_server(('127.0.0.1', 0)) as server:
    port = str(server.getsockname()[1])
    process = subprocess.Popen(
      [
        sys.executable,
        '-c',
        _PROGRAM,
        port,
        str(number),
        program,
        str(silence),
      ],
      env=runs.environment(),
      stderr=subprocess.PIPE,
      text=True,
    )
    connection, _ = server.accept()
  link = links.Link(connection)
  try:
    while link.receive()['kind'] != 'ready':
      pass
    action(link)
    _, error = process.communicate(timeout=50)
  finally:
    process.kill()
    link.close()
  return process.returncode, error


def test_a_lost_process_is_named():
  code, error = _run_beside(lambda link: link.close())
  assert code == 1
  assert error == (
    'disco-rl eval: stopped: process 2 of 3 was lost: it was killed, or cannot '
    'be reached any more\nResume.\n'
  )


def test_what_is_no_message_ends_a_process():
  send = lambda link: link._socket.sendall(b'GET / HTTP/1.1\n')
  assert _run_beside(send)[0] == 1


def test_an_error_of_another_process_is_reported():
  code, error = _run_beside(
    lambda link: link.send(
      kind='stopped', process=2, reason='no such thing', code=2
    )
  )
  assert code == 2
  assert error == (
    'disco-rl eval: error: process 2 of 3 stopped: no such thing\n'
  )


def test_an_error_that_process_0_has_too_is_reported_there():
  announce = 'print(own.announce("the same", 2), file=sys.stderr); sys.exit()'
  send = lambda reason: (
    lambda link: link.send(kind='stopped', process=0, reason=reason, code=2)
  )
  assert _run_beside(send('the same'), announce, number=2)[1] == 'True\n'
  assert _run_beside(send('another'), announce, number=2)[1] == 'False\n'


def test_an_abort_comes_after_the_sentence():
  """JAX aborts a process as soon as process 0 is lost."""

  abort = 'import ctypes; ctypes.CDLL(None).abort()'
  code, error = _run_beside(lambda link: link.close(), abort)
  assert code == 1 and 'was lost' in error


def test_other_aborts_are_only_delayed():
  hear = lambda link: [link.send(kind='ping') for _ in range(2)]
  code, _ = _run_beside(hear, 'import ctypes; ctypes.CDLL(None).abort()')
  assert code == -6


def test_a_silent_process_is_lost():
  code, error = _run_beside(lambda _: None, silence=1)
  assert code == 1 and 'process 2 of 3 was lost' in error


def test_links_are_silent_for_less_than_a_minute():
  one, other = (links.Link(x) for x in socket.socketpair())
  assert links.PING_SECONDS * 4 < one._socket.gettimeout() < 60
  one.close()
  assert other.receive() is None
  other.close()
