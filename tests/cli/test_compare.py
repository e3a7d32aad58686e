"""`disco-rl compare`: pictures and tables of several runs."""

import json

from disco_rl.cli import compare_command
from disco_rl.cli import main
from disco_rl.cli import run_names
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from tests.support import runs


def _write_config(run, **config):
  config['format'] = run_folder.FORMAT
  (run / 'config.json').write_text(json.dumps(config))


def _write(path, returns, **more):
  rows = [
    dict(iteration=i, seed=0, **{**more, 'final_return': value})
    for i, value in returns.items()
  ]
  path.unlink(missing_ok=True)
  metrics.append_csv(path, rows)


def test_evaluations_are_compared(tmp_path, capsys):
  run, out = tmp_path / 'run', tmp_path / 'both.png'
  command = ['eval', '--rule=actor_critic', '--quiet', *runs.TINY, '--steps=8']
  assert main.main([*command, f'--out={run}']) == 0
  capsys.readouterr()
  arguments = ['compare', str(run), str(run), '--out', str(out)]
  assert main.main(arguments) == 0
  assert capsys.readouterr().out.count('actor_critic') == 2
  assert out.read_bytes()[:4] == b'\x89PNG'
  assert main.main(arguments) == 2
  assert 'replace it with --overwrite' in capsys.readouterr().err


def test_folders_without_a_run_are_refused(tmp_path, capsys):
  assert main.main(['compare', str(tmp_path)]) == 2
  assert 'holds no run' in capsys.readouterr().err
  _write_config(tmp_path, command='rules')
  assert main.main(['compare', str(tmp_path), '--out=x.png']) == 2
  assert 'is not a run of disco-rl eval' in capsys.readouterr().err
  _write_config(tmp_path, command='eval')
  assert main.main(['compare', str(tmp_path), '--out=x.png']) == 2
  assert 'has no metrics yet' in capsys.readouterr().err
  (tmp_path / 'config.json').write_text('{"format": 1}')
  assert main.main(['compare', str(tmp_path), '--out=x.png']) == 2
  assert 'has the format 1, and this version reads 3' in capsys.readouterr().err


def test_meta_training_runs_are_compared(tmp_path, capsys):
  """By environment; the table also has fresh agents and the baseline."""
  for n, name in enumerate(('one', 'other')):
    run = tmp_path / name
    run.mkdir()
    request = dict(env=['catch', 'gymnax:X'], eval_env=['catch'])
    _write_config(run, command='meta-train', init='random', request=request)
    columns = {'return/catch': n + 0.25, 'return/gymnax:X': 70.0}
    zeros = dict.fromkeys(range(1, 4), 0.0)
    _write(run / 'metrics.csv', zeros, **columns)
    _write(run / 'evaluations_catch.csv', {0: -0.5, 2: n + 0.75})
    _write(run / 'baseline_catch.csv', {0: 0.875})
  folders = [str(tmp_path / name) for name in ('one', 'other')]
  out = tmp_path / 'c.png'
  assert main.main(['compare', *folders, f'--out={out}']) == 0
  lines = capsys.readouterr().out.splitlines()
  shown = [line.split()[1:] for line in lines[2:6]]
  assert shown[0] == ('random catch 3 0.250 0.250 -0.500 0.750 0.875'.split())
  assert shown[1] == 'random gymnax:X 3 70.000 70.000 - - -'.split()
  assert shown[2][-2] == '1.750'
  assert out.read_bytes()[:4] == b'\x89PNG'

  mine = f'--out={tmp_path / "d.png"}'
  assert main.main(['compare', *folders, mine, '--column=return/catch']) == 0
  for arguments, message in [
    (['--column=x'], "no column 'x'"),
    (['--x=env_steps'], 'drawn over meta-updates'),
  ]:
    more = [*arguments, f'--out={tmp_path / "e.png"}']
    assert main.main(['compare', *folders, *more]) == 2
    assert message in capsys.readouterr().err
  request = dict(env='catch')
  _write_config(tmp_path / 'one', command='eval', rule='x', request=request)
  assert main.main(['compare', *folders, f'--out={tmp_path / "e.png"}']) == 2
  assert 'compare those of one command at a time' in capsys.readouterr().err


def test_returns_in_meta_training_are_averaged_by_episodes(tmp_path):
  rows = [
    {'return/a': 1.0, 'episodes/a': 3.0},
    {'return/a': -1.0, 'episodes/a': 1.0},
    {'return/a': float('nan'), 'episodes/a': 0.0},
  ]
  rows = [dict(row, iteration=10 * i) for i in range(10) for row in rows]
  run = run_names.Run(tmp_path, dict(init='x'), rows)
  *_, first, last, _, _, _ = compare_command._rule_line(
    run, 'a', 'return/a', [], float('nan')
  )
  assert first == last == '0.500'
  line = compare_command._rule_line(run, 'b', None, [], float('nan'))
  assert line[4:6] == ('-', '-')
