"""`disco-rl inspect`: reports of real runs, and errors."""

import csv
import shutil

import jax
import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.inspection import sections
from disco_rl.inspection import subject as subject_lib
from tests.support import measured_page
from tests.support import small_rule


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('inspect')


@pytest.fixture(scope='module')
def report(folder):
  """The report of an agent that is trained first, with its life."""
  rule = small_rule.save(folder / 'small.npz')
  command = ['inspect', f'--rule={rule}', '--env=catch', '--steps=4', '--quiet']
  command.append(f'--out={folder / "report"}')
  assert main.main([*command, *small_rule.OPTIONS]) == 0
  return folder / 'report'


def _lines(path):
  with path.open(encoding='utf-8') as file:
    return list(csv.DictReader(file))


def test_a_report_has_pictures_and_numbers(report):
  pictures = {path.stem for path in report.glob('*.png')}
  assert pictures == {
    *('probes', 'probes_compressed', 'episode', 'bootstrapping'),
    *('bootstrapping_ends', 'influence', 'influence_untrained', 'directions'),
    *('effective_step', 'ages', 'lifelong_state'),
  }
  scores = _lines(report / 'probes.csv')
  assert {line['source'] for line in scores} >= {'y', 'z₈', 'observation'}
  for line in scores:
    assert float(line['score']) <= 1 or line['score'] == 'nan'
  effects = _lines(report / 'bootstrapping.csv')
  assert {line['rule'] for line in effects} == {
    *('small', 'untrained', 'actor_critic')
  }
  assert all(
    float(line['effect']) == 0
    for line in effects
    if line['ends'] == 'cut' and int(line['steps_before']) >= 3
  )
  ages = [int(line['iteration']) for line in _lines(report / 'ages.csv')]
  assert ages == [0, 1, 2, 3, 4]
  text = (report / 'report.html').read_text(encoding='utf-8')
  assert text.count('<figure') == len(pictures)
  assert 'were not trained (--learning-steps)' in text
  assert 'http://' not in text.replace('http://www.w3.org', '')


def test_a_report_opens_in_a_browser(report, tmp_path):
  page = report / 'report.html'
  assert measured_page.errors_of(page) == []
  widths = measured_page.widths_of_pictures(page, tmp_path)
  assert len(widths) == 11
  assert all(own > 0 and shown > 100 for own, shown in widths), widths


def test_the_agent_of_a_report_can_be_inspected_again(report, folder, capsys):
  command = ['inspect', f'--run={report / "run"}', '--analyses']
  names = ['influence', 'life']
  again = folder / 'again'
  assert main.main([*command, *names, f'--out={again}', '--at=2']) == 0
  assert f'report: {again / "report.html"}' in capsys.readouterr().out
  assert 'after 2 of 4 iterations' in (again / 'report.html').read_text()
  assert not (again / 'probes.png').exists()
  # Its life is that of the first report.
  assert _lines(again / 'ages.csv') == _lines(report / 'ages.csv')
  subject = subject_lib.of_run(report / 'run')
  jax.tree.map(
    np.testing.assert_array_equal,
    subject.life.learner(-1).params,
    subject.learner.params,
  )


def test_a_run_of_a_hand_designed_rule(folder, capsys):
  run = folder / 'baseline'
  command = ['eval', '--rule=actor_critic', '--steps=2', '--quiet']
  options = [x for x in small_rule.OPTIONS if 'model_kwargs' not in x]
  assert main.main([*command, *options, f'--out={run}']) == 0
  out = folder / 'of_baseline'
  assert main.main(['inspect', f'--run={run}', f'--out={out}', '--quiet']) == 0
  text = (out / 'report.html').read_text(encoding='utf-8')
  for reason in (
    'its loss is a known algorithm',
    'no record of its life',
    'were not trained (--learning-steps)',
  ):
    assert reason in text
  effects = _lines(out / 'bootstrapping.csv')
  assert {line['rule'] for line in effects} == {'actor_critic'}
  capsys.readouterr()
  command = ['inspect', f'--run={run}', '--at=1', f'--out={out}2']
  assert main.main(command) == 2
  assert 'no record of its life' in capsys.readouterr().err


def _error(capsys, *command):
  assert main.main(['inspect', *map(str, command)]) == 2
  error = capsys.readouterr().err.strip()
  assert error.count('\n') == 0 and error.startswith('disco-rl inspect: error:')
  return error


def test_what_cannot_be_inspected(report, folder, tmp_path, capsys):
  out = f'--out={tmp_path / "new"}'
  run = report / 'run'
  rule = small_rule.save(tmp_path / 'larger.npz', prediction_size=8)
  empty = shutil.copytree(run, tmp_path / 'without_params')
  for file in ('params_0.npz', 'state.npz'):
    (empty / file).unlink()
  stateless = shutil.copytree(run, tmp_path / 'without_state')
  (stateless / 'state.npz').unlink()
  for match, *command in (
    ('--out DIR is missing', '--env=catch'),
    ('give --run DIR', out),
    ('neither final parameters nor a checkpoint', f'--run={empty}', out),
    ('holds no checkpoint of one process', f'--run={stateless}', out),
    ('larger', f'--run={run}', f'--rule={rule}', out),
    ('of the kind ppo', f'--run={run}', '--rule=ppo', out),
    (
      'observations of catch_numpy have the shape',
      f'--run={run}',
      '--env=catch_numpy',
      out,
    ),
    ('has the seeds', f'--run={run}', '--seed=3', out),
    ('--steps is for training', f'--run={run}', '--steps=3', out),
    ('unknown analysis', f'--run={run}', '--analyses', 'probe', out),
    ('is not empty', f'--run={run}', f'--out={report}'),
    ('holds no run', f'--run={tmp_path}', out),
    ('unknown environment', '--env=catc', out),
    ('learning-steps', f'--run={run}', '--learning-steps=-1', out),
  ):
    error = _error(capsys, *command)
    assert match in error, (match, error)
    assert not (tmp_path / 'new').exists()


def test_analyses_are_documented():
  assert list(sections.ANALYSES) == [
    *('probes', 'episode', 'bootstrapping', 'influence', 'known', 'life'),
    'learning',
  ]
