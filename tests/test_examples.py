"""Every example runs, at a tiny size."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / 'examples'


def _run(name, *arguments):
  return subprocess.run(
    [sys.executable, str(EXAMPLES / name), *arguments],
    capture_output=True,
    text=True,
    check=False,
  )


def test_catch_actor_critic():
  sizes = ('--updates=3', '--batch-size=2', '--report-every=2')
  result = _run('catch_actor_critic.py', *sizes)
  assert result.returncode == 0, result.stderr
  lines = result.stdout.strip().splitlines()
  assert [line.split()[0] for line in lines] == ['update', '2', '3']


@pytest.mark.parametrize('option', ['--updates', '--batch-size'])
def test_nonsense_is_refused(option):
  result = _run('catch_actor_critic.py', f'{option}=0')
  assert result.returncode == 2
  assert f'{option} must be at least 1' in result.stderr
