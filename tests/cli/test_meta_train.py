"""`disco-rl meta-train`: what it writes, how it resumes, what it refuses."""

import json
import signal

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training
from disco_rl.rule_zoo import file_format
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import sinks
from disco_rl.update_rules import registry as rule_registry
from tests.support import documented_rule
from tests.support import runs
from tests.support import small
from tests.support import small_meta

TINY = [
  *('--set=env.catch.columns=4', '--set=batching.rollout_length=7'),
  *('--set=batching.batch_size=3', '--set=batching.num_envs=3'),
  '--set=critic_net.catch.net_args.dense=6,6',
  *('--set=checkpoint_every=2', '--set=eval.steps=40', '--quiet'),
]


def _small_settings(rule='disco'):
  if rule in rule_registry.UPDATE_RULES and rule != 'disco':
    return agents.get_settings(rule)
  return small.settings(rule)


@pytest.fixture(autouse=True)
def small_agents(monkeypatch):
  monkeypatch.setattr(config_lib, 'get_agent_settings', _small_settings)
  monkeypatch.setattr(
    resolve, 'agent_settings', lambda rule, *_: small.settings(rule.kind)
  )


def _meta_train(*arguments):
  return main.main(['meta-train', *runs.changed(TINY, *arguments)])


@pytest.fixture
def own_rule(tmp_path, monkeypatch):
  """An option that registers the rule of the docs, which compiles quickly."""
  monkeypatch.chdir(tmp_path)
  return documented_rule.write(tmp_path)


# Resuming is also tested in separate processes (test_eval.py) and for
# `disco_rl.meta_train`.
@pytest.mark.slow
@pytest.mark.parametrize('rule', ['entropy_cost', 'disco'])
def test_a_run_and_the_same_in_two_parts(tmp_path, capsys, own_rule, rule):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  own = (own_rule, f'--rule={rule}', '--set=meta.num_inner_updates=1')
  assert _meta_train('--steps=5', *own, f'--out={whole}') == 0
  assert 'try it: disco-rl eval --rule' in capsys.readouterr().out
  names = {path.name for path in whole.iterdir()} - {'.lock'}
  assert names == {
    'config.json',
    'metrics.csv',
    'returns.png',
    'rewards.png',
    'training.png',
    'rule.npz',
    'state.npz',
  }
  rows = metrics.read_csv(whole / 'metrics.csv')
  assert [row['iteration'] for row in rows] == [1, 2, 3, 4, 5]
  for name in ('meta_loss', 'meta_grad_norm', 'return/catch'):
    assert np.isfinite([row[name] for row in rows]).all()
  metadata = file_format.load_metadata(whole / 'rule.npz')
  assert metadata['step'] == 5 and metadata['seed'] == 0
  assert 'batching.rollout_length=7' in metadata['request']['set']
  assert metadata['settings']['update_rule_name'] == rule

  assert _meta_train('--steps=3', *own, f'--out={parts}') == 0
  # As after a kill one meta-update later.
  with (parts / 'metrics.csv').open('a') as file:
    file.write((whole / 'metrics.csv').read_text().splitlines()[4] + '\n5,0')
  resume = ['meta-train', '--resume', str(parts), '--steps=5', '--quiet']
  assert main.main(resume) == 0
  runs.check_same_files(parts, whole)

  _check_library_has_the_same_rows(rows, _small_settings(rule))

  # Its rule trains fresh agents, and is the initial rule of another run.
  arguments = ['eval', '--rule', str(whole), '--quiet', '--steps=6']
  arguments += ['--set=batching.batch_size=8', '--devices=1']
  arguments += ['--set=batching.num_envs=2', f'--out={tmp_path / "e"}']
  assert main.main(arguments) == 0
  dry = [f'--init={whole}', '--dry-run']
  assert _meta_train(*dry) == 0


def _check_library_has_the_same_rows(rows, agent_settings):
  """The same seed gives the same run in command, function and loop."""
  sizes = config_lib.Config(
    batching=batching_lib.Batching(
      batch_size=3, rollout_length=7, num_envs=3, fresh_in_batch=True
    ),
    num_inner_updates=1,
  )
  result = disco_rl.meta_train(
    'catch',
    num_updates=2,
    config=sizes,
    env_settings={'catch': dict(columns=4)},
    agent_settings=agent_settings,
    critic=small_meta.critic(),
  )
  group = trainer_lib.Group(
    registry.environment_fn('catch', rows=5, columns=4),
    small_meta.with_critic(agent_settings),
    name='catch',
  )
  trainer = trainer_lib.Trainer([group], sizes)
  init_rng, eta_rng, _ = training.keys(0)
  state = trainer.init(init_rng, trainer.init_params(eta_rng))
  by_hand = []
  loop.run(training.Training(trainer, 0), state, 2, sinks=[sinks.Rows(by_hand)])
  np.testing.assert_equal(by_hand, result.rows)
  for row, wanted in zip(result.rows, rows, strict=False):
    assert wanted.keys() == row.keys()
    for name, value in row.items():
      np.testing.assert_allclose(value, wanted[name], 1e-6, 1e-12, err_msg=name)
  assert result.kind == agent_settings.update_rule_name


@pytest.mark.slow
def test_kill_and_resume_is_the_same_run(tmp_path):
  """With agents that are reset, each with a replay."""
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  long = ['--set=net.catch.net_args.dense=9,8', '--set=meta.lifetimes=6,20']
  long += ['--set=batching.batch_size=4', '--set=batching.num_envs=2']
  long += ['--set=batching.replay_capacity=16', '--steps=60']
  long = runs.changed(TINY, *long)
  process = runs.start('meta-train', *long, f'--out={whole}')
  _, error = process.communicate()
  assert process.returncode == 0, error
  process = runs.start('meta-train', *long, f'--out={killed}')
  runs.wait_for_rows(killed, 5, process)
  process.kill()
  process.communicate()
  assert len(metrics.read_csv(killed / 'metrics.csv')) < 60

  process = runs.start('meta-train', '--resume', str(killed))
  runs.wait_for_rows(killed, 20, process)
  process.send_signal(signal.SIGINT)
  out, error = process.communicate()
  assert process.returncode == 130, error
  assert 'Saved. Resume with: disco-rl meta-train --resume' in out

  process = runs.start('meta-train', '--resume', str(killed))
  _, error = process.communicate()
  assert process.returncode == 0, error
  runs.check_same_files(killed, whole)


@pytest.mark.slow
def test_evaluations_with_fresh_agents_keep_the_best_rule(tmp_path, capsys):
  out = tmp_path / 'x'
  sizes = ('--set=eval.num_seeds=2', '--num-agents=1')
  assert _meta_train('--steps=2', '--eval-every=1', f'--out={out}', *sizes) == 0
  shown = capsys.readouterr().out
  assert 'baseline actor_critic: ' in shown and 'meta-update 0, fresh' in shown
  rows = metrics.read_csv(out / 'evaluations_catch.csv')
  assert [(r['iteration'], r['seed']) for r in rows] == [
    (i, seed) for i in (0, 1, 2) for seed in (0, 1)
  ]
  baseline = metrics.read_csv(out / 'baseline_catch.csv')
  assert [(r['iteration'], r['seed']) for r in baseline] == [(0, 0), (0, 1)]
  means = [
    np.mean([r['final_return'] for r in rows if r['iteration'] == i])
    for i in (0, 1, 2)
  ]
  hand_designed = np.mean([r['final_return'] for r in baseline])
  scores = [
    evaluation_tables.normalized_score(mean, means[0], hand_designed)
    for mean in means
  ]
  best = file_format.load_metadata(out / 'best_rule.npz')
  assert best['step'] == int(np.argmax(scores))
  np.testing.assert_allclose(best['score'], max(scores), 1e-4, 1e-6)
  assert (out / 'evaluations.png').exists()

  # Evaluations before the last checkpoint are not repeated; later ones are.
  with (out / 'evaluations_catch.csv').open('a') as file:
    file.write('3,0,9.9\n')
  before = (out / 'baseline_catch.csv').stat().st_mtime_ns
  resume = ['meta-train', '--resume', str(out), '--steps=3', '--quiet']
  assert main.main(resume) == 0
  assert (out / 'baseline_catch.csv').stat().st_mtime_ns == before
  rows = metrics.read_csv(out / 'evaluations_catch.csv')
  assert [r['iteration'] for r in rows] == [0, 0, 1, 1, 2, 2, 3, 3]
  assert max(r['final_return'] for r in rows) < 9.9
  capsys.readouterr()
  picture = f'--out={tmp_path / "c.png"}'
  assert main.main(['compare', str(out), str(out), picture]) == 0
  assert f'{hand_designed:.3f}' in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_without_finite_gradients_stops(tmp_path, capsys):
  arguments = (
    '--set=agent.learning_rate=1e38',
    '--set=max_nonfinite_updates=2',
  )
  arguments += ('--set=agent.max_abs_update=1e38', f'--out={tmp_path / "x"}')
  assert _meta_train('--steps=9', *arguments) == 1
  assert '2 meta-updates in a row, the last being number 2' in (
    capsys.readouterr().err
  )
  eta = file_format.load(tmp_path / 'x' / 'rule.npz')
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(eta))


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--init=actor_critic'], 'has no parameters to train'),
    (['--init=disco_104'], 'did you mean disco_103'),
    (['--env=gym:Pendulum-v1', '--env=catch'], 'only discrete actions'),
    (['--env=catch', '--env=gym:Cart-v1'], 'gym:Cart-v1'),
    (
      ['--eval-every=1', '--set=eval.baseline=x'],
      'eval.baseline must be one of actor_critic, policy_gradient',
    ),
    (['--env=catch', '--env=catch'], 'given twice'),
    (
      ['--set=meta.num_inner_updates=0'],
      'meta.num_inner_updates must be a whole number of at least 1, got 0',
    ),
    (
      ['--set=batching.rollout_length=1'],
      'batching.rollout_length must be a whole number of at least 2, got 1',
    ),
    (['--set=meta.weights.entrop=1'], r'did you mean meta\.weights\.entropy\?'),
    (['--set=act_on=gpu'], 'act_on must be one of devices, cpu'),
    (['--set=lanes_at_once=0'], 'lanes_at_once must be a whole number of at'),
    (
      ['--set=meta.lifetimes=none'],
      'meta.lifetimes must be a list of items, each a whole number',
    ),
    (
      ['--set=max_nonfinite_updates=0'],
      'max_nonfinite_updates must be a whole number of at least 1, got 0',
    ),
    (['--num-agents=0'], 'num_agents must be a whole number of at least 1'),
    (['--eval-env=catch'], r'need a period \(--eval-every'),
    (['--eval-every=1', '--set=eval.batching.num_envs=3'], 'a multiple'),
    (
      ['--eval-every=1', '--eval-env=gym:Pendulum-v1'],
      'only discrete actions',
    ),
    (['--devices=2', '--num-agents=1'], 'cannot be sharded over 2 devices'),
    (['--resume=nowhere'], 'holds no run'),
  ],
)
def test_mistakes_are_reported_before_anything_is_written(
  arguments, message, tmp_path, monkeypatch, capsys, no_rule_folders
):
  monkeypatch.chdir(tmp_path)
  sizes = ['--set=batching.batch_size=3', '--set=batching.num_envs=3']
  if '--resume=nowhere' in arguments:
    sizes = []
  assert main.main(['meta-train', '--quiet', *sizes, *arguments]) == 2
  assert list(tmp_path.iterdir()) == []
  with pytest.raises(ValueError, match=message):
    raise ValueError(capsys.readouterr().err)


def test_each_environment_gets_the_network_that_suits_it(capsys):
  envs = ('--env=catch', '--env=gymnax:Breakout-MinAtar')
  change = '--set=net.catch.net_args.dense=9,8'
  assert _meta_train(*envs, change, '--dry-run') == 0
  networks = json.loads(capsys.readouterr().out)['settings']['net']
  assert {env: net['name'] for env, net in networks.items()} == {
    'catch': 'mlp',
    'gymnax:Breakout-MinAtar': 'conv',
  }
  assert networks['catch']['net_args']['dense'] == [9, 8]
  assert _meta_train(*envs, '--net=mlp', '--dry-run') == 0
  networks = json.loads(capsys.readouterr().out)['settings']['net']
  assert {net['name'] for net in networks.values()} == {'mlp'}


def test_names_with_dots_and_the_settings_of_a_rule(tmp_path, capsys):
  """A rule is fine-tuned with the settings it was trained with."""
  rule = small.make_agent('disco').update_rule
  eta, _ = rule.init_params(jax.random.PRNGKey(1))
  trained_with = dict(update_rule=dict(value_discount=0.9))
  metadata = dict(config=dict(settings=dict(agent=trained_with)))
  file_format.save(tmp_path / 'x.npz', eta, metadata)
  name = 'gym:tests.support.scripted:ScriptedGym'
  arguments = [f'--init={tmp_path / "x.npz"}', '--eval-every=2', '--dry-run']
  arguments += [f'--eval-env={name}', f'--set=eval.env.{name}.num_workers=1']
  assert _meta_train(*arguments) == 0
  config = json.loads(capsys.readouterr().out)
  assert config['settings']['eval']['env'][name]['num_workers'] == 1
  assert config['settings']['agent']['update_rule']['value_discount'] == 0.9
  assert config['settings']['agent']['update_rule_name'] == 'disco'
  assert config['rule_settings'] == trained_with
  origins = config['origins']
  assert origins['agent.update_rule.value_discount'] == 'rule x'
  assert origins['meta.learning_rate'] == 'rule x'
  assert origins[f'eval.env.{name}.num_workers'] == '--set'


@pytest.mark.slow
def test_a_rule_of_ones_own_is_trained_further(tmp_path, capsys, own_rule):
  first, second = tmp_path / 'first', tmp_path / 'second'
  command = ('--steps=2', own_rule, '--set=meta.num_inner_updates=1')
  assert _meta_train(*command, '--rule=entropy_cost', f'--out={first}') == 0
  rule = disco_rl.load_rule(first)
  assert rule.kind == 'entropy_cost' and list(rule.eta) == ['entropy_cost']
  assert _meta_train(*command, f'--init={first}', f'--out={second}') == 0
  config = json.loads((second / 'config.json').read_text())
  assert config['settings']['agent']['update_rule_name'] == 'entropy_cost'
  capsys.readouterr()
  wrong = ('--rule=actor_critic', f'--init={first}', own_rule, '--dry-run')
  assert _meta_train(*wrong) == 2
  assert 'is of the kind entropy_cost' in capsys.readouterr().err
  assert _meta_train('--rule=actor_critic', '--dry-run') == 2
  assert 'has no parameters to train' in capsys.readouterr().err


def test_a_trained_rule_is_fine_tuned_with_a_small_learning_rate(
  tmp_path, capsys
):
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  file_format.save(tmp_path / 'x.npz', eta, {})
  trained = f'--init={tmp_path / "x.npz"}'
  for arguments, rate in [
    ([], 5e-4),
    ([trained], 1e-5),
    ([trained, '--set=meta.learning_rate=1e-3'], 1e-3),
  ]:
    assert _meta_train('--dry-run', *arguments) == 0
    settings = json.loads(capsys.readouterr().out)['settings']
    assert settings['meta']['learning_rate'] == rate


def test_a_rule_of_another_shape_is_refused(tmp_path, capsys):
  file_format.save(tmp_path / 'x.npz', {'m': {'w': np.ones(2)}}, {})
  assert _meta_train(f'--init={tmp_path / "x.npz"}') == 2
  assert 'do not fit the meta-network' in capsys.readouterr().err


def test_a_run_is_not_overwritten_nor_taken_for_another(tmp_path, capsys):
  (tmp_path / 'config.json').write_text('{"format": 3, "command": "eval"}')
  assert _meta_train('--steps=1', f'--out={tmp_path}') == 2
  assert 'already holds a run' in capsys.readouterr().err
  assert main.main(['meta-train', '--resume', str(tmp_path)]) == 2
  assert 'not a run of disco-rl meta-train' in capsys.readouterr().err
