"""`disco-rl conformance`: its results, exit codes and files."""

import json
import shutil

import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.conformance import file_set


@pytest.fixture
def answers(tmp_path):
  """A folder with the expected outputs of all cases."""
  folder = tmp_path / 'answers'
  for name in file_set.names():
    (folder / name).mkdir(parents=True)
    shutil.copy(
      file_set.FOLDER / name / 'expected.npz', folder / name / 'outputs.npz'
    )
  return folder


def _run(capsys, *words):
  code = main.main(['conformance', *map(str, words)])
  captured = capsys.readouterr()
  return code, captured.out, captured.err


def _replace(folder, case, **changes):
  path = folder / case / 'outputs.npz'
  np.savez(path, **{**file_set.load(case).expected, **changes})


def test_all_is_well(answers, capsys):
  code, out, err = _run(capsys, answers)
  assert code == 0 and not err
  assert f'\n{len(file_set.names())} ok (version' in out
  assert 'departs' not in out and 'missing' not in out


def test_the_first_departure_is_named_with_its_mistake(answers, capsys):
  wrong = file_set.load('target_average').mistakes['other_way_round']
  _replace(answers, 'target_average', **wrong)
  shutil.rmtree(answers / 'learner_steps')
  code, out, _ = _run(capsys, answers)
  assert code == 1
  assert 'first that departs: target_average: target[0]: expected ' in out
  assert 'looks like: the target averaged the wrong way round' in out
  assert 'first that is missing: learner_steps: no outputs' in out
  code, out, _ = _run(capsys, answers, '--cases', 'retrace, adam')
  assert code == 0 and '2 ok' in out
  code, out, _ = _run(capsys, answers, '--cases', 'learner_steps')
  assert code == 1 and '1 missing' in out


def test_outputs_as_lists(answers, capsys):
  shutil.rmtree(answers / 'adam')
  (answers / 'adam').mkdir()
  lists = {k: x.tolist() for k, x in file_set.load('adam').expected.items()}
  (answers / 'adam' / 'outputs.json').write_text(json.dumps(lists))
  assert _run(capsys, answers, '--cases=adam')[0] == 0


def test_cases_are_written_to_a_new_folder(tmp_path, capsys):
  folder = tmp_path / 'new' / 'cases'
  code, out, _ = _run(capsys, '--write', folder)
  assert code == 0 and f'version {file_set.VERSION}' in out
  for path in file_set.FOLDER.rglob('*'):
    if path.is_file():
      copy = folder / path.relative_to(file_set.FOLDER)
      assert copy.read_bytes() == path.read_bytes()
  code, _, err = _run(capsys, '--write', folder)
  assert code == 2 and 'exists already' in err
  code, _, err = _run(capsys, '--write', folder / 'index.json' / 'x')
  assert code == 2 and err.count('\n') == 1


def test_self_test(capsys):
  code, out, _ = _run(capsys, '--self-test', '--cases=two_hot,retrace,adam')
  assert code == 0 and '3 ok' in out


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    ((), 'one of three is needed'),
    (('{0}', '--self-test'), 'one of three is needed'),
    (('--write={0}/x', '--cases=adam'), 'writes all cases'),
    (('{0}/nowhere',), 'is not a folder'),
    (('{0}',), 'has no folder with the name of a case'),
    (('{0}/answers', '--cases=adm'), "unknown case 'adm' (did you mean adam?)"),
    (('{0}/answers', '--cases=,'), 'no case is named'),
  ],
)
def test_bad_requests_are_one_sentence(
  answers, tmp_path, capsys, words, message
):
  filled = [word.format(tmp_path) for word in words]
  code, out, err = _run(capsys, *filled)
  assert code == 2 and message in err and err.count('\n') == 1 and not out


def test_bad_files_are_one_sentence_before_anything_is_said(answers, capsys):
  path = answers / 'meta_gradient' / 'outputs.npz'
  path.write_bytes(path.read_bytes()[:1000])
  code, out, err = _run(capsys, answers)
  assert code == 2 and not out
  assert str(path) in err and err.count('\n') == 1


def test_folders_that_are_no_cases_are_named(answers, capsys):
  (answers / 'retrce').mkdir()
  code, _, err = _run(capsys, answers)
  assert code == 0 and err == 'retrce is not a case (did you mean retrace?)\n'
