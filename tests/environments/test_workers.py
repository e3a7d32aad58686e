"""Environments in worker processes."""

import functools
import gc
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import timesteps
from disco_rl.environments.adapters import gymnasium_env
from disco_rl.environments.wrappers import worker_env
from tests.support import environments
from tests.support import golden


def test_streams_are_the_same_in_any_number_of_processes():
  traces = []
  for num_workers in (0, 2):
    env = registry.get_environment(
      'gym:CartPole-v1',
      4,
      num_workers=num_workers,
      kwargs=dict(max_episode_steps=7),
    )
    traces.append(environments.play(env, 20))
    env.close()
  golden.check_trees_close(*traces, 0)
  # The streams themselves differ.
  assert (traces[0].observation[0, 0] != traces[0].observation[0, 1]).any()
  with pytest.raises(ValueError, match='0 or divide the 4'):
    registry.get_environment('gym:CartPole-v1', 4, num_workers=3)


def test_an_environment_refused_in_workers_leaves_no_processes():
  before = set(multiprocessing.active_children())
  with pytest.raises(ValueError, match='only discrete actions'):
    registry.get_environment('gym:Pendulum-v1', 2, num_workers=2)
  assert set(multiprocessing.active_children()) <= before


def test_workers_ignore_signals_to_the_group():
  """A signal reaches the whole group; only the main process reacts to it."""
  env = registry.get_environment(
    'gym:tests.support.scripted:ScriptedGym', 2, num_workers=2
  )
  states, _ = env.reset(None)
  for process in multiprocessing.active_children():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      os.kill(process.pid, number)
  for _ in range(3):
    states, timestep = env.step(states, np.zeros(2, np.int32))
  assert timestep.reward.tolist() == [3, 3]
  env.close()


def _scripted_with_trouble(trouble, in_the_second_worker, seeds):
  """Only the stream with the last of the four seeds fails."""
  all_seeds = np.random.SeedSequence(0).generate_state(4) >> 1
  is_second = int(all_seeds[-1]) in seeds
  kwargs = trouble if is_second == in_the_second_worker else {}
  return gymnasium_env.make_streams(
    'tests.support.scripted:ScriptedGym', kwargs, 1, seeds
  )


@pytest.mark.parametrize(
  ('trouble', 'message'),
  [
    (dict(die_at=3), r'worker 1 \(streams 2 to 3 of .*exit code 3'),
    (
      dict(fail_at=3),
      r'worker 0 \(streams 0 to 1 of scripted\) failed in step: RuntimeError: '
      r'as asked for \(.*scripted.py, line \d+\)$',
    ),
  ],
)
def test_a_worker_that_fails_is_named(trouble, message):
  """It also leaves no processes behind."""
  before = set(multiprocessing.active_children())
  make = functools.partial(
    _scripted_with_trouble, trouble, 'worker 1' in message
  )
  env = worker_env.make(
    make, 4, worker_env.get_config(num_workers=2), 'scripted'
  )
  states, _ = env.reset(None)
  with pytest.raises(worker_env.WorkerError, match=message) as caught:
    for _ in range(3):
      states, _ = env.step(states, np.zeros(4, np.int32))
  if 'fail_at' in trouble:  # Its own traceback, from the other process.
    assert 'Traceback' in str(caught.value.__cause__)
  assert set(multiprocessing.active_children()) <= before
  with pytest.raises(worker_env.WorkerError, match='was closed'):
    env.step(states, np.zeros(4, np.int32))


def test_workers_end_with_their_environment():
  before = set(multiprocessing.active_children())
  env = environments.ENVIRONMENTS['gym_workers'](1)
  started = set(multiprocessing.active_children()) - before
  assert len(started) == 1
  del env
  gc.collect()
  assert not started & set(multiprocessing.active_children())


def test_a_worker_that_hangs_is_named_and_ended(monkeypatch):
  monkeypatch.setattr(worker_env, '_SECONDS_TO_CLOSE', 0.1)
  before = set(multiprocessing.active_children())
  env = registry.get_environment(
    'gym:tests.support.broken:BrokenGym',
    2,
    num_workers=1,
    kwargs=dict(trouble='hang', at=1),
  )
  states, _ = env.reset(None)
  env._timeout = 0.2  # As if `worker_timeout`, which also holds for the start.
  match = r'worker 0 \(streams 0 to 1 of .*\) did not answer step within 0.2'
  with pytest.raises(worker_env.WorkerError, match=match):
    env.step(states, np.zeros(2, np.int32))
  assert set(multiprocessing.active_children()) <= before
  for timeout in (0.0, -1.0, float('nan'), float('inf'), 1e300, 'long', None):
    with pytest.raises(ValueError, match=r'^gym:CartPole-v1\.worker_timeout '):
      registry.get_environment('gym:CartPole-v1', 2, worker_timeout=timeout)


@pytest.mark.slow
def test_errors_in_workers_are_those_of_their_environment():
  """An exit and non-finite numbers are reported as without workers."""
  for trouble, error, message in (
    ('exit', worker_env.WorkerError, 'failed in step: SystemExit: 3'),
    ('nan', timesteps.NonFiniteError, r"\['count'\] of stream 1$"),
    ('four', foreign.InvalidEnvironmentError, 'step returned 4 values'),
  ):
    make = functools.partial(_trouble_in_the_second_stream, trouble)
    make_env = lambda batch_size, seed, make=make: worker_env.make(
      make,
      batch_size,
      worker_env.get_config(random_seed=seed, num_workers=2),
      'broken',
    )
    env = registry.as_environment_fn(make_env)(2, 0)
    states, _ = env.reset(None)
    with pytest.raises(error) as caught:
      env.step(states, np.zeros(2, np.int32))
    text = str(caught.value).partition('. ')[0]
    assert re.search(message, text), text
    env.close()


def _trouble_in_the_second_stream(trouble, seeds):
  last = int(np.random.SeedSequence(0).generate_state(2)[1] >> 1)
  kwargs = dict(trouble=trouble) if last in seeds else {}
  return gymnasium_env.make_streams(
    'tests.support.broken:BrokenGym', kwargs, 1, seeds
  )


@pytest.mark.slow
def test_a_snapshot_of_other_workers_is_refused():
  env = registry.get_environment(
    'dm:tests.support.broken:BrokenDm', 2, num_workers=1
  )
  env.reset(None)
  snapshot = env.snapshot()
  env.restore(snapshot)
  with pytest.raises(ValueError, match=r'of 2 workers .*num_workers=1'):
    env.restore([*snapshot, *snapshot])
  env.close()


ORPHANS = """
import sys
from disco_rl.environments import registry
import multiprocessing

if __name__ == '__main__':
  kwargs = dict(trouble=sys.argv[1], at=1)
  env = registry.get_environment(
    'gym:tests.support.broken:BrokenGym', 2, num_workers=2, kwargs=kwargs
  )
  states, _ = env.reset(None)
  print(*(p.pid for p in multiprocessing.active_children()), flush=True)
  if sys.argv[1] == 'hang':
    import numpy as np
    env.step(states, np.zeros(2, np.int32))
  sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize('trouble', ['', 'hang'])
def test_workers_end_when_their_parent_is_killed(tmp_path, trouble):
  (tmp_path / 'orphans.py').write_text(ORPHANS)
  parent = subprocess.Popen(
    [sys.executable, str(tmp_path / 'orphans.py'), trouble],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, 'PYTHONPATH': os.getcwd()},
  )
  workers = [int(pid) for pid in parent.stdout.readline().split()]
  assert len(workers) == 2
  time.sleep(0.5)  # Waits until they hang in their step.
  parent.kill()
  parent.wait()
  for _ in range(200):
    if not any(_is_running(pid) for pid in workers):
      break
    time.sleep(0.05)
  assert not any(_is_running(pid) for pid in workers)
  parent.stdin.close()
  parent.stdout.close()


def _is_running(pid):
  try:
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
  except FileNotFoundError:
    return False
  return stat.rpartition(')')[2].split()[0] != 'Z'  # It may be a zombie.
