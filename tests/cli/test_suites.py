"""The presets of the published evaluations, in their environments."""

import pytest

from disco_rl import memory
from disco_rl.cli import main
from tests.support import environments


@pytest.mark.parametrize(
  'env', ['atari:Pong', 'procgen:coinrun', 'crafter:reward', 'nethack:Score']
)
def test_a_dry_run_says_what_this_machine_cannot_hold(env, monkeypatch, capsys):
  name = env.partition(':')[0]
  environments.skip_without(name)
  monkeypatch.setattr(memory, 'available', lambda *_: 4 * 10**9)
  words = ['eval', '--rule=actor_critic', f'--preset={name}', f'--env={env}']
  assert main.main([*words, '--steps=1000000', '--dry-run']) == 2
  error = capsys.readouterr().err
  assert 'this run needs ' in error and '(replay ' in error, error
  assert 'but this machine has 4' in error
