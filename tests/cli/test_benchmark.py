"""`disco-rl benchmark`: from tuning to scores, and what it refuses."""

import json
import signal
import time

import numpy as np
import pytest

from disco_rl.benchmarking import benchmark
from disco_rl.benchmarking import suites
from disco_rl.cli import main
from disco_rl.rule_zoo import store
from disco_rl.runs import interrupts
from tests.support import runs


@pytest.fixture
def suite(monkeypatch):
  """The name of a suite of one tiny task."""
  one = suites.Suite(name='one', tasks=suites.get_suite('tiny').tasks[:1])
  monkeypatch.setitem(suites.SUITES, 'one', one)
  return 'one'


def _run(*words):
  return main.main(['benchmark', '--quiet', *map(str, words)])


def test_from_tuning_to_normalised_scores(suite, tmp_path, capsys, monkeypatch):
  of_suite = ('--suite', suite)
  tuning, anchors, out = (tmp_path / x for x in ('tuning', 'anchors', 'bench'))
  ppo = ('--rules', 'ppo', *of_suite)
  assert _run('--tune', *ppo, '--trials=2', '--seeds=1', '--out', tuning) == 0
  tuned = json.loads((tuning / 'tuned.json').read_text())
  found = tuned['rules']['ppo']
  assert len(found['trials']) == 2 and tuned['seeds'] == [1000]
  returns = [trial['returns'][0] for trial in found['trials']]
  own = found['tasks']['catch_3x3']
  assert own['score'] == max(returns)
  best = found['trials'][int(np.argmax(returns))]
  assert own['settings'] == found['one']['settings'] == best['settings']

  tuned_file = ('--tuned', tuning / 'tuned.json')
  assert (
    _run('--anchors', *ppo, *tuned_file, '--seeds=1', '--out', anchors) == 0
  )
  own = json.loads((anchors / 'anchors.json').read_text())['tasks']['catch_3x3']
  assert own['random_episodes'] == 256 and own['best_rule'] == 'ppo@tuned'
  assert own['best'] == own['returns']['ppo@tuned'][0]
  assert own['random'] == pytest.approx(-1 / 3, abs=0.25)

  # Ctrl-C before the first cell.
  capsys.readouterr()
  with monkeypatch.context() as patch:
    patch.setattr(interrupts, 'is_requested', lambda: True)
    arguments = ('--rules', 'ppo@tuned', 'ppo@one', *of_suite, *tuned_file)
    assert _run(*arguments, '--seeds=1', '--out', out) == 130
  shown = capsys.readouterr().out
  assert f'Saved. Go on with: disco-rl benchmark --resume {out}' in shown
  assert not (out / 'table.md').exists()
  anchors_file = ('--anchors-file', anchors / 'anchors.json')
  assert _run('--resume', out, '--rules', 'ppo', *anchors_file) == 0
  shown = capsys.readouterr().out
  assert 'suite one: 3 cells, 1 finished' in shown
  assert '| catch_3x3 | 12 | 288 |' in shown
  if own['is_told_apart']:
    assert '| rule | interquartile mean | mean |' in shown
  else:
    assert 'cannot be told apart' in shown
  scores = (out / 'scores.csv').read_text().splitlines()
  assert [line.split(',')[0] for line in scores] == [
    *('rule', 'ppo@tuned', 'ppo@one', 'ppo')
  ]
  config = json.loads(
    (out / 'cells/ppo@tuned-catch_3x3/config.json').read_text()
  )
  agent = config['settings']['agent']
  assert agent['learning_rate'] == best['settings']['agent.learning_rate']
  assert agent['net_settings']['net_args']['dense'] == [8]
  assert _run('--resume', out) == 0  # Nothing is left to be done.
  assert 'suite one: 3 cells, 3 finished' in capsys.readouterr().out


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    ((), '--out DIR is missing'),
    (('--out=x',), '--rules is missing'),
    (('--rules', 'ppo', '--out=x', '--suite=no'), "unknown suite 'no'"),
    (('--rules', 'pp', '--out=x', '--suite=tiny'), "unknown rule 'pp'"),
    (('--rules', 'ppo', 'ppo', '--out=x'), 'ppo is given twice'),
    (
      ('--rules', 'ppo', '--out=x', '--suite=tiny', '--seeds=0'),
      'seeds (--seeds) must be a whole number of at least 1',
    ),
    (
      ('--rules', 'ppo@tuned', '--out=x', '--suite=tiny'),
      'ppo@tuned needs tuned settings of ppo for the suite tiny',
    ),
    (
      ('--rules', 'ppo', '--out=x', '--suite=tiny', '--tuned=nowhere'),
      'cannot read tuned from nowhere',
    ),
    (
      ('--anchors', '--rules', 'ppo', '--out=x', '--suite=tiny'),
      'ppo@tuned needs tuned settings',
    ),
    (('--tune', '--anchors', '--out=x'), '--tune and --anchors: give one'),
    (
      ('--tune', '--rules', 'ppo', '--out=x', '--suite=tiny', '--trials=0'),
      'trials must be a whole number of at least 1',
    ),
    (('--rules', 'ppo', '--out=x', '--trials=3'), '--trials has no effect'),
    (('--resume=nowhere',), 'nowhere holds no benchmark'),
    (('--resume=nowhere', '--seeds=3'), '--seeds cannot be changed with'),
    (('--rules', 'random:a', '--out=x', '--suite=tiny'), 'random:SEED'),
    (('--use=no_such_module', '--out=x'), 'no_such_module'),
    (('--rules', 'ppo', '--out=taken', '--suite=tiny'), 'not an empty folder'),
  ],
)
def test_bad_input_is_refused_and_nothing_written(
  tmp_path, monkeypatch, capsys, words, message
):
  (tmp_path / 'taken').mkdir()
  (tmp_path / 'taken' / 'file').touch()
  monkeypatch.chdir(tmp_path)
  assert _run(*words) == 2
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
  assert runs.contents(tmp_path) == {'taken': None}


def test_rules_that_are_not_here_are_left_out(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(store, 'find', lambda name: None)
  monkeypatch.chdir(tmp_path)
  assert _run('--rules', 'disco_103', '--out=x', '--suite=tiny') == 2
  error = capsys.readouterr().err
  assert 'no rule is left (--rules): disco_103 is left out: the file' in error
  assert not (tmp_path / 'x').exists()


def test_others_go_on_without_them(tmp_path, monkeypatch):
  find = store.find
  monkeypatch.setattr(
    store, 'find', lambda x: None if x == 'disco_103' else find(x)
  )
  names = ['disco_103', 'random:0:disco_103', 'ppo']
  job = benchmark.Job(names, 'tiny', out=tmp_path / 'x', seeds=1)
  assert [note.split()[0] for note in job.notes] == names[:2]
  assert {rule for rule, _ in job.cells} == {'ppo'}


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_a_real_process_goes_on_after_a_signal(tmp_path, number):
  arguments = ('--rules', 'ppo', 'actor_critic', '--suite=tiny', '--seeds=2')
  out, whole = tmp_path / 'out', tmp_path / 'whole'
  process = runs.start('benchmark', *arguments, f'--out={out}')
  for _ in range(6000):
    if list(out.glob('cells/*/params_1.npz')):
      break
    assert process.poll() is None, process.communicate()
    time.sleep(0.05)
  process.send_signal(number)
  process.communicate()
  is_killed = number == signal.SIGKILL
  assert process.returncode == (-number if is_killed else 130)
  assert not (out / 'table.md').exists()
  code, _, error = runs.finish('benchmark', f'--resume={out}')
  assert code == 0, error
  assert runs.finish('benchmark', *arguments, f'--out={whole}')[0] == 0
  names = ('scores.csv', 'table.md')
  assert [(out / name).read_text() for name in names] == [
    (whole / name).read_text() for name in names
  ]
