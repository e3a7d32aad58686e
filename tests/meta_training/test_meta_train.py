"""Meta-training in one call: what it writes, resumes and refuses."""

import contextlib
import dataclasses
import json
import types

import jax
import numpy as np
import optax
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.config import meta_training as config_lib
from disco_rl.config import resolve
from disco_rl.environments import registry as environments
from disco_rl.meta_training import meta_train
from disco_rl.meta_training import objects as objects_lib
from disco_rl.meta_training import plan as plan_lib
from disco_rl.meta_training import rule_evaluation
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.runs import files
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from tests.support import runs
from tests.support import small_meta

TINY = {
  'batching.batch_size': 3,
  'batching.num_envs': 3,
  'batching.rollout_length': 7,
  'checkpoint_every': 2,
  'critic_net.catch.net_args.dense': (6, 6),
  'meta.num_inner_updates': 1,
}


@pytest.fixture
def rule_file(own_rule, tmp_path):
  """The file of a custom rule, to be trained further by its name."""
  eta, _ = own_rule['EntropyCost']().init_params(None)
  path = tmp_path / 'first.npz'
  disco_rl.save_rule(path, eta, settings=own_rule['agent_settings'])
  return path


def test_a_folder_is_that_of_the_command_and_is_resumed_bit_exact(
  rule_file, tmp_path, capsys
):
  command, whole, parts = (tmp_path / name for name in ('cli', 'a', 'b'))
  arguments = [f'--set={name}={value}' for name, value in TINY.items()]
  arguments += ['--set=env.catch.columns=4', f'--init={rule_file}', '--seed=3']
  arguments += ['--steps=5', '--quiet', f'--out={command}']
  assert main.main(['meta-train', *arguments]) == 0

  def train(out, num_updates, **more):
    return disco_rl.meta_train(
      'catch',
      init=str(rule_file),
      num_updates=num_updates,
      seed=3,
      env_settings=dict(catch=dict(columns=4)),
      settings=TINY,
      out=out,
      **more,
    )

  result = train(whole, 5)
  runs.check_same_files(whole, command)
  configs = [run_folder.read_config(path) for path in (whole, command)]
  for name in ('settings', 'rule_settings', 'format', 'command'):
    assert configs[0][name] == configs[1][name]
  origins = configs[0]['origins']
  assert set(origins.values()) == {'rule first', 'settings'}
  assert configs[1]['origins'] == {
    path: '--set' if origin == 'settings' else origin
    for path, origin in origins.items()
  }
  assert configs[0]['is_by_name'] and result.path == whole / 'rule.npz'
  saved = disco_rl.load_rule(whole)
  assert saved.kind == result.kind == 'entropy_cost'
  jax.tree.map(np.testing.assert_array_equal, saved.eta, result.eta)

  train(parts, 3)
  # As after a kill one meta-update later.
  with (parts / 'metrics.csv').open('a') as file:
    file.write((whole / 'metrics.csv').read_text().splitlines()[4] + '\n5,3')
  resumed = train(parts, 5, resume=True)
  runs.check_same_files(parts, whole)
  assert [row['iteration'] for row in resumed.rows] == [1, 2, 3, 4, 5]
  jax.tree.map(np.testing.assert_array_equal, resumed.eta, result.eta)
  for one in (result, resumed):
    first = disco_rl.load_rule(rule_file).eta
    jax.tree.map(np.testing.assert_array_equal, one.initial_eta, first)
  # A run without objects can also be resumed by the command.
  capsys.readouterr()
  more = ['meta-train', f'--resume={parts}', '--steps=6', '--quiet']
  assert main.main(more) == 0
  assert 'Resuming from meta-update 5' in capsys.readouterr().out
  assert len(metrics.read_csv(parts / 'metrics.csv')) == 6


def test_nothing_is_written_without_a_folder(own_rule, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  result = disco_rl.meta_train(
    'catch',
    num_updates=1,
    agent_settings=own_rule['agent_settings'],
    settings=TINY,
  )
  assert result.path is None and len(result.rows) == 1
  assert list(tmp_path.iterdir()) == []


def test_environments_of_ones_own_are_named(own_rule, monkeypatch):
  """After the function that makes them, or else by number."""
  seen = []

  class SeenError(Exception):
    pass

  def stop(groups, config, **arguments):
    del config, arguments
    seen.extend(group.name for group in groups)
    raise SeenError

  monkeypatch.setattr(trainer_lib, 'Trainer', stop)

  def my_catch(batch_size, seed):
    return environments.environment_fn('catch')(batch_size, seed)

  envs = ['catch', my_catch, lambda batch_size, seed: None]
  with pytest.raises(SeenError):
    disco_rl.meta_train(envs, agent_settings=own_rule['agent_settings'])
  assert seen == ['catch', 'my_catch', 'group_2']


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (
      dict(envs='catch_numpy', seed=2**31 - 1),
      'env.catch_numpy.random_seed 1 is too large for the seed 2147483648',
    ),
    (
      dict(envs='catch_numpy', num_agents=4096),
      'makes 131072 environments catch_numpy, which run in Python',
    ),
    (dict(envs=['catch', 'catch']), 'catch is given twice'),
    (
      dict(envs='catch', env_settings=dict(cath={})),
      r"env_settings of \['cath",
    ),
    (dict(envs='catch', init='actor_critic'), 'has no parameters to train'),
    (dict(envs='catch', init={'m': {'w': np.ones(2)}}), 'do not fit'),
    (dict(envs=[]), 'at least one environment'),
    (dict(envs='catch', resume=True), 'needs the folder of the run'),
    (
      dict(envs='catch', settings={'meta.num_inner_update': 2}),
      r'did you mean meta\.num_inner_updates',
    ),
  ],
)
def test_meta_train_refuses(arguments, message):
  with pytest.raises(ValueError, match=message):
    disco_rl.meta_train(**arguments)


def test_a_trained_rule_is_fine_tuned_with_a_small_learning_rate(monkeypatch):
  """The learning rate is small unless a config sets it."""
  seen = []

  class SeenError(Exception):
    pass

  def stop(groups, config, **arguments):
    seen.append(config.learning_rate)
    raise SeenError

  monkeypatch.setattr(trainer_lib, 'Trainer', stop)
  eta = {'entropy_cost': {'log': np.zeros([])}}
  sizes = config_lib.Config(learning_rate=0.1)
  for arguments in (
    dict(),
    dict(init=eta),
    dict(init=eta, config=sizes),
    dict(init=eta, meta_optimizer=optax.sgd(1.0)),
  ):
    with pytest.raises(SeenError):
      disco_rl.meta_train('catch', **arguments)
  assert seen == [5e-4, 1e-5, 0.1, 5e-4]


def test_a_run_of_objects_without_a_name_is_not_resumed_by_the_command(
  own_rule, tmp_path, capsys
):
  objects = objects_lib.Objects(
    agent_settings=own_rule['agent_settings'], regularizer=lambda *_: 0.0
  )
  plan = plan_lib.Plan({}, objects=objects)
  run_folder.RunFolder.create(tmp_path, plan.config).close()
  assert not json.loads((tmp_path / 'config.json').read_text())['is_by_name']
  assert main.main(['meta-train', f'--resume={tmp_path}']) == 2
  assert 'was made in Python, from objects that have no name' in (
    capsys.readouterr().err
  )


def test_a_run_is_not_resumed_with_other_settings(own_rule, tmp_path):
  settings = own_rule['agent_settings']
  objects = objects_lib.Objects(agent_settings=settings)
  plan = plan_lib.Plan({}, objects=objects)
  run_folder.RunFolder.create(tmp_path, plan.config).close()
  with pytest.raises(ValueError, match=r'meta\.num_inner_updates was 2, is 4'):
    disco_rl.meta_train(
      'catch',
      agent_settings=settings,
      settings={'meta.num_inner_updates': 4},
      out=tmp_path,
      resume=True,
    )
  # The folder is not locked any more.
  run_folder.RunFolder.reopen(tmp_path).close()
  with pytest.raises(run_folder.RunFolderError, match='already holds a run'):
    disco_rl.meta_train('catch', agent_settings=settings, out=tmp_path)


def test_a_config_is_recorded_as_settings():
  config = small_meta.config(
    num_inner_updates=4, learning_rate=0.3, lifetimes=(8,), rollout_length=5
  )
  values, weights = meta_train._settings_of(config)
  assert weights is None
  plan = plan_lib.Plan(dict(settings=values))
  assert resolve.meta_config(plan.settings) == config
  assert plan.config['settings']['meta']['learning_rate'] == 0.3
  own = dict(entropy=1.0)
  values, weights = meta_train._settings_of(
    dataclasses.replace(config, weights=own)
  )
  assert weights == own
  assert not any(path.startswith('meta.weights') for path in values)


def test_parameters_that_cannot_be_saved_are_refused_first(own_rule, tmp_path):
  objects = objects_lib.Objects(agent_settings=own_rule['agent_settings'])
  plan = plan_lib.Plan({}, objects=objects)
  state = types.SimpleNamespace(eta=(1.0, 2.0))
  with pytest.raises(ValueError, match='parameters must be'):
    plan.prepare(None, state, contextlib.ExitStack())
  assert not list(tmp_path.iterdir())


def test_environments_without_a_name_are_evaluated_too(own_rule):
  env_fns = dict(tiny=environments.environment_fn('catch', rows=4, columns=3))
  objects = objects_lib.Objects(
    env_fns=env_fns, agent_settings=own_rule['agent_settings']
  )
  plan = plan_lib.Plan(
    dict(env=['tiny'], settings={'eval.every': 1}), objects=objects
  )
  state = types.SimpleNamespace(eta={'a': np.ones(1)})
  with contextlib.ExitStack() as opened:
    trainable = types.SimpleNamespace(snapshots=lambda state: {})
    plan.prepare(trainable, state, opened)
    assert plan._evaluation is not None


@pytest.mark.parametrize('taken', ['folder', 'file'])
def test_evaluations_are_closed_if_there_is_no_folder(
  own_rule, taken, tmp_path, monkeypatch
):
  """Nothing that was opened for a run stays open if it cannot be made."""
  out = tmp_path / 'x'
  if taken == 'folder':
    out.mkdir()
    (out / 'config.json').write_text('{}')
  else:
    out.write_text('')
  closed = []
  close = rule_evaluation.RuleEvaluation.close
  monkeypatch.setattr(
    rule_evaluation.RuleEvaluation,
    'close',
    lambda self: closed.append(close(self)),
  )
  with pytest.raises(run_folder.RunFolderError):
    disco_rl.meta_train(
      'catch',
      agent_settings=own_rule['agent_settings'],
      settings={**TINY, 'eval.every': 1},
      out=out,
    )
  assert len(closed) == 1


@pytest.mark.slow
def test_replays_that_are_not_saved_are_filled_again(rule_file, tmp_path):
  settings = {
    **TINY,
    'batching.batch_size': 4,
    'batching.num_envs': 2,
    'batching.replay_capacity': 16,
    'checkpoint_replay': 'never',
  }

  def train(num_updates, **more):
    return disco_rl.meta_train(
      'catch',
      init=str(rule_file),
      num_updates=num_updates,
      settings=settings,
      out=tmp_path / 'x',
      **more,
    )

  train(4)
  saved = files.read_npz(tmp_path / 'x' / 'state.npz')
  assert saved and not any('buffer' in name for name in saved)
  with pytest.warns(UserWarning, match='the replay is not part of the check'):
    result = train(6, resume=True)
  assert [row['iteration'] for row in result.rows] == [1, 2, 3, 4, 5, 6]
  assert all(np.isfinite(row['meta_loss']) for row in result.rows)
