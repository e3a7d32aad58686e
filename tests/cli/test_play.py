"""`disco-rl play`: episodes of trained agents."""

import io
import shutil

import numpy as np
import pytest

from disco_rl.cli import errors
from disco_rl.cli import live
from disco_rl.cli import main
from tests.support import runs


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """The folder of a short run on Catch, 5 by 4."""
  out = tmp_path_factory.mktemp('runs') / 'catch'
  assert runs.evaluate('--steps=4', '--num-seeds=2', f'--out={out}') == 0
  return out


def _play(*arguments):
  return main.main(['play', *map(str, arguments)])


def test_episodes_are_played_and_written(trained, tmp_path, capsys):
  image_lib = pytest.importorskip('PIL.Image')
  out = tmp_path / 'x.gif'
  assert _play(trained, '--episodes=3', '--agent=1', f'--out={out}') == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0].split() == ['episode', 'steps', 'return']
  returns = [float(line.split()[2]) for line in lines[2:5]]
  assert [line.split()[1] for line in lines[2:5]] == ['4'] * 3
  assert lines[5] == f'mean return: {np.mean(returns):.3f}'
  assert lines[6] == f'animation: {out}'
  with image_lib.open(out) as image:
    assert image.n_frames == 3 * 5
  assert _play(trained, f'--out={out}') == 2
  assert 'replace it with --overwrite' in capsys.readouterr().err


def test_an_agent_without_its_run_plays_the_same(trained, capsys):
  assert _play(trained, '--episodes=2') == 0
  expected = capsys.readouterr().out
  settings = [x for x in runs.TINY if 'env.' in x or 'dense' in x]
  command = ['--rule=actor_critic', '--env=catch', *settings, '--episodes=2']
  assert _play(f'--params={trained}/params_0.npz', *command) == 0
  assert capsys.readouterr().out == expected
  assert _play('--params=none.npz', *command) == 2
  assert 'there is no file none.npz' in capsys.readouterr().err
  command.remove(next(x for x in settings if 'dense' in x))
  assert _play(f'--params={trained}/params_0.npz', *command) == 2
  assert 'Was it made with other settings?' in capsys.readouterr().err


def test_boards_are_drawn_one_after_another_in_a_pipe(trained, capsys):
  assert _play(trained, '--live', '--episodes=1') == 0
  out = capsys.readouterr().out
  assert '\x1b' not in out
  boards, _, _ = out.partition('return')
  assert boards.count('\n\n') == 4  # Between five boards.
  lines = [line for line in boards.splitlines() if line]
  assert len(lines) == 25 and {len(line) for line in lines} == {2 * 4 - 1}


class _Terminal(io.StringIO):
  encoding = 'ascii'

  def isatty(self):
    return True


def test_boards_are_animated_in_ascii_on_a_narrow_terminal(monkeypatch):
  monkeypatch.setenv('TERM', 'xterm')
  monkeypatch.setattr(live.time, 'sleep', lambda seconds: None)
  board = np.zeros((3, 12, 3), np.uint8)
  board[0, 0] = 255
  shown = {}
  for columns in (80, 20):
    monkeypatch.setenv('COLUMNS', str(columns))
    terminal = _Terminal()
    screen = live.Screen(terminal)
    screen.show(board)
    screen.show(board)
    shown[columns] = terminal.getvalue()
    assert shown[columns].isascii()
    first, second = shown[columns].split('\x1b[3A')  # Three lines up.
    assert first == second
    assert all(len(line) <= columns for line in first.splitlines())
  assert shown[80].startswith('# . . .') and shown[20].startswith('#...')
  monkeypatch.setenv('COLUMNS', '11')
  with pytest.raises(errors.UsageError, match='fit in the 11 columns'):
    screen.show(board)
  with pytest.raises(
    errors.UsageError, match='has 60 by 3: write it to a file'
  ):
    screen.show(np.zeros((60, 3, 3), np.uint8))


def test_wrong_requests_are_refused(trained, tmp_path, capsys):
  (tmp_path / 'folder.gif').mkdir()
  for arguments, message in (
    ([tmp_path], 'holds no run'),
    ([tmp_path / 'none'], 'holds no run'),
    ([], '--rule and --env and --params are missing'),
    (['--rule=ppo', '--env=catch'], '--params is missing'),
    ([trained, '--env=catch'], '--env is for agents without a run'),
    ([trained, '--out=x.avi'], 'must end in .gif or .mp4'),
    ([trained, f'--out={tmp_path}/folder.gif'], 'it is a folder'),
    ([trained, '--episodes=0'], '--episodes must be'),
    ([trained, '--seed=-1'], '--seed must be'),
    ([trained, '--agent=7'], 'has the seeds [0, 1], not 7'),
    ([trained, '--fps=3'], '--fps needs --out or --live'),
    ([trained, '--max-steps=0'], 'max_steps must be'),
  ):
    assert _play(*arguments) == 2, arguments
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count('\n') == 1
    assert not captured.out
  unfinished = shutil.copytree(trained, tmp_path / 'unfinished')
  for path in (*unfinished.glob('params_*'), unfinished / 'state.npz'):
    path.unlink()
  assert _play(unfinished) == 2
  assert 'neither final parameters nor a checkpoint' in capsys.readouterr().err
