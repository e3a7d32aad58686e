"""Environments in worker processes."""

import functools
import gc
import multiprocessing
import os
import signal

import numpy as np
import pytest

from disco_rl.environments import registry
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


def test_what_workers_refuse_is_no_failure_of_theirs():
  before = set(multiprocessing.active_children())
  with pytest.raises(ValueError, match='only discrete actions'):
    registry.get_environment('gym:Pendulum-v1', 2, num_workers=2)
  assert set(multiprocessing.active_children()) <= before


def test_workers_outlive_ctrl_c():
  """It reaches all processes of a terminal; the first decides."""
  env = registry.get_environment(
    'gym:tests.support.scripted:ScriptedGym', 2, num_workers=2
  )
  states, _ = env.reset(None)
  for process in multiprocessing.active_children():
    os.kill(process.pid, signal.SIGINT)
  for _ in range(3):
    states, timestep = env.step(states, np.zeros(2, np.int32))
  assert timestep.reward.tolist() == [3, 3]
  env.close()


def _scripted_with_trouble(trouble, in_the_second_worker, seeds):
  """Trouble only where the last of the four seeds is."""
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
    (dict(fail_at=3), r'worker 0 .*RuntimeError: as asked for'),
  ],
)
def test_a_worker_that_fails_is_named(trouble, message):
  """And leaves no processes behind."""
  before = set(multiprocessing.active_children())
  make = functools.partial(
    _scripted_with_trouble, trouble, 'worker 1' in message
  )
  env = worker_env.make(make, 4, 0, 2, 'scripted')
  states, _ = env.reset(None)
  with pytest.raises(worker_env.WorkerError, match=f'(?s){message}'):
    for _ in range(3):
      states, _ = env.step(states, np.zeros(4, np.int32))
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
