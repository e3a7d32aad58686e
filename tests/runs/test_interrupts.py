"""Signals: when they end the process, and when they stop the run later."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from disco_rl.runs import interrupts


def _wait_for(condition):
  """Waits for the thread that receives signals."""
  for _ in range(1000):
    if condition():
      return
    time.sleep(0.01)
  raise AssertionError('it did not happen')


@pytest.fixture(autouse=True)
def handlers():
  """The handlers of this process, which must be restored."""
  # Processes in the background ignore it.
  at_first = signal.signal(signal.SIGINT, signal.default_int_handler)
  before = [signal.getsignal(number) for number in interrupts.SIGNALS]
  yield before
  assert before == [signal.getsignal(number) for number in interrupts.SIGNALS]
  signal.signal(signal.SIGINT, at_first)
  fd = signal.set_wakeup_fd(-1)
  signal.set_wakeup_fd(fd)
  assert fd == -1


def test_ctrl_c_in_the_library_is_raised_after_the_work(capfd):
  finished = []
  with pytest.raises(KeyboardInterrupt):
    with interrupts.of_run(is_saved=True) as should_stop:
      assert not should_stop()
      os.kill(os.getpid(), signal.SIGINT)
      _wait_for(should_stop)
      finished.append('saved')
  assert finished == ['saved']
  assert 'Stopping after the current work' in capfd.readouterr().err


def test_a_second_ctrl_c_in_the_library_is_pythons():
  finished = []
  with pytest.raises(KeyboardInterrupt):
    with interrupts.of_run(is_saved=True) as should_stop:
      os.kill(os.getpid(), signal.SIGINT)
      _wait_for(should_stop)
      time.sleep(0.2)
      os.kill(os.getpid(), signal.SIGINT)
      time.sleep(5)
      finished.append('saved')
  assert not finished


def test_ctrl_c_that_is_sent_twice_at_once_is_one():
  """Programs may forward Ctrl-C to processes that they started."""
  finished = []
  with pytest.raises(KeyboardInterrupt):
    with interrupts.of_run(is_saved=True) as should_stop:
      for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
      _wait_for(should_stop)
      finished.append('saved')
  assert finished == ['saved']


def test_a_signal_reaches_a_custom_handler():
  seen = []
  before = signal.signal(signal.SIGTERM, lambda *_: seen.append('mine'))
  try:
    with pytest.raises(KeyboardInterrupt):
      with interrupts.of_run(is_saved=True) as should_stop:
        os.kill(os.getpid(), signal.SIGTERM)
        _wait_for(should_stop)
        assert not seen
    assert seen == ['mine']
  finally:
    signal.signal(signal.SIGTERM, before)


def test_an_error_of_the_run_is_not_hidden_by_a_signal():
  with pytest.raises(ZeroDivisionError):
    with interrupts.of_run(is_saved=True) as should_stop:
      os.kill(os.getpid(), signal.SIGINT)
      _wait_for(should_stop)
      raise ZeroDivisionError


def test_no_handlers_in_other_threads_or_without_a_folder(handlers):
  def check():
    with interrupts.of_run(is_saved=True) as should_stop:
      now = [signal.getsignal(number) for number in interrupts.SIGNALS]
      seen.append((now, should_stop()))

  seen = []
  thread = threading.Thread(target=check)
  thread.start()
  thread.join()
  assert seen == [(handlers, False)]
  with interrupts.of_run(is_saved=False):
    assert signal.getsignal(signal.SIGINT) == handlers[0]


COMMAND = """
import ctypes, sys, time
from disco_rl.runs import interrupts
interrupts.hold()
interrupts.start_command()
work = sys.argv[1]
if work != 'c':
  interrupts.defer()
if work == 'done':
  interrupts.end_command()
print('ready', flush=True)
if work == 'done':
  time.sleep(0.5)
  sys.exit(0)
if work == 'c':
  for _ in range(20):
    ctypes.CDLL(None).sleep(1)  # Without Python, as a compilation.
with interrupts.of_run(True) as should_stop:
  for _ in range(3000):
    time.sleep(0.01)
    if should_stop() and work != 'run forever':
      sys.exit(3)
"""


def _command(*work):
  process = subprocess.Popen(
    [sys.executable, '-c', COMMAND, *work],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == 'ready\n'
  return process


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_a_command_that_has_written_nothing_ends_at_once(number):
  process = _command('c')
  process.send_signal(number)
  _, error = process.communicate(timeout=20)
  assert process.returncode == 130 and not error


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_a_command_that_writes_is_asked_to_stop(number):
  process = _command('run')
  process.send_signal(number)
  _, error = process.communicate(timeout=20)
  assert process.returncode == 3 and 'Stopping after' in error


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_a_command_that_has_done_its_work_succeeds(number):
  process = _command('done')
  process.send_signal(number)
  _, error = process.communicate(timeout=20)
  assert process.returncode == 0 and not error


def test_a_second_ctrl_c_ends_a_command_at_once():
  process = _command('run forever')
  time.sleep(0.3)
  for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
    process.send_signal(number)
    time.sleep(0.3)
    assert process.poll() is None
  process.send_signal(signal.SIGINT)
  process.communicate(timeout=20)
  assert process.returncode == 130


def test_signals_are_held_until_they_can_be_handled():
  program = (
    'import os, signal, sys; from disco_rl.runs import interrupts\n'
    'interrupts.hold(); os.kill(os.getpid(), signal.SIGTERM)\n'
    'print("alive", flush=True); interrupts.start_command()\n'
    'import time; time.sleep(20)'
  )
  done = subprocess.run(
    [sys.executable, '-c', program], capture_output=True, text=True, timeout=20
  )
  assert done.returncode == 130 and done.stdout == 'alive\n'


def test_nohup_is_respected():
  program = (
    'import os, signal, sys, time; from disco_rl.runs import interrupts\n'
    'signal.signal(signal.SIGHUP, signal.SIG_IGN); interrupts.start_command()\n'
    'os.kill(os.getpid(), signal.SIGHUP); time.sleep(0.3); sys.exit(5)'
  )
  assert subprocess.run([sys.executable, '-c', program]).returncode == 5


def test_signals_that_a_program_ignores_stay_ignored():
  before = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    with interrupts.of_run(is_saved=True) as should_stop:
      os.kill(os.getpid(), signal.SIGINT)
      time.sleep(0.2)
      assert not should_stop()
  finally:
    signal.signal(signal.SIGINT, before)
