"""Runs that do not fit into memory are refused before anything is allocated."""

import json
import re
import resource

import pytest

from disco_rl import memory
from disco_rl.cli import main
from tests.support import runs

EVAL = ['eval', '--rule=actor_critic']
META = ['meta-train']


@pytest.mark.slow
@pytest.mark.parametrize(
  ('words', 'part'),
  [
    ([*EVAL, '--num-seeds=4000', '--set=batching.batch_size=512'], 'replay'),
    ([*EVAL, '--set=batching.rollout_length=1000000'], 'replay'),
    ([*EVAL, '--set=batching.replay_capacity=2000000000'], 'replay'),
    (
      [*EVAL, '--set=agent.net_settings.net_args.dense=(65536, 65536, 65536)'],
      'agents',
    ),
    ([*EVAL, '--set=env.rows=1024', '--set=env.columns=1024'], 'replay'),
    (
      [*EVAL, '--set=batching.batch_size=1000000', '--steps=1000000']
      + ['--set=batching.num_envs=1000000']
      + ['--set=agent.net_settings.net_args.dense=(4096,)'],
      'a step',
    ),
    (
      [*EVAL, '--set=batching.batch_size=16000', '--env=catch_numpy']
      + ['--set=batching.num_envs=16000', '--set=batching.rollout_length=1000']
      + ['--set=agent.net_settings.net_args.dense=(4096,)'],
      'a step',
    ),
    ([*META, '--num-agents=4096', '--set=env.catch.rows=200'], 'agents'),
    (
      [*META, '--set=meta.num_inner_updates=10000']
      + ['--set=batching.batch_size=2000', '--set=batching.num_envs=2000'],
      'a meta-update',
    ),
  ],
)
def test_runs_that_do_not_fit_are_refused(
  words, part, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  assert main.main([*words, '--quiet']) == 2
  error = capsys.readouterr().err
  assert 'this run needs ' in error and f'({part} ' in error, error
  assert 'but this machine has ' in error and 'free: lower ' in error
  assert not list(tmp_path.iterdir())
  after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  assert after - before < 1 << 21  # In KiB.


@pytest.mark.parametrize(
  ('words', 'free', 'message'),
  [
    ([*EVAL, *runs.TINY], 10**5, r'this run needs .*a step'),
    (
      [*EVAL, *runs.TINY, '--env=catch_numpy'],
      10**5,
      'this run needs .*a step',
    ),
    (META, 10**8, 'this run needs .*a meta-update'),
    (
      [*META, '--eval-every=1', '--set=eval.num_seeds=100'],
      10**9,
      'an evaluation of the rule in catch.*agents',
    ),
  ],
)
def test_a_dry_run_refuses_what_a_run_would(
  words, free, message, tmp_path, monkeypatch, capsys
):
  """The state alone would fit, and so would the observations."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(memory, 'available', lambda: free)
  assert main.main([*words, '--dry-run']) == 2
  printed = capsys.readouterr()
  assert re.search(message, printed.err), printed.err
  assert json.loads(printed.out)['settings']  # Shown nevertheless.
  assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_runs_that_fit_are_not_refused(tmp_path):
  assert runs.evaluate('--steps=8', f'--out={tmp_path / "x"}') == 0
