"""`disco-rl`: its commands, their help and their exit codes."""

import subprocess
import sys

import pytest

from disco_rl.cli import main


def test_help_explains(capsys):
  for command in ([], ['eval'], ['meta-train'], ['compare'], ['rules']):
    with pytest.raises(SystemExit) as stop:
      main.main([*command, '--help'])
    assert stop.value.code == 0
  text = capsys.readouterr().out
  for word in ('--resume', '--set', 'disco_103', 'last checkpoint'):
    assert word in text


def test_help_does_not_wait_for_jax():
  program = (
    'import contextlib, sys; from disco_rl.cli import main\n'
    'with contextlib.suppress(SystemExit): main.main(["--help"])\n'
    'assert "jax" not in sys.modules'
  )
  subprocess.run([sys.executable, '-c', program], check=True)
