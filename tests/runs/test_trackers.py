"""Trackers by name, and what they get at the end."""

import sys

import numpy as np
import pytest

import disco_rl
from disco_rl.runs import trackers


class Own(trackers.Tracker):
  """A tracker that ignores everything."""


def test_own_trackers_by_name_or_as_they_are():
  disco_rl.register_tracker('own', Own)
  assert trackers.find(['own']) == (trackers.Chosen('own', Own),)
  assert trackers.find([Own]) == (trackers.Chosen('Own', Own),)
  assert trackers.find([], has_folder=False) == ()


@pytest.mark.parametrize(
  ('names', 'message'),
  [
    (['tensorbord'], r'unknown tracker .* \(did you mean tensorboard\?\)'),
    ([7], 'unknown tracker 7'),
    ([Own, Own], 'the tracker Own is given twice'),
    ('tensorboard', 'track must be a list of trackers'),
    (None, 'track must be a list of trackers'),
  ],
)
def test_wrong_names_are_refused(names, message):
  with pytest.raises(ValueError, match=message):
    trackers.find(names)


def test_a_tracker_needs_a_folder():
  with pytest.raises(ValueError, match='need the folder of the run'):
    trackers.find([Own], has_folder=False)


@pytest.mark.parametrize('name', ['tensorboard', 'wandb'])
def test_built_in_trackers_cannot_be_replaced(name):
  with pytest.raises(ValueError, match='cannot be registered'):
    disco_rl.register_tracker(name, Own)
  with pytest.raises(ValueError, match='needs a class of trackers'):
    disco_rl.register_tracker('own', 'Own')


@pytest.mark.parametrize(
  ('name', 'package'), [('tensorboard', 'tensorboardX'), ('wandb', 'wandb')]
)
def test_a_missing_package_is_named_with_its_extra(name, package, monkeypatch):
  monkeypatch.setitem(sys.modules, package, None)
  with pytest.raises(ValueError, match=rf'needs the package {package}: pip .*'):
    trackers.find([name])


def test_the_final_table_has_the_last_row_of_every_seed(tmp_path):
  rows = [
    dict(iteration=i, seed=seed, env_steps=9 * i, episodes=1, average_return=i)
    for i in (1, 150, 200)
    for seed in (0, 3)
  ]
  (tmp_path / 'curve.png').write_bytes(b'')
  (tmp_path / 'other.png').write_bytes(b'')
  summary = trackers.summarize(tmp_path, rows)
  assert [path.name for path in summary.pictures] == ['curve.png']
  assert summary.columns == tuple(rows[0])
  # Returns are averages of the last 100 iterations.
  assert summary.table == ((200, 0, 1800, 1, 175), (200, 3, 1800, 1, 175))
  empty = trackers.summarize(tmp_path / 'none', [])
  assert empty == trackers.Summary((), (), ())
  assert not np.isnan(summary.table).any()
