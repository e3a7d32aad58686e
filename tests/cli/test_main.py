"""`disco-rl`: its commands, their help and their exit codes."""

import os
import subprocess
import sys

import jax
import pytest

from disco_rl.cli import errors
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


def test_help_of_a_command_starts_no_devices(monkeypatch):
  monkeypatch.setattr(jax, 'devices', lambda: pytest.fail('devices'))
  for command in ('eval', 'meta-train'):
    for words in (['--help'], ['--steps=x'], ['--no-such']):
      with pytest.raises(SystemExit):
        main.main([command, *words])


def test_a_traceback_is_shown_on_request(tmp_path, capsys):
  arguments = ['compare', str(tmp_path / 'nowhere')]
  assert main.main(arguments) == 2
  sentence = capsys.readouterr().err
  assert sentence.startswith('disco-rl compare: error: ')
  assert sentence.count('\n') == 1
  assert main.main([*arguments, '--traceback']) == 2
  shown = capsys.readouterr().err
  assert 'Traceback (most recent call last)' in shown
  assert 'RunFolderError' in shown and shown.endswith(sentence)


def test_names_in_messages_are_cut_and_obeyed_by_no_terminal(capsys):
  words = ['eval', '--rule=actor_critic', '--dry-run']
  for name in ('gym:\x1b[31mred', 'gym:a\nb', 'gym:' + 'x' * 9000):
    assert main.main([*words, f'--env={name}']) == 2
    error = capsys.readouterr().err
    assert error.endswith('\n') and error[:-1].isprintable(), error
    assert len(error) < 2100
  with pytest.raises(SystemExit):
    main.main(['eval', '--\x1b[31mred'])
  assert '\x1b' not in capsys.readouterr().err


class _ForeignError(RuntimeError):
  is_user_facing = True


@pytest.mark.parametrize(
  ('error', 'message'),
  [
    (ValueError('a number'), 'a number'),
    (PermissionError(13, 'Permission denied', 'x.npz'), 'permission denied'),
    (_ForeignError('the environment'), 'the environment'),
  ],
)
def test_user_errors_are_one_sentence(error, message):
  with pytest.raises(errors.UsageError, match=message) as caught:
    with errors.as_usage_errors():
      raise error
  assert 'Errno' not in str(caught.value) and caught.value.__cause__ is error


def test_internal_errors_have_a_traceback():
  with pytest.raises(KeyError), errors.as_usage_errors():
    raise KeyError('x')


@pytest.mark.parametrize('name', ['jax_enable_x64', 'jax_debug_nans'])
def test_settings_of_jax_in_which_runs_fail(name, tmp_path, capsys):
  before = getattr(jax.config, name)
  jax.config.update(name, True)
  try:
    code = main.main(['eval', '--rule=actor_critic', f'--out={tmp_path / "x"}'])
  finally:
    jax.config.update(name, before)
  assert code == 2 and f'the variable {name.upper()}' in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


def test_devices_are_simulated_on_cpu():
  variables = {k: x for k, x in os.environ.items() if k != 'XLA_FLAGS'}
  variables.pop('JAX_NUM_CPU_DEVICES', None)
  words = ['meta-train', '--devices=2', '--dry-run']
  run = lambda *more, **changes: subprocess.run(
    [sys.executable, '-m', 'disco_rl.cli.main', *words, *more],
    env={**variables, **changes},
    capture_output=True,
    text=True,
  )
  result = run()
  assert result.returncode == 0, result.stderr
  # A dry run counts on more than there are of use.
  more = ('--num-agents=64', '--flops=1e12')
  words[1] = '--devices=64'
  result = run(*more)
  assert '64 agents on 64 devices, each with' in result.stderr, result.stderr
  words[1] = '--devices=2'
  result = run(JAX_NUM_CPU_DEVICES='1')
  assert result.returncode == 2
  assert 'devices must be between 1 and 1, got 2' in result.stderr


@pytest.mark.parametrize(
  ('variable', 'value', 'words', 'kind'),
  [
    ('JAX_PLATFORMS', 'nonsense', ['eval', '--dry-run'], 'RuntimeError'),
    ('JAX_ENABLE_X64', 'nonsense', ['rules'], 'ValueError'),
  ],
)
def test_jax_that_cannot_start_is_one_sentence(variable, value, words, kind):
  result = subprocess.run(
    [sys.executable, '-m', 'disco_rl.cli.main', *words],
    env={**os.environ, variable: value},
    capture_output=True,
    text=True,
  )
  assert result.returncode == 2 and 'Traceback' not in result.stderr
  assert f'JAX cannot start ({kind}: ' in result.stderr


def test_packages_that_cannot_be_imported_are_one_sentence():
  result = subprocess.run(
    [sys.executable, '-W', 'error', '-m', 'disco_rl.cli.main', 'rules'],
    capture_output=True,
    check=False,
    text=True,
  )
  assert result.returncode == 2
  assert 'a package that disco_rl needs cannot be imported' in result.stderr
  assert 'DeprecationWarning' in result.stderr
  assert 'Traceback' not in result.stderr


def test_too_little_address_space_to_start():
  command = f'ulimit -v 800000; {sys.executable} -m disco_rl.cli.main rules'
  result = subprocess.run(
    ['bash', '-c', command], capture_output=True, check=False, text=True
  )
  assert result.returncode == 2, result.stderr
  assert 'limited to 819 MB (ulimit -v)' in result.stderr
