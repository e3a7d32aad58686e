"""Every benchmark runs, and measures what it says."""

import json

import pytest

from benchmarks import environments
from benchmarks import learner_step
from benchmarks import long_run
from benchmarks import meta_update
from benchmarks import training_iteration
from benchmarks import units


def test_reports_are_tables_and_json(tmp_path, capsys):
  results = [dict(units=1.25, milliseconds=200.0)]
  units.report(results, str(tmp_path / 'x.json'))
  assert json.loads((tmp_path / 'x.json').read_text()) == results
  assert '1.25 | 200' in capsys.readouterr().out


@pytest.mark.slow
def test_learner_step():
  results = learner_step.benchmark(rule=None, num_actions=3, num_rounds=3)
  assert [result['way'] for result in results] == ['summary', 'whole', 'client']
  for result in results:
    assert result['units'] > 0 and result['temporaries_mb'] < 500


@pytest.mark.slow
def test_training_iteration():
  result = training_iteration.benchmark(rule=None, chunk=16, num_chunks=1)
  assert result['units'] > 0 and result['milliseconds'] > 0


@pytest.mark.slow
def test_meta_update():
  (result,) = meta_update.benchmark(1, 1, ['default'], num_rounds=1)
  assert result['units'] > 0 and result['compile_seconds'] > 0


@pytest.mark.slow
def test_long_run():
  sizes = ['batching.batch_size=4', 'batching.num_envs=2', 'chunk_size=2']
  result = long_run.benchmark('catch', 'actor_critic', 20, sizes)
  assert len(result['resident_mb']) == 10 and min(result['resident_mb']) > 0
  assert result['checkpoint_percent'] > 0 and result['checkpoint_mb'] > 0


@pytest.mark.slow
def test_environments():
  rows = environments.benchmark_steps('catch', 2, 5)
  rows += environments.benchmark_steps('gym:CartPole-v1', 2, 5)
  assert [row['workers'] for row in rows] == [0, 0, 2]
  assert all(row['steps_per_second'] > 0 for row in rows)
  rows = environments.benchmark_overlap(
    'catch_numpy', 'actor_critic', 3, batch_size=4, num_envs=2
  )
  assert [row['overlap'] for row in rows] == [False, True]
  assert all(row['iterations_per_second'] > 0 for row in rows)
