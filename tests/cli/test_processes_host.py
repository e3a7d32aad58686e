"""Meta-training over several processes, with environments on the host."""

import pytest

from disco_rl.runs import metrics
from tests.support import broken
from tests.support import processes
from tests.support import runs

DM = 'dm:tests.support.broken:BrokenDm'


def _finish(out, *arguments, **options):
  options = {'shape': (2, 1), **options}
  processes.finish('meta-train', *arguments, f'--out={out}', **options)


def _refuse(tmp_path, *words, more=(), envs=('catch_numpy',), **options):
  out = tmp_path / 'x'
  arguments = [*processes.mixed(*envs), *more, f'--out={out}']
  results = processes.wait(processes.start('meta-train', *arguments, **options))
  processes.check_refused(results, out, *words)


def test_each_process_acts_for_its_own_agents(tmp_path):
  """Without replay and resets, whose programs take long to compile."""
  arguments = runs.changed(
    processes.mixed('catch_numpy', batch_size=2),
    *('--set=meta.lifetimes=900', '--devices=2', '--steps=4'),
  )
  one, two = tmp_path / 'one', tmp_path / 'two'
  started = processes.start(
    'meta-train', *arguments, f'--out={one}', shape=(1, 2)
  )
  _finish(two, *arguments)
  assert processes.wait(started)[0][0] == 0
  processes.check_close(two, one)
  rows = metrics.read_csv(two / 'metrics.csv')
  assert rows[-1]['episodes/catch_numpy'] > 0


@pytest.mark.slow
def test_overlap_does_not_change_the_results(tmp_path):
  arguments = [*processes.mixed(), '--devices=2', '--steps=6']
  folders = []
  for overlap in ('true', 'false'):
    folders.append(tmp_path / overlap)
    _finish(folders[-1], *arguments, f'--set=overlap_acting={overlap}')
  runs.check_same_files(*folders)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('trouble', 'message', 'more'),
  [
    ('step', 'RuntimeError: as asked for', []),
    (
      *('die', 'died with exit code 3'),
      [f'--set=env.{DM}.num_workers=2', '--set=overlap_acting=false'],
    ),
  ],
)
def test_an_environment_that_fails_in_one_process(
  trouble, message, more, tmp_path
):
  """All processes end; the repaired run resumes as if nothing had happened."""
  whole, out, repaired = (tmp_path / x for x in ('whole', 'x', 'repaired'))
  arguments = [
    *processes.mixed('catch', DM),
    *(*more, '--devices=2', '--steps=10'),
    f'--set=env.{DM}.kwargs={{"trouble": "{trouble}", "at": 56}}',
  ]
  sound = {broken.REPAIRED_BY: str(tmp_path)}
  fails = {broken.REPAIRED_BY: str(repaired)}
  started = processes.start(
    *('meta-train', *arguments, f'--out={out}'), own_variables=(sound, fails)
  )
  results = processes.wait(started)
  for code, _, error in results:
    assert code == 1, error
    assert message in error and '(meta-update 4, agent 1' in error, error
    assert 'Traceback' not in error
  assert 'process 1 of 2' in results[0][2]
  assert f'--resume {out}' in results[0][2]
  assert len(metrics.read_csv(out / 'metrics.csv')) >= 2
  repaired.touch()
  results = processes.finish(
    *('meta-train', f'--resume={out}'), own_variables=(sound, fails)
  )
  assert 'note' not in results[0][2]
  _finish(whole, *arguments, own_variables=(sound, sound))
  runs.check_same_files(whole, out)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('own', 'words'),
  [
    (
      [[f'--set=env.catch_numpy.rows={rows}'] for rows in (6, 7)],
      ['env.catch_numpy.rows', 'process 1 has another'],
    ),
    (
      [[], ['--env=catch']],
      ['catch_numpy', 'process 1'],
    ),
  ],
)
def test_environments_that_differ_are_refused(own, words, tmp_path):
  _refuse(tmp_path, *words, own=own)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('more', 'words'),
  [
    # Rows of two devices, and processes of three.
    (
      ['--num-agents=3', '--devices=6'],
      ['catch_numpy runs on the host', '3 rows (lane_shards) of 2 devices'],
    ),
    (
      ['--num-agents=3', '--set=lane_shards=2', '--devices=2'],
      ['3 agents', '2 rows of devices'],
    ),
    (['--devices=5'], ['multiple of the 2 processes']),
  ],
)
def test_sizes_that_do_not_divide_are_refused(more, words, tmp_path):
  _refuse(tmp_path, *words, more=more, shape=(2, 3))


@pytest.mark.slow
def test_workers_that_do_not_divide_a_share_are_refused(tmp_path):
  """Of the two streams of an agent, each process has one."""
  more = [f'--set=env.{DM}.num_workers=2', '--num-agents=1', '--devices=2']
  words = ['num_workers must', 'the 1 environments']
  _refuse(tmp_path, *words, more=more, envs=(DM,))
