"""Output that is closed, broken, full or of another encoding stops nothing."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from disco_rl.runs import console

# Writes until long after its reader has exited; exit code 7 means success.
PROGRAM = """
import os, sys
from disco_rl.runs import console
console.set_up()
for stream in (sys.stdout, sys.stderr):
  for _ in range(20000):
    stream.write('x' * 50 + '\\n')
  stream.flush()
opened = os.open(os.devnull, os.O_RDONLY)
sys.exit(7 if opened > 2 else 1)
"""


def _run(redirections, **variables):
  """Runs the program by a shell; returns its exit code and its output."""
  command = f'"{sys.executable}" -c "$PROGRAM" {redirections}'
  shell = ['bash', '-c', f'set -o pipefail; {command}']
  variables = {**os.environ, 'PROGRAM': PROGRAM, **variables}
  done = subprocess.run(shell, env=variables, capture_output=True, text=True)
  return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
  'redirections',
  [
    '| head -1',
    '2>&1 | head -1',
    '>&-',
    '2>&-',
    '<&- >&- 2>&-',
    '> /dev/full 2> /dev/full',
  ],
)
def test_a_stream_that_fails_is_replaced(redirections):
  code, _, error = _run(redirections)
  assert code == 7, error
  assert 'Error' not in error and 'Exception' not in error


@pytest.mark.parametrize('encoding', ['ascii', 'latin-1'])
def test_characters_that_an_encoding_lacks_are_replaced(encoding):
  program = (
    'from disco_rl.runs import console; console.set_up(); print("η is ±1 █")'
  )
  variables = {**os.environ, 'PYTHONIOENCODING': encoding}
  done = subprocess.run(
    [sys.executable, '-c', program], env=variables, capture_output=True
  )
  wanted = '? is ±1 ?' if encoding == 'latin-1' else '? is ?1 ?'
  assert done.stdout.decode(encoding).strip() == wanted
  assert not done.stderr and done.returncode == 0


class _Broken(io.StringIO):
  encoding = 'ascii'

  def write(self, text):
    text.encode('ascii')
    raise BrokenPipeError


def test_one_line_is_printed_if_that_is_possible(capsys, monkeypatch):
  console.say('η')
  assert capsys.readouterr().out == 'η\n'
  closed = io.StringIO()
  closed.close()
  for stream in (None, closed, _Broken()):
    monkeypatch.setattr(sys, 'stdout', stream)
    console.say('η')


def test_a_dumb_terminal_writes_no_line_again(monkeypatch):
  stream = io.StringIO()
  monkeypatch.setattr(stream, 'isatty', lambda: True, raising=False)
  monkeypatch.setenv('TERM', 'xterm')
  assert console.can_rewrite(stream) and not console.can_rewrite(None)
  monkeypatch.setenv('TERM', 'dumb')
  assert console.is_terminal(stream) and not console.can_rewrite(stream)


def test_the_width_is_that_of_the_terminal(monkeypatch):
  monkeypatch.delenv('COLUMNS', raising=False)
  assert console.width(None) == console.width(io.StringIO()) == 80
  monkeypatch.setenv('COLUMNS', '20')
  assert console.width(io.StringIO()) == 20
  monkeypatch.setenv('COLUMNS', 'wide')
  assert console.width(io.StringIO()) == 80
  here, there = pty.openpty()
  try:
    with open(there, 'w', closefd=False) as stream:
      fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack('4H', 24, 33, 0, 0))
      assert console.width(stream) == 33
      fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack('4H', 0, 0, 0, 0))
      assert console.width(stream) == 80
  finally:
    os.close(here)
    os.close(there)
