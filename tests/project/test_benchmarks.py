"""Every benchmark runs, and measures what it says."""

import json
import subprocess
import sys

import jax
import matplotlib.image
import numpy as np
import pytest

from benchmarks import all as all_benchmarks
from benchmarks import arithmetic
from benchmarks import environments
from benchmarks import growth
from benchmarks import growth_plot
from benchmarks import host_environment
from benchmarks import learner_programs
from benchmarks import learner_step
from benchmarks import long_run
from benchmarks import meta_update
from benchmarks import mixed_population
from benchmarks import paper_scale
from benchmarks import scaling
from benchmarks import sections
from benchmarks import sharded_update
from benchmarks import sizes
from benchmarks import start
from benchmarks import table
from benchmarks import training_iteration
from benchmarks import units


def _check_row(row):
  """Checks the entries that all rows have."""
  assert set(table.COLUMNS) < set(row)
  assert row['name'] and row['units'] > 0 and row['milliseconds'] > 0
  assert (row['ratio'] is None) == (row['baseline'] is None)
  in_units = row['milliseconds'] / row['unit_milliseconds']
  np.testing.assert_allclose(row['units'], in_units, rtol=1e-6)
  if row['gflop'] is not None:
    share = row['gflop'] / units.UNIT_GFLOP / row['units']
    np.testing.assert_allclose(row['share_of_limit'], share, rtol=1e-6)


def test_reports_are_tables_and_json(tmp_path, capsys):
  timing = units.Timing(seconds=0.2, unit_seconds=0.1, ratio=0.5)
  row = table.row('a step', timing, baseline='plain', gflop=24.3, way='fast')
  _check_row(row)
  assert (row['units'], row['share_of_limit']) == (2.0, 0.5)
  other = table.row('another', timing._replace(seconds=0.3), note='slow')
  assert other['ratio'] is None
  path = tmp_path / 'x.json'
  table.report([row, other], str(path))
  content = json.loads(path.read_text())
  assert content['rows'] == table.read(path) == [row, other]
  assert content['header']['jax'] == jax.__version__
  assert content['header']['cores'] >= 1
  assert content['header']['unit_milliseconds'] == 100.0
  header, columns, first, second = capsys.readouterr().out.splitlines()
  assert f'jax {jax.__version__}' in header
  cells = lambda line: [x.strip() for x in line.split('|')]
  # Columns without values are left out.
  assert cells(columns) == [
    'name',
    'units',
    'milliseconds',
    'baseline',
    'ratio',
    'share_of_limit',
    'note',
  ]
  assert cells(first) == ['a step', '2', '200', 'plain', '0.5', '0.5', '-']
  assert cells(second) == ['another', '3', '300', '-', '-', '-', 'slow']


def test_measurements_alternate_and_are_compared_by_round():
  calls = []

  def take(name, values):
    values = iter(values)

    def measure():
      calls.append(name)
      return next(values)

    return measure

  timings = units.alternate(
    # The machine becomes slower, for both.
    {'a': take('a', [9, 1, 2, 4]), 'b': take('b', [9, 3, 6, 12])},
    num_rounds=3,
  )
  assert calls == ['a', 'b'] * 4
  assert [timings[k].ratio for k in 'ab'] == [1, 3]
  assert [timings[k].seconds for k in 'ab'] == [2, 6]
  assert timings['a'].units == 2 / timings['a'].unit_seconds


def test_arithmetic_counts_every_weight_matrix():
  settings = sizes.agent_settings('small')
  num_actions, num_steps, batch_size = 5, 7, 3
  problem = learner_programs.Problem(
    settings, num_actions, num_steps, batch_size
  )
  params = problem.agent.initial_learner_state(problem.rng).params
  weights = {name: module['w'].size for name, module in params.items()}
  # One-hots select a row of their matrix, without a product.
  one_hots = num_actions * 4 * 32
  first_layer = weights['mlp/~_embedding_pass/torso/~/linear_0']
  once = 2e-9 * num_steps * batch_size
  parts = arithmetic.learner_step(
    settings, num_actions, num_steps, batch_size, 64
  )
  np.testing.assert_allclose(
    parts['backward'],
    once * (2 * (sum(weights.values()) - one_hots) - first_layer),
  )
  per_action = weights['mlp/mlp/~/linear_0'] + weights['mlp/mlp/~/linear_1']
  per_action += (
    weights['mlp/mlp_2/~/linear_0'] + weights['mlp/mlp_2/~/linear_1']
  )
  auxiliary = weights['mlp/mlp_1/~/linear_0'] + weights['mlp/mlp_1/~/linear_1']
  shared = sum(weights.values()) - one_hots - per_action - auxiliary
  np.testing.assert_allclose(
    parts['forward'],
    once * (2 * (shared + num_actions * per_action) + auxiliary),
  )
  lstm = arithmetic.rule_lstm(settings, num_steps, batch_size)
  size = problem.eta['lstm/lstm/linear']['w'].size
  np.testing.assert_allclose(lstm['one_step'], 2e-9 * batch_size * size)
  np.testing.assert_allclose(lstm['all_steps'], 6 * lstm['one_step'])
  np.testing.assert_allclose(problem.gflop, sum(parts.values()))


def test_the_products_of_a_traced_learner_step_are_those_of_its_layers():
  settings = sizes.agent_settings('published')
  problem = learner_programs.Problem(settings, 3, 5, 2)
  state = jax.eval_shape(problem.agent.initial_learner_state, problem.rng)
  step = jax.jit(learner_programs.WAYS['summary'](problem))
  traced = step.trace(problem.eta, problem.rollout, state)
  # Those of small layers are not in the formula.
  assert 1.0 < arithmetic.products(traced) / problem.gflop < 1.1


@pytest.mark.slow
@pytest.mark.parametrize('num_actions', [3, 18])
def test_arithmetic_of_the_plain_step_is_that_of_its_program(num_actions):
  settings = sizes.agent_settings('published')
  given = (settings, num_actions, 29, 64)
  program = learner_programs.Program('naive', learner_programs.Problem(*given))
  products = arithmetic.total(arithmetic.plain_learner_step(*given, 64))
  lstm = arithmetic.rule_lstm(settings, 29, 64)
  products += lstm['one_step'] - lstm['all_steps']  # As XLA counts loops.
  assert 0.97 * products < program.xla_gflop < 1.1 * products


def test_learner_step_runs_tiny():
  rows = learner_step.benchmark(
    num_actions=3,
    num_rounds=1,
    num_steps=4,
    batch_size=2,
    settings=sizes.agent_settings('small'),
    ways=('naive', 'summary'),
  )
  for row in rows:
    _check_row(row)
    assert row['details']['ratio_to_naive'] == row['ratio']
    assert row['temporaries_mb'] > 0 and row['compile_seconds'] > 0
  assert rows[0]['ratio'] == 1.0


@pytest.mark.slow
def test_all_ways_of_a_learner_step():
  rows = learner_step.benchmark(num_actions=3, num_rounds=2)
  ways = [row['details']['way'] for row in rows]
  assert ways == ['naive', 'client', 'unroll', 'whole', 'summary']
  for row in rows:
    _check_row(row)
    assert 0 < row['share_of_limit'] < 1 and row['temporaries_mb'] < 500


@pytest.mark.slow
def test_training_iteration():
  row = training_iteration.benchmark(2, 1, size='small', batch_size=4)
  _check_row(row)
  assert row['baseline'] == 'plain learner step'


@pytest.mark.slow
def test_meta_update():
  rows = meta_update.benchmark(
    2, 2, ['naive', 'default'], 1, num_envs=2, num_steps=3, size='small'
  )
  assert [row['details']['mode'] for row in rows] == ['naive', 'default']
  for row in rows:
    _check_row(row)
    details = row['details']
    assert details['agent_updates_per_second'] == pytest.approx(
      4e3 / row['milliseconds']
    )


@pytest.mark.slow
def test_host_environment():
  rows = host_environment.benchmark(
    'gym:CartPole-v1',
    1,
    num_envs=2,
    num_steps=3,
    chunk=1,
    overlap_acting=True,
    size='small',
  )
  for row in rows:
    _check_row(row)
  assert {row['details']['part'] for row in rows if row['baseline']} == {
    'iteration',
    'iteration, overlapped',
  }
  alone = {row['details']['part'] for row in rows if not row['baseline']}
  assert alone == {
    'environment alone',
    'learner step alone',
    'acting network alone',
  }


@pytest.mark.slow
def test_mixed_population():
  rows = mixed_population.benchmark(
    ['catch', 'gym:CartPole-v1'],
    1,
    num_agents=1,
    num_inner_updates=1,
    num_envs=2,
    num_steps=3,
    size='small',
  )
  assert [row['details']['part'] for row in rows] == [
    'one after another',
    'overlapped',
    'acting alone',
    'environments alone',
    'programs alone',
  ]
  for row in rows:
    _check_row(row)
  with pytest.raises(ValueError, match='none of catch is on the host'):
    mixed_population.benchmark(['catch'], 1, size='small')


@pytest.mark.slow
def test_start():
  help_row, first, rest = start.benchmark(num_rounds=1, tiny=True)
  for row in (help_row, first, rest):
    _check_row(row)
  assert first['milliseconds'] > rest['milliseconds']


def test_nested_times_count_once():
  assert start.covered_seconds([(0, 4), (1, 2), (3, 5), (7, 8)]) == 6


@pytest.mark.slow
def test_everything_in_one_command(tmp_path):
  path = tmp_path / 'all.json'
  done = subprocess.run(
    [sys.executable, '-m', 'benchmarks.all', '--tiny', '--json', str(path)],
    capture_output=True,
    check=False,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  rows = table.read(path)
  for row in rows:
    _check_row(row)
    assert row['name'] in done.stdout
  ran = {row['details']['section'] for row in rows}
  assert ran == set(all_benchmarks.TINY_SECTIONS)


def test_failed_sections_are_reported():
  rows, failed = sections.run(['no_such_benchmark --rounds 1'])
  assert (rows, failed) == ([], ['no_such_benchmark --rounds 1'])


def test_growth_is_drawn_for_every_quantity(tmp_path):
  rows = []
  for sweep in growth.SWEEPS:
    is_step = sweep.work == 'learner step'
    for way in ('naive', 'summary') if is_step else ('default',):
      for value in (1, 2):
        timing = units.Timing(seconds=value, unit_seconds=1.0, ratio=1.0)
        rows.append(
          table.row(
            'x',
            timing,
            gflop=10.0 if is_step else None,
            quantity=sweep.quantity,
            value=value,
            work=sweep.work,
            **{'way' if is_step else 'mode': way},
          )
        )
  path = tmp_path / 'growth.png'
  growth_plot.draw(rows, str(path))
  height, width, _ = matplotlib.image.imread(path).shape
  assert (width, height) == (900, 580)


@pytest.mark.slow
def test_growth(tmp_path):
  rows, failed = growth.benchmark(growth.TINY_SWEEPS)
  assert not failed
  for row in rows:
    _check_row(row)
  points = [
    (row['details']['quantity'], row['details']['value']) for row in rows
  ]
  assert points == [
    *[('actions', 2)] * 2,
    *[('actions', 3)] * 2,
    ('simulated devices', 1),
    ('simulated devices', 2),
  ]
  path = tmp_path / 'growth.png'
  growth_plot.draw(rows, str(path))
  assert path.stat().st_size > 0


@pytest.mark.slow
def test_long_run():
  settings = ['batching.batch_size=4', 'batching.num_envs=2', 'chunk_size=2']
  result = long_run.benchmark('catch', 'actor_critic', 20, settings)
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


# Sizes that only show that everything is counted.
_PAPER_SIZES = paper_scale.Sizes(
  num_agents=6,
  num_inner_updates=2,
  batch_size=4,
  rollout_length=3,
  num_fresh=2,
  replay_capacity=8,
  num_actions=3,
  observation=(6, 6, 1),
  network='mlp',
  precision='float32',
)


@pytest.mark.slow
def test_what_an_agent_needs_on_paper():
  given = _PAPER_SIZES
  need = paper_scale.work(given, meta_update.agent_settings('small'))
  assert need.num_env_steps == (2 + 2) * 3 * 2
  assert need.observed_bytes >= need.num_env_steps * 36
  # The meta-gradient and the update of an Adam per agent, and a few scalars.
  eta_bytes = need.state_bytes['the rule'] / 3
  assert 2 * eta_bytes == pytest.approx(need.eta_bytes, rel=0.01)
  # Gradients of θ, and those of the backward pass through every update.
  theta_bytes = need.state_bytes['parameters']
  assert need.theta_bytes > 2 * given.num_inner_updates * theta_bytes / 2
  assert need.theta_calls >= given.num_inner_updates
  assert need.learn_flop > need.act_flop > 0


def test_work_is_divided_among_devices_on_paper():
  given = _PAPER_SIZES
  need = paper_scale.Work(
    learn_flop=3e12,
    act_flop=1e11,
    num_env_steps=24,
    observed_bytes=10_000,
    eta_bytes=6_000_000,
    theta_bytes=8_000_000,
    theta_calls=40,
    state_bytes={'the rule': 9, 'parameters': 5, 'replay': 8},
    temporary_bytes=100,
  )
  hardware = paper_scale.Hardware()
  one, four, sixteen = (
    paper_scale.on_devices(n, need, given, hardware) for n in (1, 4, 16)
  )
  shape = lambda row: (row['rows'], row['columns'], row['agents_each'])
  assert [shape(x) for x in (one, four, sixteen)] == [
    (1, 1, 6),
    (4, 1, 2),
    (8, 2, 1),
  ]
  assert (
    one['sums_of_eta'] == one['sums_of_theta'] == four['sums_of_theta'] == 0
  )
  flop = 6 * (need.learn_flop + need.act_flop)
  assert one['arithmetic'] == pytest.approx(flop / 4e13)
  assert four['arithmetic'] == pytest.approx(flop / 3 / 4e13)
  assert sixteen['arithmetic'] == pytest.approx(flop / 12 / 4e13)
  assert four['environments'] == pytest.approx(2 * 24 / (8 * 3000))
  assert sixteen['sums_of_eta'] == pytest.approx(
    2 * 7 / 8 * need.eta_bytes / 50e9 + 2 * 3 * 5e-6
  )
  assert sixteen['sums_of_theta'] == pytest.approx(
    need.theta_bytes / 50e9 + need.theta_calls * 2 * 5e-6
  )
  assert (one['used'], four['used'], sixteen['used']) == (1, 0.75, 0.75)
  states = [row['state_bytes'] for row in (one, four, sixteen)]
  assert states == [9 + 6 * 13, 9 + 2 * 13, 9 + 5 + 8 / 2]
  table_of_page = paper_scale.markdown([one, four])
  assert table_of_page.count('\n') == 3
  assert '| 1 | 1 × 1 | 6 | 100% | 19 | 140 | 0.47 |' in table_of_page


def test_scaling_is_shown_and_drawn(tmp_path):
  rows = []
  for (kind, quantity), own in scaling.SECTIONS.items():
    for value in (1, 2):
      timing = units.Timing(seconds=value, unit_seconds=1.0, ratio=1.0)
      rows.append(
        table.row(
          'x',
          timing,
          temporaries_mb=3.0,
          scaling=kind,
          quantity=quantity,
          value=value,
          num_agents=value,
          agents_per_second=0.5,
          calls=21,
          communicated_bytes=6_038_304,
          sum_milliseconds=0.25,
          communication_share=0.0125,
          state_mb=2.0,
        )
      )
    assert own
  of_scaling, of_memory = scaling.markdown(rows).split('\n\n')
  assert of_scaling.count('\n') == 1 + 2 * 4
  assert of_memory.count('\n') == 1 + 2 * 3
  assert (
    '| weak | 2 devices | 2 | 2e+03 | 0.5 | 21 | 6,038,304 | 0.25 | 1.25% | 2 '
    '| 3 |' in of_scaling
  )
  path = tmp_path / 'scaling.png'
  scaling.draw(rows, str(path))
  height, width, _ = matplotlib.image.imread(path).shape
  assert (width, height) == (900, 300)


@pytest.mark.slow
def test_a_sharded_update_counts_its_traffic():
  (row,) = sharded_update.benchmark(
    8, 1, num_inner_updates=1, num_envs=2, num_steps=3
  )
  _check_row(row)
  details = row['details']
  assert details['num_devices'] == 8 and details['num_processes'] == 1
  # The meta-gradient, and scalars, which XLA may combine into one operation.
  settings = meta_update.agent_settings('small')
  eta = learner_programs.Problem(settings, 3, 3, 2).eta
  num_bytes = 4 * sum(x.size for x in jax.tree.leaves(eta))
  assert num_bytes < details['communicated_bytes'] < num_bytes + 500
  assert 1 <= details['calls'] <= 25
  assert 0 < details['communication_share'] < 1


@pytest.mark.slow
def test_scaling():
  rows, failed = scaling.benchmark(scaling.QUICK_SECTIONS)
  assert not failed
  for row in rows:
    _check_row(row)
  found = [(row['details']['scaling'], row['details']['value']) for row in rows]
  assert found == [
    ('weak', 1),
    ('weak', 2),
    ('strong', 2),
    ('memory', 1),
    ('memory', 2),
    ('memory', 3),
  ]
  of_processes = rows[2]['details']
  assert of_processes['num_processes'] == 2 and of_processes['calls'] > 0
