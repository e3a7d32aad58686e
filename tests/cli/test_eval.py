"""`disco-rl eval`: what it writes, how it resumes, what it refuses."""

import json
import re
import types

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.cli import eval_command
from disco_rl.cli import main
from disco_rl.config import batching as batching_lib
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.rule_zoo import store
from disco_rl.runs import files
from disco_rl.runs import metrics
from disco_rl.runs import plain_settings
from disco_rl.runs import run_folder
from tests.support import runs
from tests.support import small


@pytest.fixture(scope='module')
def whole_run(tmp_path_factory):
  """An uninterrupted run of two seeds for 24 iterations."""
  out = tmp_path_factory.mktemp('runs') / 'whole'
  assert runs.evaluate('--steps=24', '--num-seeds=2', f'--out={out}') == 0
  return out


def test_a_run_leaves_all_its_files(whole_run, capsys):
  names = {path.name for path in whole_run.iterdir()} - {'.lock'}
  assert names == {
    'config.json',
    'curve.png',
    'metrics.csv',
    'params_0.npz',
    'params_1.npz',
    'state.npz',
  }
  config = json.loads((whole_run / 'config.json').read_text())
  assert config['rule'] == 'actor_critic' and config['request']['steps'] == 24
  assert config['settings']['agent']['net_settings']['net_args']['dense'] == [
    9,
    8,
  ]
  rows = metrics.read_csv(whole_run / 'metrics.csv')
  assert [(row['iteration'], row['seed']) for row in rows[-3:]] == [
    (20, 1),
    (24, 0),
    (24, 1),
  ]
  assert rows[-1]['env_steps'] == 24 * 2 * 6
  assert np.isfinite(rows[-1]['total_loss'])


def test_the_command_is_the_library_function(whole_run):
  config = json.loads((whole_run / 'config.json').read_text())
  settings = resolve.agent_settings(rule_lib.load_rule('actor_critic'))
  settings.net_settings.net_args.dense = (9, 8)
  result = disco_rl.evaluate(
    'catch',
    agent_settings=settings,
    seeds=(0, 1),
    num_iterations=24,
    batching=batching_lib.Batching(**config['settings']['batching']),
    env_settings=dict(rows=5, columns=4),
    devices=jax.devices()[:1],
    chunk_size=4,
  )
  assert metrics.to_csv(result.rows) == (whole_run / 'metrics.csv').read_text()


# The same is tested for `disco_rl.evaluate`.
@pytest.mark.slow
def test_more_steps_later_are_the_same_run(whole_run, tmp_path, capsys):
  out = tmp_path / 'x'
  assert runs.evaluate('--steps=10', '--num-seeds=2', f'--out={out}') == 0
  # A row written after the checkpoint, and a partial one.
  last = (out / 'metrics.csv').read_text().splitlines()[-1]
  assert last.startswith('10,')
  with (out / 'metrics.csv').open('a') as file:
    file.write(f'12{last[2:]}\n14,')
  assert main.main(['eval', '--resume', str(out), '--steps=24', '--quiet']) == 0
  assert 'Resuming from iteration 10: ' in capsys.readouterr().out
  rows = metrics.read_csv(out / 'metrics.csv')
  # Chunks end at 10 and 12 here, so all rows but that one are the same.
  whole = metrics.read_csv(whole_run / 'metrics.csv')
  assert rows[-6:] == whole[-6:]
  np.testing.assert_equal(
    files.read_npz(out / 'params_1.npz'),
    files.read_npz(whole_run / 'params_1.npz'),
  )


@pytest.mark.slow
def test_a_seed_among_others_is_that_seed_alone_bit_exact(
  tmp_path, monkeypatch
):
  """With a discovered rule, bit-exact if XLA optimises as it does for users."""
  monkeypatch.setenv('XLA_FLAGS', '')
  params = []
  for seeds in (('--seed=1',), ('--seed=0', '--num-seeds=3')):
    out = tmp_path / str(len(seeds))
    arguments = ('--rule=catch_small', '--steps=8', f'--out={out}', *seeds)
    process = runs.start('eval', *runs.TINY, *arguments)
    _, error = process.communicate()
    assert process.returncode == 0, error
    params.append(files.read_npz(out / 'params_1.npz'))
  np.testing.assert_equal(*params)


@pytest.mark.slow
def test_a_discovered_rule_and_a_host_environment(tmp_path, monkeypatch):
  monkeypatch.setattr(
    resolve, 'agent_settings', lambda rule, *_: small.settings(rule.kind)
  )
  rule = small.make_agent('disco').update_rule
  eta, _ = rule.init_params(jax.random.PRNGKey(1))
  file_format.save(tmp_path / 'mine.npz', eta, {})
  arguments = ('--env=catch_numpy', '--steps=6', f'--out={tmp_path / "a"}')
  assert runs.evaluate(*arguments, rule=str(tmp_path / 'mine.npz')) == 0
  # The folder of a run is accepted as a rule.
  arguments = ('--steps=6', f'--out={tmp_path / "b"}')
  assert runs.evaluate(*arguments, rule=str(tmp_path / 'a')) == 0
  config = json.loads((tmp_path / 'b' / 'config.json').read_text())
  assert config['rule'] == 'a'


def test_a_rule_brings_the_settings_it_was_trained_with(tmp_path, capsys):
  """The settings of the small rule differ from the defaults of the command."""
  trained_with = plain_settings.to_plain(small.settings('disco'))
  rule = small.make_agent('disco').update_rule
  eta, _ = jax.jit(rule.init_params)(jax.random.PRNGKey(1))
  path = tmp_path / 'mine.npz'
  metadata = dict(config=dict(settings=dict(agent=trained_with)))
  file_format.save(path, eta, metadata)
  assert main.main(['eval', '--rule', str(path), '--dry-run', *runs.TINY]) == 0
  agent = json.loads(capsys.readouterr().out)['settings']['agent']
  assert agent['update_rule'] == trained_with['update_rule']
  assert agent['net_settings']['net_args']['dense'] == [9, 8]
  file_format.save(path, eta, {})
  assert main.main(['eval', '--rule', str(path), '--dry-run', *runs.TINY]) == 2
  assert 'do not fit the meta-network' in capsys.readouterr().err


def test_the_default_rule_is_the_shipped_one(
  monkeypatch, capsys, no_rule_folders
):
  """Whether or not another rule could be downloaded."""

  def no_network(info, folder):
    raise AssertionError(f'{info.name} is downloaded to {folder}')

  monkeypatch.setattr(store, 'download', no_network)
  assert main.main(['eval', '--dry-run']) == 0
  config = json.loads(capsys.readouterr().out)
  assert config['rule'] == 'catch_small' and config['update_rule'] == 'disco'


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--rule=disco_104'], r"unknown rule 'disco_104' \(did you mean disco_1"),
    (['--rule=none.npz'], 'none.npz'),
    (['--rule=actor_critic', '--env=cath'], r'did you mean catch\?'),
    (['--rule=actor_critic', '--set=agent.lr=1'], "setting 'lr' of agent"),
    (
      ['--rule=actor_critic', '--set=env.rows=x'],
      'env.rows must be a whole number',
    ),
    (
      ['--rule=actor_critic', '--set=env.rows=1'],
      'env.rows must be a whole number of at least 2, got 1',
    ),
    (['--rule=actor_critic', '--set=agent=1'], 'agent is a group of settings'),
    (
      ['--rule=actor_critic', '--steps=0'],
      'steps must be a whole number of at least 1, got 0',
    ),
    (
      ['--rule=actor_critic', '--devices=99'],
      'devices must be between 1 and 8, got 99',
    ),
    (
      ['--rule=actor_critic', '--devices=8'],
      'cannot be sharded over 8 devices',
    ),
    (
      ['--rule=actor_critic', '--seed=-1'],
      'seed must be a whole number between 0 and',
    ),
    (
      ['--rule=actor_critic', '--set=batching.replay_capacity=8'],
      'min_replay_size',
    ),
    (['--rule=actor_critic', '--env=gym:Pendulum-v1'], 'only discrete actions'),
    (
      ['--rule=actor_critic', '--env=gym:Pendulum-v1']
      + ['--set=env.num_workers=1'],
      'only discrete actions',
    ),
    (
      ['--rule=actor_critic', '--set=batching.min_replay_size=half'],
      'batching.min_replay_size must be a whole number of at least 1, or none',
    ),
    (
      ['--rule=actor_critic', '--env=gym:CartPole-v1']
      + ["--set=env.kwargs={'a': 1}"],
      'cannot make gym:CartPole-v1',
    ),
    (['--resume=nowhere', '--seed=0'], '--seed cannot be changed'),
    (['--rule=actor_critic', '--preset=atary'], r'did you mean atari\?'),
    (['--rule=actor_critic', '--net=convv'], r'did you mean conv\?'),
    (['--rule=actor_critic', '--core=lstn'], r'did you mean lstm\?'),
    (['--rule=actor_critic', '--use=no.such'], 'cannot import no.such'),
    (
      ['--rule=actor_critic', '--env=gym:CartPole-v1', '--set=env.kwargs=3'],
      'env.kwargs must be a group of settings like',
    ),
    (['--resume=nowhere'], 'nowhere holds no run'),
    (['--resume=nowhere', '--seed=3'], '--seed cannot be changed'),
  ],
)
def test_mistakes_are_reported_before_anything_is_written(
  arguments, message, tmp_path, monkeypatch, capsys, no_rule_folders
):
  monkeypatch.chdir(tmp_path)
  assert main.main(['eval', '--quiet', *arguments]) == 2
  assert list(tmp_path.iterdir()) == []
  error = capsys.readouterr().err
  assert error.startswith('disco-rl eval: error: ')
  with pytest.raises(ValueError, match=message):
    raise ValueError(error)


SMALL_SIZES = [
  argument
  for argument in runs.TINY
  if 'env.' not in argument and 'num_envs' not in argument
]

MODULE = """
from disco_rl.environments import catch, registry
registry.register_environment(
  'narrow', lambda b, s: catch.CatchEnvironment(b, s), catch.get_config
)
"""


@pytest.mark.slow
def test_other_environments_and_networks(tmp_path, monkeypatch, capsys):
  """Resumes Gymnasium with a memory, and a custom environment with a preset."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'my_module.py').write_text(MODULE)
  # Undoes the registration in this process after the test.
  monkeypatch.setattr(registry, 'ENVIRONMENTS', dict(registry.ENVIRONMENTS))
  cases = {
    'gym_CartPole-v1-actor_critic': [
      '--env=gym:CartPole-v1',
      "--set=env.kwargs={'max_episode_steps': 9}",
      '--core=lstm',
      '--set=overlap_acting=true',
      '--set=batching.num_envs=2',
    ],
    'narrow-actor_critic': [
      '--env=narrow',
      '--use=my_module',
      '--preset=sokoban',
      '--set=batching.num_envs=4',
    ],
  }
  for name, arguments in cases.items():
    command = ['eval', '--rule=actor_critic', '--quiet', *SMALL_SIZES]
    assert main.main([*command, '--steps=8', *arguments]) == 0
    out = tmp_path / 'runs' / name
    config = json.loads((out / 'config.json').read_text())['settings']
    assert config['batching']['batch_size'] == 8
    if name.startswith('gym'):
      rows = metrics.read_csv(out / 'metrics.csv')
      assert rows[-1]['average_return'] <= 9
      assert config['agent']['net_settings']['net_args']['core'] == 'lstm'
      resume = ['eval', '--resume', str(out), '--steps=12', '--quiet']
      assert main.main(resume) == 0
    else:
      optimizer = config['agent']['optimizer']
      assert optimizer['schedule'] == 'cosine'
      assert optimizer['total_updates'] == 7  # The first fills the replay.
      # The cosine schedule has ended, and would have to rise again.
      resume = ['eval', '--resume', str(out), '--steps=12', '--quiet']
      assert main.main(resume) == 2
      assert (
        'schedule of this run ends with its last step'
        in capsys.readouterr().err
      )


def test_a_run_is_not_overwritten_unless_told_to(whole_run, tmp_path, capsys):
  before = {p: p.read_bytes() for p in whole_run.iterdir()}
  assert runs.evaluate('--steps=24', f'--out={whole_run}') == 2
  assert 'already holds a run' in capsys.readouterr().err
  assert before == {p: p.read_bytes() for p in whole_run.iterdir()}
  out = tmp_path / 'x'
  assert runs.evaluate('--steps=4', f'--out={out}') == 0
  before = {p: p.read_bytes() for p in out.iterdir()}
  too_large = '--set=batching.replay_capacity=2000000000'
  assert runs.evaluate(f'--out={out}', '--overwrite', too_large) == 2
  assert 'this run needs' in capsys.readouterr().err
  assert before == {p: p.read_bytes() for p in out.iterdir()}
  assert runs.evaluate('--steps=8', f'--out={out}', '--overwrite') == 0
  assert metrics.read_csv(out / 'metrics.csv')[-1]['iteration'] == 8


def test_damaged_and_foreign_checkpoints_are_refused(
  whole_run, tmp_path, capsys
):
  out = tmp_path / 'x'
  assert runs.evaluate('--steps=4', f'--out={out}') == 0
  state = (out / 'state.npz').read_bytes()
  (out / 'state.npz').write_bytes(state[:-50])
  resume = ['eval', '--resume', str(out), '--steps=8', '--quiet']
  assert main.main(resume) == 2
  assert 'cannot read the checkpoint' in capsys.readouterr().err
  (out / 'state.npz').write_bytes((whole_run / 'state.npz').read_bytes())
  assert main.main(resume) == 2
  assert 'Was it made with other settings?' in capsys.readouterr().err
  (out / 'state.npz').write_bytes(state)
  config = (out / 'config.json').read_text()
  (out / 'config.json').write_text(
    config.replace('"learning_rate": 0.01', '"learning_rate": 0.02')
  )
  assert main.main(resume) == 2
  assert 'agent.learning_rate was 0.02' in capsys.readouterr().err
  (out / 'config.json').write_text(config)
  assert main.main(resume) == 0


def test_runs_of_another_format_are_refused(tmp_path, capsys):
  out = tmp_path / 'x'
  assert runs.evaluate('--steps=4', f'--out={out}') == 0
  resume = ['eval', '--resume', str(out), '--steps=8', '--quiet']
  state = files.read_npz(out / 'state.npz')
  np.savez(out / 'state.npz', **{**state, '__format__': np.int32(1)})
  assert main.main(resume) == 2
  assert (
    f'the checkpoint {out / "state.npz"} was made by another version of '
    'disco_rl: it has the format 1, and this version reads 2'
  ) in capsys.readouterr().err
  np.savez(out / 'state.npz', **state)
  config = json.loads((out / 'config.json').read_text())
  (out / 'config.json').write_text(json.dumps({**config, 'format': 1}))
  assert main.main(resume) == 2
  assert (
    f'{out} was made by another version of disco_rl: its config.json has the '
    'format 1, and this version reads 3'
  ) in capsys.readouterr().err
  (out / 'config.json').write_text(json.dumps(config))
  assert main.main(resume) == 0


def test_dry_run_shows_the_settings_and_writes_nothing(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  assert runs.evaluate('--dry-run') == 0
  printed = capsys.readouterr()
  shown = json.loads(printed.out)
  sizes = r'\d \wB \(a step .*replay .*\); free memory: \d+\.\d \wB\n$'
  assert re.search(f'this run needs at least .*{sizes}', printed.err)
  assert shown['format'] == 3
  assert shown['settings']['env'] == dict(rows=5, columns=4)
  assert shown['origins']['env.rows'] == '--set'
  assert 'agent.learning_rate' not in shown['origins']  # A default.
  assert list(tmp_path.iterdir()) == []


def test_dry_run_shows_where_each_setting_came_from(tmp_path, capsys):
  """Origins are the preset, the rule and the user."""
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  path = tmp_path / 'mine.npz'
  rule_lib.save_rule(path, eta, settings=small.settings('disco'))
  arguments = [f'--rule={path}', '--preset=atari', '--steps=1000', '--net=mlp']
  arguments += ['--set=batching.batch_size=8', '--set=env.rows=5']
  arguments += ['--set=batching.replay_capacity=64']
  arguments += ['--set=agent.optimizer.warmup_updates=3']
  assert main.main(['eval', '--dry-run', *arguments]) == 0
  origins = json.loads(capsys.readouterr().out)['origins']
  for setting, origin in {
    'agent.learning_rate': 'preset atari',
    'agent.update_rule.value_discount': 'preset atari',
    'batching.num_envs': 'preset atari',
    'batching.batch_size': '--set',
    'agent.optimizer.warmup_updates': '--set',
    'agent.optimizer.total_updates': '--steps',
    'agent.update_rule.num_bins': 'rule mine',
    'agent.update_rule.net.hidden_size': 'rule mine',
  }.items():
    assert origins[setting] == origin, setting


def test_the_steps_of_a_run_are_those_of_its_settings(tmp_path, capsys):
  out = tmp_path / 'x'
  assert runs.evaluate('--set=steps=12', f'--out={out}') == 0
  resume = ['eval', '--resume', str(out), '--quiet']
  assert main.main(resume) == 0
  config = json.loads((out / 'config.json').read_text())
  request = {k: v for k, v in config['request'].items() if k != 'steps'}
  damaged = {**config, 'request': request, 'settings': {'steps': 'x'}}
  (out / 'config.json').write_text(json.dumps(damaged))
  assert main.main(resume) == 2
  assert 'Traceback' not in capsys.readouterr().err
  # Removed rows are reported, and the run is resumed.
  (out / 'config.json').write_text(json.dumps(config))
  (out / 'metrics.csv').unlink()
  assert main.main(resume) == 0
  assert 'no rows of metrics to report' in capsys.readouterr().out


def test_seeds_without_a_point_in_common_are_reported(tmp_path, capsys):
  """Rows of either were removed by hand."""
  row = dict(episodes=1, average_return=0.5)
  run = types.SimpleNamespace(
    folder=run_folder.RunFolder.create(tmp_path / 'x', {}),
    rows=[dict(row, iteration=4, seed=0), dict(row, iteration=8, seed=1)],
  )
  eval_command._report(run)
  run.folder.close()
  assert 'mean of the last 100 iterations: 0.500' in capsys.readouterr().out
