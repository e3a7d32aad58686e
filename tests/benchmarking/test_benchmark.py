"""Benchmarks end to end: what they write, and how they go on after faults."""

import csv

import numpy as np
import pytest

import disco_rl
from disco_rl.benchmarking import campaign
from disco_rl.benchmarking import cells
from disco_rl.benchmarking import rows as rows_lib
from disco_rl.benchmarking import suites
from disco_rl.evaluation import training
from disco_rl.runs import metrics

RULES = ['actor_critic', 'ppo']
CHUNKS = 3  # Of each cell.


def _advances(monkeypatch, change=lambda n, training, result: result):
  """Counts the chunks that are trained; `change` replaces their results."""
  counted = []
  advance = training.Training.advance

  def count(self, state, total):
    result = advance(self, state, total)
    counted.append(self.population.seeds)
    return change(len(counted), self, result)

  monkeypatch.setattr(training.Training, 'advance', count)
  return counted


@pytest.fixture(scope='module')
def killed(tmp_path_factory):
  """A benchmark that is killed in its second cell; and after it went on."""
  out = tmp_path_factory.mktemp('benchmark') / 'killed'

  def kill(n, _, result):
    if n == CHUNKS + 2:  # In the second cell, after its first checkpoint.
      raise SystemExit
    return result

  with pytest.MonkeyPatch.context() as monkeypatch:
    _advances(monkeypatch, kill)
    with pytest.raises(SystemExit):
      disco_rl.benchmark(RULES, 'tiny', out=out, seeds=2)
  first = out / 'cells' / f'{RULES[0]}-catch_3x3'
  before = {path: path.stat().st_mtime_ns for path in first.iterdir()}
  with pytest.MonkeyPatch.context() as monkeypatch:
    counted = _advances(monkeypatch)
    result = disco_rl.benchmark(RULES, 'tiny', out=out, seeds=2, resume=True)
  return out, before, counted, result


def test_finished_cells_are_skipped_and_others_resumed(killed):
  _, before, counted, _ = killed
  assert before
  for path, time in before.items():
    assert path.stat().st_mtime_ns == time, path
  # All chunks of four cells, but those of the first and one of the second.
  assert len(counted) == 4 * CHUNKS - CHUNKS - 1
  assert set(counted) == {(0, 1)}  # Both seeds in one program.


def test_a_resumed_cell_is_that_of_an_undisturbed_run(killed):
  out, _, _, _ = killed
  task = suites.get_suite('tiny').tasks[1]
  rule = rows_lib.load(RULES[0])
  cell = cells.Cell(f'{RULES[0]}-{task.name}', rule, task, (0, 1), task.steps)
  with cell.plan().start(None, show_progress=False) as run:
    run.execute()
  written = (out / 'cells' / cell.file_name / 'metrics.csv').read_text()
  assert metrics.to_csv(run.rows) == written


def test_tables_and_pictures(killed):
  out, _, _, result = killed
  names = {path.name for path in out.iterdir()}
  assert names == {'cells', 'curves.png', 'scores.csv', 'spec.json', 'table.md'}
  lines = list(csv.DictReader((out / 'scores.csv').read_text().splitlines()))
  assert len(lines) == 2 * 2 * 2
  for line in lines:
    k = ('catch_3x3', 'catch_4x3').index(line['task'])
    own = result.returns(line['rule'])[k, int(line['seed'])]
    assert float(line['return']) == own and line['score'] == ''
    assert line['env_steps'] == str(12 * 4 * 6)
  table = (out / 'table.md').read_text()
  assert table == result.table()
  mean = result.returns('ppo')[0].mean()
  assert f'{mean:.3f} ±' in table
  assert 'normalised scores need anchors of the suite tiny' in table
  with pytest.raises(ValueError, match='need anchors of the suite tiny'):
    result.normalized('ppo')
  assert not list(out.glob('cells/*/state.npz'))


def _anchors():
  tasks = suites.get_suite('tiny').tasks
  own = dict(random=-1.0, best=1.0, is_told_apart=True)
  return dict(
    kind='anchors',
    suite_tasks={task.name: task.to_plain() for task in tasks},
    tasks={task.name: own for task in tasks},
  )


def test_anchors_given_later_add_normalised_scores(killed, monkeypatch):
  out, _, _, before = killed
  counted = _advances(monkeypatch)
  result = disco_rl.benchmark(
    RULES, 'tiny', out=out, seeds=2, anchors=_anchors(), resume=True
  )
  assert not counted
  np.testing.assert_allclose(
    result.normalized('ppo'), (before.returns('ppo') + 1) / 2
  )
  at_end = result.normalized_at('ppo', np.asarray([0.5, 1.0]))
  assert at_end.shape == (2, 2, 2)
  lines = list(
    csv.DictReader((out / 'aggregates.csv').read_text().splitlines())
  )
  by_name = {(x['rule'], x['statistic'], x['other']): x for x in lines}
  iqm = by_name['ppo', 'interquartile mean', '']
  trimmed = np.sort(result.normalized('ppo').ravel())[1:3].mean()
  assert float(iqm['value']) == pytest.approx(trimmed)
  assert float(iqm['low']) <= trimmed <= float(iqm['high'])
  wins = [
    float(by_name[a, 'probability of improvement', b]['value'])
    for a, b in (RULES, RULES[::-1])
  ]
  assert sum(wins) == pytest.approx(1.0)
  for name in ('profiles', 'sample_efficiency', 'curves'):
    assert (out / f'{name}.png').stat().st_size > 1000
  assert 'Probability that the rule' in (out / 'table.md').read_text()


def test_other_benchmarks_are_refused(killed, tmp_path):
  out, *_ = killed
  contents = (out / 'spec.json').read_bytes()
  for arguments, message in (
    (dict(rules=RULES, seeds=2), 'already holds a benchmark'),
    (dict(rules=RULES, seeds=3, resume=True), 'its seeds is'),
    (dict(rules=RULES[:1], seeds=2, resume=True), r'its rules\.ppo\.eta is'),
    (dict(rules=RULES, seeds=2, suite='minatar', resume=True), 'its suite is'),
  ):
    with pytest.raises(ValueError, match=message):
      disco_rl.benchmark(**{'suite': 'tiny', **arguments}, out=out)
  assert (out / 'spec.json').read_bytes() == contents
  with pytest.raises(ValueError, match='holds no benchmark'):
    disco_rl.benchmark(RULES, 'tiny', out=tmp_path / 'x', resume=True)
  assert not (tmp_path / 'x').exists()
  (tmp_path / 'file').touch()
  with pytest.raises(ValueError, match='is not an empty folder'):
    disco_rl.benchmark(RULES, 'tiny', out=tmp_path)


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (dict(rules='ppo'), r'rules \(--rules\) must be one or more'),
    (dict(rules=[]), r'rules \(--rules\) must be one or more'),
    (dict(suite=5), 'unknown suite 5'),
    (dict(out=5), 'out must be a path'),
    (dict(resume='x'), 'resume must be True or False'),
    (dict(show_progress=2), 'show_progress must be True or False'),
    (dict(anchors=dict(kind='x')), 'the given mapping has no anchors'),
    (dict(tuned=dict(kind='x')), 'the given mapping has no tuned'),
  ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments, message):
  out = tmp_path / 'x'
  defaults = dict(rules=RULES, suite='tiny', out=out, seeds=2)
  with pytest.raises(ValueError, match=message):
    disco_rl.benchmark(**{**defaults, **arguments})
  assert not out.exists()


def test_changed_files_are_refused(tmp_path):
  for content in ('', '[]', '{"format": 1}', '{"format": 1, "kind": 5}'):
    (tmp_path / 'spec.json').write_text(content)
    with pytest.raises(campaign.CampaignError):
      disco_rl.benchmark(RULES, 'tiny', out=tmp_path, seeds=2, resume=True)
  for content in ('[]', '{"x": 1}', '{"x": {"a": "b"}}'):
    (tmp_path / 'diverged.json').write_text(content)
    with pytest.raises(campaign.CampaignError, match=r'diverged\.json'):
      campaign.Campaign(tmp_path, {})


def test_a_seed_that_diverges_counts_as_random_and_the_rest_go_on(
  tmp_path, monkeypatch
):
  def diverge(n, self, result):
    if n == 2:
      state, rows = result
      raise training.DivergenceError(state, rows, 5, 1, 'the loss')
    return result

  counted = _advances(monkeypatch, diverge)
  suite = suites.Suite(name='one', tasks=suites.get_suite('tiny').tasks[:1])
  result = disco_rl.benchmark(
    ['ppo'],
    suite,
    out=tmp_path,
    seeds=2,
    anchors=_anchors(),
  )
  assert counted == [(0, 1)] * 2 + [(0,)] * CHUNKS
  returns = result.returns('ppo')
  assert np.isfinite(returns[0, 0]) and np.isnan(returns[0, 1])
  assert result.normalized('ppo')[0, 1] == 0.0
  assert 'ppo in catch_3x3, seed 1, diverged and counts as' in result.table()
  assert 'the loss is not finite' in (tmp_path / 'scores.csv').read_text()
  again = disco_rl.benchmark(['ppo'], suite, out=tmp_path, seeds=2, resume=True)
  assert len(counted) == 2 + CHUNKS
  np.testing.assert_array_equal(again.returns('ppo'), returns)
