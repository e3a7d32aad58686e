"""Names of the files of a run, and what may not be in their places."""

import os

import pytest

from disco_rl.runs import run_files


def test_only_files_of_a_run_are_found(tmp_path):
  for name in ('state.npz', 'params_1.npz', 'notes.txt', 'metrics.csv'):
    (tmp_path / name).touch()
  (tmp_path / 'curve.png').symlink_to(tmp_path / 'nowhere')
  found = [path.name for path in run_files.find(tmp_path)]
  assert found == ['metrics.csv', 'curve.png', 'params_1.npz', 'state.npz']
  assert run_files.find(tmp_path / 'nowhere') == []


@pytest.mark.parametrize(
  ('name', 'make', 'kind'),
  [
    ('metrics.csv', lambda p: p.symlink_to('nowhere'), 'a broken symbolic'),
    ('best_rule.npz', lambda p: p.mkdir(), 'a folder'),
    ('evaluations_x.csv', os.mkfifo, 'a pipe'),
    ('.lock', lambda p: p.symlink_to('other'), 'a symbolic link'),
  ],
)
def test_what_is_no_file_is_named(tmp_path, name, make, kind):
  (tmp_path / 'other').touch()
  (tmp_path / 'state.npz').symlink_to('other')
  run_files.check(tmp_path)
  run_files.check(tmp_path / 'nowhere')
  make(tmp_path / name)
  with pytest.raises(ValueError, match=f'{name} is {kind}'):
    run_files.check(tmp_path)


def test_long_names_are_cut_and_remain_different(tmp_path):
  assert run_files.as_file_name('gym:a/b') == 'gym_a_b'
  for letter in 'xη':
    names = [run_files.as_file_name(letter * n) for n in (500, 501)]
    assert len(set(names)) == 2
    for name in names:
      (tmp_path / f'evaluations_{name}.csv').touch()
