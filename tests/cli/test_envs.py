"""`disco-rl envs`: what it lists."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from disco_rl.cli import main


@pytest.mark.parametrize(
  'words', [[], ['gymnax:*'], ['atari:Sk*'], ['nethack']]
)
def test_lines_fit_into_a_terminal(words, capsys):
  assert main.main(['envs', *words]) == 0
  out = capsys.readouterr().out
  assert out.isascii()
  table = out.partition('\n\n')[0].splitlines()
  assert max(map(len, table)) <= 80
  assert table[0].split() == [
    *('environment', 'observation', 'actions', 'where', 'extra')
  ]
  assert len(table) > 2


def test_json(capsys):
  assert main.main(['envs', 'gym:CartPole*', '--json']) == 0
  rows = json.loads(capsys.readouterr().out)
  row = {x['name']: x for x in rows}['gym:CartPole-v1']
  assert row['observation'] == '4 f32' and row['actions'] == '2'
  assert row['where'] == 'host' and row['extra'] == 'gym'
  assert row['is_installed'] is True


def test_what_is_not_installed_is_marked(monkeypatch, capsys):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  assert main.main(['envs', 'procgen:*']) == 0
  out = capsys.readouterr().out
  assert 'procgen*' in out and '* not installed: pip install -e' in out


def test_nothing_matches(capsys):
  assert main.main(['envs', 'no-such-thing']) == 2
  error = capsys.readouterr().err
  assert "no environment matches 'no-such-thing'" in error
  assert error.count('\n') == 1


@pytest.mark.slow
def test_a_reader_that_stops_reading():
  process = subprocess.Popen(
    [sys.executable, '-m', 'disco_rl.cli.main', 'envs'],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    env={**os.environ, 'PYTHONIOENCODING': 'ascii'},
  )
  process.stdout.readline()
  process.stdout.close()
  assert process.wait() == 0
  assert process.stderr.read() == b''
  process.stderr.close()
