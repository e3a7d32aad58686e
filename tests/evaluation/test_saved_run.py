"""Opening the folder of a run, and playing with its agent."""

import json
import shutil

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.runs import files
from disco_rl.runs import run_folder

SIZES = [
  *('--set=env.rows=4', '--set=env.columns=3'),
  *('--devices=1', '--quiet'),
  *('--set=batching.batch_size=8', '--set=batching.num_envs=8'),
  *('--set=batching.rollout_length=8', '--set=agent.learning_rate=1e-2'),
]


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """The folder of a run whose agent learned Catch on a narrow board."""
  out = tmp_path_factory.mktemp('runs') / 'narrow'
  command = ['eval', '--rule=actor_critic', '--steps=120', '--num-seeds=2']
  assert main.main([*command, *SIZES, f'--out={out}']) == 0
  return out


def test_a_trained_agent_plays(trained):
  run = disco_rl.load_run(trained)
  assert sorted(run.params) == [0, 1]
  assert run.settings.agent.learning_rate == 1e-2
  assert run.settings.env.columns == 3 and len(run.rows) == 12
  assert run.rule.name == 'actor_critic' and run.rule.eta is None
  saved = files.read_npz(trained / 'params_1.npz')
  del saved['__format__']
  assert len(jax.tree.leaves(run.params[1])) == len(saved)
  episodes = [run.play(1, episode_seed=i, greedy=True) for i in range(4)]
  assert [len(episode.actions) for episode in episodes] == [3] * 4
  assert episodes[0].observations.shape == (3, 4, 3, 1)
  assert np.mean([episode.total_return for episode in episodes]) > 0
  with pytest.raises(ValueError, match=r'has the seeds \[0, 1\], not 7'):
    run.play(7)
  for wrong in (
    dict(seed=[0]),
    dict(episode_seed=1.5),
    dict(episode_seed=-1),
    dict(max_steps=0),
    dict(greedy='no'),
  ):
    with pytest.raises(ValueError, match=f'^{next(iter(wrong))} must be '):
      run.play(**wrong)


def test_a_run_that_was_stopped_is_opened_at_its_checkpoint(trained, tmp_path):
  folder = shutil.copytree(trained, tmp_path / 'stopped')
  for seed in (0, 1):
    (folder / f'params_{seed}.npz').unlink()
  run = disco_rl.load_run(folder)
  jax.tree.map(
    np.testing.assert_array_equal, run.params, disco_rl.load_run(trained).params
  )
  (folder / 'state.npz').unlink()
  with pytest.raises(run_folder.RunFolderError, match='nor a checkpoint'):
    disco_rl.load_run(folder)


def test_an_agent_that_was_trained_with_workers_plays(tmp_path):
  env = 'gym:tests.support.scripted:ScriptedGym'
  command = ['eval', '--rule=actor_critic', f'--env={env}', '--steps=1']
  command += ['--set=env.num_workers=2', *SIZES[2:]]
  command += ['--set=agent.net_settings.net_args.dense=(9, 8)']
  assert main.main([*command, f'--out={tmp_path / "x"}']) == 0
  run = disco_rl.load_run(tmp_path / 'x')
  assert run.settings.env.num_workers == 2
  assert len(run.play().actions) == 1


def test_folders_without_a_run_of_agents_are_refused(tmp_path):
  with pytest.raises(run_folder.RunFolderError, match='holds no run'):
    disco_rl.load_run(tmp_path)
  config = dict(command='meta-train', format=run_folder.FORMAT)
  (tmp_path / 'config.json').write_text(json.dumps(config))
  with pytest.raises(run_folder.RunFolderError, match=r'disco_rl\.load_rule'):
    disco_rl.load_run(tmp_path)


def test_compare_shows_one_average_for_the_same_rows(trained, tmp_path, capsys):
  """In runs of at most 100 iterations, last and total averages are equal."""
  folder = shutil.copytree(trained, tmp_path / 'short')
  lines = (folder / 'metrics.csv').read_text().splitlines(keepends=True)
  (folder / 'metrics.csv').write_text(''.join(lines[:9]))
  out = tmp_path / 'x.png'
  assert main.main(['compare', str(folder), f'--out={out}']) == 0
  line = capsys.readouterr().out.splitlines()[2].split()
  last, whole = ' '.join(line[5:]).split(' ± ')[0], line[-3]
  assert last == whole, line


def test_episodes_are_drawn_and_saved(trained, tmp_path):
  image_lib = pytest.importorskip('PIL.Image')
  run = disco_rl.load_run(trained)
  episode = run.play(1, greedy=True, render=True)
  assert len(episode.frames) == 4 and episode.is_complete
  assert {frame.shape for frame in episode.frames} == {(4, 3, 3)}
  plain = run.play(1, greedy=True)
  np.testing.assert_array_equal(plain.actions, episode.actions)
  assert plain.frames == ()
  # The last frame shows whether the ball was caught.
  is_caught = len({tuple(x) for x in np.argwhere(episode.frames[-1] > 99)}) == 3
  assert is_caught == (episode.total_return == 1.0)
  episode.save(tmp_path / 'x.gif')
  with image_lib.open(tmp_path / 'x.gif') as image:
    assert image.n_frames == 4
  with pytest.raises(ValueError, match='render=True'):
    plain.save(tmp_path / 'y.gif')
  cut = run.play(1, max_steps=2)
  assert not cut.is_complete and len(cut.actions) == 2


def test_environments_without_a_picture_are_refused(tmp_path):
  env = 'gym:tests.support.scripted:ScriptedGym'
  command = ['eval', '--rule=actor_critic', f'--env={env}', '--steps=1']
  command += ['--set=agent.net_settings.net_args.dense=(9, 8)', *SIZES[2:]]
  assert main.main([*command, f'--out={tmp_path / "x"}']) == 0
  run = disco_rl.load_run(tmp_path / 'x')
  with pytest.raises(ValueError, match=r'cannot be drawn; .*catch, MinAtar'):
    run.play(render=True)
