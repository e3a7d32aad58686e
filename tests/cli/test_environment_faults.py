"""Environments that fail or return NaN: exit codes, and what is saved."""

import os
import signal

from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl.cli import main
from disco_rl.environments import registry
from disco_rl.runs import files
from tests.support import broken
from tests.support import runs

SIZES = [size for size in runs.TINY if 'env.' not in size]
DM = 'dm:tests.support.broken:BrokenDm'


@pytest.fixture(autouse=True)
def registered():
  settings = lambda: config_dict.ConfigDict(dict(trouble='', at=1))
  registry.register_environment('broken', broken.BrokenJax, settings)
  registry.register_environment('broken_batch', broken.BrokenJaxBatch, settings)


def _arguments(env, trouble, at, out, *more, steps=12):
  if env.startswith('broken'):
    kwargs = [f'--set=env.trouble={trouble}', f'--set=env.at={at}']
  else:
    kwargs = [f'--set=env.kwargs={{"trouble": "{trouble}", "at": {at}}}']
  command = ['eval', '--rule=actor_critic', '--quiet']
  places = [f'--env={env}', f'--out={out}', f'--steps={steps}']
  return [*command, *places, *kwargs, *runs.changed(SIZES, *more)]


def _check_repaired_run_is_whole(
  env, trouble, at, message, paths, capsys, *more
):
  """Checks that a run stops and, once repaired, resumes as if undisturbed."""
  whole, stopped, repaired = paths
  assert main.main(_arguments(env, trouble, at, stopped, *more)) == 1
  error = capsys.readouterr().err
  assert message in error and 'learning rate' not in error
  assert f'--resume {stopped}' in error
  state = files.read_npz(stopped / 'state.npz')
  assert state['iteration'] == 4
  assert all(
    np.isfinite(x).all() for x in state.values() if x.dtype.kind == 'f'
  )
  repaired.touch()
  assert main.main(['eval', '--resume', str(stopped), '--quiet']) == 0
  assert main.main(_arguments(env, trouble, at, whole, *more)) == 0
  runs.check_same_files(whole, stopped)


@pytest.fixture
def paths(tmp_path, monkeypatch):
  repaired = tmp_path / 'repaired'
  monkeypatch.setenv(broken.REPAIRED_BY, str(repaired))
  return tmp_path / 'whole', tmp_path / 'stopped', repaired


def test_nan_on_the_host_is_not_learned_and_the_repaired_run_resumes(
  paths, capsys
):
  # The timestep after the last rollout of a chunk.
  place = 'iteration 8, seed 0, step 6 of the rollout'
  message = (
    f"{DM} returned inf in the observation['count'] of stream 0 ({place}"
  )
  _check_repaired_run_is_whole(DM, 'nan', 48, message, paths, capsys)


def test_nan_in_jax_is_not_learned_and_the_repaired_run_resumes(paths, capsys):
  place = 'iteration 6, seed 1, step 1 of the rollout'
  message = (
    f'broken returned NaN or infinity in the reward of stream 0 ({place}'
  )
  _check_repaired_run_is_whole(
    'broken', 'nan_reward', 31, message, paths, capsys, '--seed=1'
  )


@pytest.mark.parametrize(
  'trouble',
  ['pure_callback', pytest.param('debug_callback', marks=pytest.mark.slow)],
)
def test_a_callback_that_fails_in_jax_ends_a_run(trouble, paths, capsys):
  message = (
    "callback in the program of broken failed: KeyError: 'in a callback'"
  )
  _check_repaired_run_is_whole('broken', trouble, 31, message, paths, capsys)


def test_unknown_step_types_in_jax_end_a_run(paths, capsys):
  place = 'iteration 6, seed 0, step 1 of the rollout'
  message = f'broken_batch returned an unknown step_type in stream 0 ({place}'
  _check_repaired_run_is_whole(
    'broken_batch', 'step_type', 31, message, paths, capsys
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  ('env', 'trouble', 'at', 'place', 'more'),
  [
    (DM, 'nan_reward', 25, (5, 0, 1), ['--set=env.num_workers=2']),
    (DM, 'nan', 48, (8, 3, 6), ['--seed=3', '--set=overlap_acting=true']),
    ('broken', 'nan', 48, (8, 0, 6), ['--num-seeds=2']),
    ('broken', 'nan', 25, (5, 0, 1), ['--set=batching.replay_capacity=8']),
  ],
)
def test_nan_of_every_kind(env, trouble, at, place, more, paths, capsys):
  message = '(iteration {}, seed {}, step {} of the rollout)'.format(*place)
  _check_repaired_run_is_whole(env, trouble, at, message, paths, capsys, *more)


@pytest.mark.parametrize(
  ('env', 'trouble', 'message'),
  [
    ('gym:tests.support.broken:BrokenGym', 'construct', "Error: 'as asked"),
    ('gym:tests.support.broken:BrokenGym', 'reset', 'failed in reset'),
    (DM, 'space', "observation spec['text'] has the dtype object"),
    ('broken', 'reset', 'RuntimeError: as asked for'),
    ('broken', 'structure', 'BrokenJax.step consists of'),
  ],
)
def test_trouble_at_the_start_writes_nothing(
  env, trouble, message, tmp_path, capsys
):
  assert main.main(_arguments(env, trouble, 1, tmp_path / 'x')) == 2
  error = capsys.readouterr().err
  assert message in error and 'Traceback' not in error
  assert len(error.strip().splitlines()) == 1
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('source', ['raise SystemExit(0)', 'x = ', '1 / 0'])
def test_a_module_that_cannot_be_imported(
  source, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  name = f'fails_{abs(hash(source))}'
  (tmp_path / f'{name}.py').write_text(f'\n{source}\n')
  for command in ('eval', 'meta-train'):
    assert main.main([command, f'--use={name}', '--out=x']) == 2
    error = capsys.readouterr().err
    assert f'cannot import {name}: ' in error
    assert error.endswith(f'({tmp_path / name}.py, line 2)\n')
    assert not (tmp_path / 'x').exists()


@pytest.mark.slow
@pytest.mark.parametrize(
  ('trouble', 'message'),
  [
    ('step', 'RuntimeError: as'),
    ('exit', 'SystemExit: 3'),
    ('interrupt', 'KeyboardInterrupt'),
  ],
)
def test_an_error_in_a_step_leaves_the_checkpoint(
  trouble, message, paths, capsys
):
  message = f'failed in step 27: {message}'
  _check_repaired_run_is_whole(DM, trouble, 27, message, paths, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
  'number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_a_signal_to_the_group_saves_the_state_of_the_workers(tmp_path, number):
  whole, stopped = tmp_path / 'whole', tmp_path / 'stopped'
  more = ['--set=env.num_workers=2', '--set=checkpoint_every=500']
  arguments = _arguments(DM, '', 1, stopped, *more, steps=600)
  process = runs.start(*arguments, start_new_session=True)
  runs.wait_for_rows(stopped, 10, process)
  os.killpg(process.pid, number)
  _, error = process.communicate()
  assert process.returncode == 130, error
  assert 0 < files.read_npz(stopped / 'state.npz')['iteration'] < 500
  assert main.main(['eval', '--resume', str(stopped), '--quiet']) == 0
  assert main.main(_arguments(DM, '', 1, whole, *more, steps=600)) == 0
  runs.check_same_files(whole, stopped)
