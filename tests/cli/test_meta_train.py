"""`disco-rl meta-train`: what it writes, how it resumes, what it refuses."""

import json
import pathlib
import signal

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.config import agents as agent_settings_lib
from disco_rl.config import meta_training as settings_lib
from disco_rl.environments import registry
from disco_rl.evaluation import evaluate as evaluation
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import meta_train as training
from disco_rl.meta_training import rule_evaluation
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.rule_zoo import file_format
from disco_rl.runs import metrics as metrics_table
from disco_rl.update_rules import registry as rule_registry
from tests.support import runs
from tests.support import small
from tests.support import small_meta

TINY = [
  *('--set=env.catch.columns=4', '--set=meta.rollout_length=7'),
  *('--set=meta.batch_size=3', '--set=critic.net_args.dense=6,6'),
  *('--set=checkpoint_every=2', '--set=eval.steps=40', '--quiet'),
]


def _small_settings(rule='disco'):
  if rule in agent_settings_lib.SETTINGS and rule != 'disco':
    return agent_settings_lib.get_settings(rule)
  return small.settings(rule)


@pytest.fixture(autouse=True)
def small_agents(monkeypatch):
  monkeypatch.setattr(settings_lib, 'get_agent_settings', _small_settings)
  monkeypatch.setattr(
    evaluation, 'default_agent_settings', lambda rule, **_: small.settings(rule)
  )


def _meta_train(*arguments):
  return main.main(['meta-train', *TINY, *arguments])


MODULE = """
import pathlib, re
text = pathlib.Path({document!r}).read_text(encoding='utf-8')
blocks = re.findall(r'```python\\n(.*?)```', text, flags=re.DOTALL)
exec(blocks[0]); exec(blocks[1])  # The rule of the how-to, registered.
"""


@pytest.fixture
def own_rule(tmp_path, monkeypatch):
  """Option that registers the how-to's rule; its programs compile quickly."""
  for module, table in (
    (agent_settings_lib, 'SETTINGS'),
    (rule_registry, 'UPDATE_RULES'),
  ):
    monkeypatch.setattr(module, table, dict(getattr(module, table)))
  document = pathlib.Path(__file__).parents[2] / 'docs' / 'your_own_rule.md'
  name = f'module_of_{tmp_path.name}'  # Imported once in this process.
  (tmp_path / f'{name}.py').write_text(MODULE.format(document=str(document)))
  monkeypatch.chdir(tmp_path)
  return f'--use={name}'


@pytest.mark.parametrize(
  'rule', ['entropy_cost', pytest.param('disco', marks=pytest.mark.slow)]
)
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
  rows = metrics_table.read_csv(whole / 'metrics.csv')
  assert [row['iteration'] for row in rows] == [1, 2, 3, 4, 5]
  for name in ('meta_loss', 'meta_grad_norm', 'return/catch'):
    assert np.isfinite([row[name] for row in rows]).all()
  metadata = file_format.load_metadata(whole / 'rule.npz')
  assert metadata['step'] == 5 and metadata['seed'] == 0
  assert metadata['config']['settings']['meta']['rollout_length'] == 7

  assert _meta_train('--steps=3', *own, f'--out={parts}') == 0
  # As if it had been killed after one more meta-update.
  with (parts / 'metrics.csv').open('a') as file:
    file.write((whole / 'metrics.csv').read_text().splitlines()[4] + '\n5,0')
  resume = ['meta-train', '--resume', str(parts), '--steps=5', '--quiet']
  assert main.main(resume) == 0
  runs.check_same_files(parts, whole)

  _check_library_has_the_same_rows(rows, _small_settings(rule))

  # Fresh agents learn with what it made, and another run begins with it.
  arguments = ['eval', '--rule', str(whole), '--quiet', '--steps=6']
  arguments += ['--set=experiment.batch_size=8', '--devices=1']
  arguments += ['--set=experiment.replay_ratio=4', f'--out={tmp_path / "e"}']
  assert main.main(arguments) == 0
  dry = [f'--init={whole}', '--dry-run']
  assert _meta_train(*dry) == 0


def _check_library_has_the_same_rows(rows, agent_settings):
  """The same seed is the same run: command, function and loop."""
  sizes = config_lib.Config(num_inner_updates=1, rollout_length=7, batch_size=3)
  result = training.meta_train(
    'catch',
    num_updates=2,
    config=sizes,
    env_settings={'catch': dict(columns=4)},
    agent_settings=agent_settings,
    critic=small_meta.critic(),
  )
  group = trainer_lib.Group(
    registry.environment_fn('catch', rows=5, columns=4),
    agent_settings,
    critic=small_meta.critic(),
    name='catch',
  )
  trainer = trainer_lib.Trainer([group], sizes)
  init_rng, eta_rng, step_rng = training.keys(0)
  state = trainer.init(init_rng, trainer.init_params(eta_rng))
  by_hand = [row for _, row in training.train(trainer, state, step_rng, 2)]
  np.testing.assert_equal(by_hand, result.rows)
  for row, wanted in zip(result.rows, rows, strict=False):
    assert wanted.keys() == row.keys() | {'seed'}
    for name, value in row.items():
      np.testing.assert_allclose(value, wanted[name], 1e-6, 1e-12, err_msg=name)
  assert result.rule.kind == agent_settings.update_rule_name


@pytest.mark.slow
def test_kill_and_resume_is_the_same_run(tmp_path):
  """With agents that begin anew and a replay of each one's own."""
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  long = ['--steps=60', '--set=net.catch.net_args.dense=9,8', *TINY]
  long += ['--set=meta.lifetimes=6,20', '--set=meta.batch_size=4']
  long += ['--set=meta.replay_fraction=0.5', '--set=meta.replay_capacity=16']
  process = runs.start('meta-train', *long, f'--out={whole}')
  _, error = process.communicate()
  assert process.returncode == 0, error
  process = runs.start('meta-train', *long, f'--out={killed}')
  runs.wait_for_rows(killed, 5, process)
  process.kill()
  process.communicate()
  assert len(metrics_table.read_csv(killed / 'metrics.csv')) < 60

  process = runs.start('meta-train', '--resume', str(killed))
  runs.wait_for_rows(killed, 20, process)
  process.send_signal(signal.SIGINT)
  out, error = process.communicate()
  assert process.returncode == 130, error
  assert 'Saved. Go on with' in out

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
  rows = metrics_table.read_csv(out / 'evaluations_catch.csv')
  assert [(r['iteration'], r['seed']) for r in rows] == [
    (i, seed) for i in (0, 1, 2) for seed in (0, 1)
  ]
  baseline = metrics_table.read_csv(out / 'baseline_catch.csv')
  assert [(r['iteration'], r['seed']) for r in baseline] == [(0, 0), (0, 1)]
  means = [
    np.mean([r['final_return'] for r in rows if r['iteration'] == i])
    for i in (0, 1, 2)
  ]
  hand_designed = np.mean([r['final_return'] for r in baseline])
  scores = [
    rule_evaluation.normalized_score(mean, means[0], hand_designed)
    for mean in means
  ]
  best = file_format.load_metadata(out / 'best_rule.npz')
  assert best['step'] == int(np.argmax(scores))
  np.testing.assert_allclose(best['score'], max(scores), 1e-4, 1e-6)
  assert (out / 'evaluations.png').exists()

  # What was done before a kill is not done again; what was done after the last
  # checkpoint is.
  with (out / 'evaluations_catch.csv').open('a') as file:
    file.write('3,0,9.9\n')
  before = (out / 'baseline_catch.csv').stat().st_mtime_ns
  resume = ['meta-train', '--resume', str(out), '--steps=3', '--quiet']
  assert main.main(resume) == 0
  assert (out / 'baseline_catch.csv').stat().st_mtime_ns == before
  rows = metrics_table.read_csv(out / 'evaluations_catch.csv')
  assert [r['iteration'] for r in rows] == [0, 0, 1, 1, 2, 2, 3, 3]
  assert max(r['final_return'] for r in rows) < 9.9
  capsys.readouterr()
  picture = f'--out={tmp_path / "c.png"}'
  assert main.main(['compare', str(out), str(out), picture]) == 0
  assert f'{hand_designed:.3f}' in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_without_finite_gradients_stops(tmp_path, capsys):
  arguments = ('--set=agent.learning_rate=1e38', '--set=max_bad_in_a_row=2')
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
    (
      ['--env=catch_numpy'],
      'cannot use catch_numpy, which runs on the host',
    ),
    (
      ['--env=gym:CartPole-v1'],
      'cannot use gym:CartPole-v1, which runs on the',
    ),
    (
      ['--env=atari:Pong', '--init=x.npz'],
      'such as catch, gymnax:<id> or your',
    ),
    (['--eval-every=1', '--set=eval.baseline=x'], "unknown baseline 'x'"),
    (['--env=catch', '--env=catch'], 'given twice'),
    (['--set=meta.num_inner_updates=0'], 'num_inner_updates must be at least'),
    (['--set=meta.rollout_length=1'], 'rollout_length must be at least 2'),
    (['--set=meta.weights.entrop=1'], r'did you mean meta\.weights\.entropy\?'),
    (['--set=meta.agents_at_once=0'], 'agents_at_once'),
    (['--set=meta.lifetimes=none'], 'lifetimes is a list of numbers'),
    (['--set=max_bad_in_a_row=0'], 'max_bad_in_a_row must be at least 1'),
    (['--num-agents=0'], 'num_agents must be at least 1'),
    (['--eval-env=catch'], 'say when, too, by --eval-every'),
    (['--eval-every=1', '--set=eval.experiment.batch_size=10'], 'a multiple'),
    (
      ['--eval-every=1', '--eval-env=gym:Pendulum-v1'],
      'only discrete actions',
    ),
    (['--devices=2'], 'cannot be spread over 2 devices'),
    (['--resume=nowhere'], 'holds no run'),
  ],
)
def test_mistakes_are_told_before_anything_is_written(
  arguments, message, tmp_path, monkeypatch, capsys, no_rule_folders
):
  monkeypatch.chdir(tmp_path)
  sizes = [] if '--resume=nowhere' in arguments else ['--set=meta.batch_size=3']
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
  """A rule is trained on with the settings it was trained with."""
  rule = small.make_agent('disco').update_rule
  eta, _ = rule.init_params(jax.random.PRNGKey(1))
  trained_with = dict(update_rule=dict(value_discount=0.9))
  metadata = dict(config=dict(settings=dict(agent=trained_with)))
  file_format.save(tmp_path / 'x.npz', eta, metadata)
  name = 'gym:tests.scripted:ScriptedGym'
  arguments = [f'--init={tmp_path / "x.npz"}', '--eval-every=2', '--dry-run']
  arguments += [f'--eval-env={name}', f'--set=eval.env.{name}.num_workers=1']
  assert _meta_train(*arguments) == 0
  config = json.loads(capsys.readouterr().out)
  assert config['settings']['eval']['env'][name]['num_workers'] == 1
  assert config['settings']['agent']['update_rule']['value_discount'] == 0.9
  kind = dict(update_rule_name='disco')
  assert config['rule_settings'] == trained_with | kind


def test_only_agents_that_ended_an_episode_count():
  assert rule_evaluation.mean_return([1.0, float('nan'), 2.0]) == 1.5
  assert np.isnan(rule_evaluation.mean_return([float('nan')]))


@pytest.mark.parametrize(
  ('value', 'initial', 'baseline', 'score'),
  [
    (0.5, -0.5, 1.5, 0.5),
    (1.5, -0.5, 1.5, 1.0),
    (1.0, 0.5, -0.5, 0.5),  # A baseline that is worse does not turn it round.
    (10.5, 10.0, 10.1, 0.5 / 1.01),  # Near each other: a tenth of the larger.
    (3.0, 0.0, 0.0, 3.0),
    (3.0, 2.0, np.nan, 5.0),
    (3.0, np.nan, 2.0, 5.0),
    (3.0, np.nan, np.nan, 3.0),
  ],
)
def test_scores_are_normalized(value, initial, baseline, score):
  actual = rule_evaluation.normalized_score(value, initial, baseline)
  np.testing.assert_allclose(actual, score, 1e-6)


def _write(path, returns, **more):
  rows = [
    dict(iteration=i, seed=0, **{**more, 'final_return': value})
    for i, value in returns.items()
  ]
  path.unlink(missing_ok=True)
  metrics_table.append_csv(path, rows)


def test_no_environment_outweighs_another(tmp_path):
  """By plain averages the large returns would decide."""
  nan = float('nan')
  _write(tmp_path / 'evaluations_small.csv', {0: 0.0, 1: 1.0, 2: 0.1})
  _write(tmp_path / 'baseline_small.csv', {0: 1.0})
  _write(tmp_path / 'evaluations_gym_large.csv', {0: 10.0, 1: 50.0, 2: 90.0})
  _write(tmp_path / 'baseline_gym_large.csv', {0: 110.0})
  _write(tmp_path / 'evaluations_never.csv', {0: nan, 1: nan, 2: nan})
  scores = rule_evaluation.scores(tmp_path, ['small', 'gym:large', 'never'])
  wanted = {0: 0.0, 1: (1.0 + 0.4) / 2, 2: (0.1 + 0.8) / 2}
  assert scores == pytest.approx(wanted)
  # Who ended no episode where others did has no score.
  _write(tmp_path / 'evaluations_never.csv', {0: 1.0, 1: nan, 2: 1.0})
  scores = rule_evaluation.scores(tmp_path, ['small', 'gym:large', 'never'])
  assert scores.keys() == {0, 2}


def test_meta_training_runs_are_compared(tmp_path, capsys):
  """By environment; the table shows fresh agents and the baseline too."""
  for n, name in enumerate(('one', 'other')):
    run = tmp_path / name
    run.mkdir()
    asked = dict(env=['catch', 'gymnax:X'], eval_env=['catch'])
    config = dict(command='meta-train', rule='random', asked=asked)
    (run / 'config.json').write_text(json.dumps(config))
    columns = {'return/catch': n + 0.25, 'return/gymnax:X': 70.0}
    metrics = dict.fromkeys(range(1, 4), 0.0)
    _write(run / 'metrics.csv', metrics, **columns)
    _write(run / 'evaluations_catch.csv', {0: -0.5, 2: n + 0.75})
    _write(run / 'baseline_catch.csv', {0: 0.875})
  folders = [str(tmp_path / name) for name in ('one', 'other')]
  out = tmp_path / 'c.png'
  assert main.main(['compare', *folders, f'--out={out}']) == 0
  lines = capsys.readouterr().out.splitlines()
  shown = [line.split()[1:] for line in lines[2:6]]
  assert shown[0] == ('random catch 3 0.250 0.250 -0.500 0.750 0.875'.split())
  assert shown[1] == 'random gymnax:X 3 70.000 70.000 - - -'.split()
  assert shown[2][-2] == '1.750'
  assert out.read_bytes()[:4] == b'\x89PNG'

  mine = f'--out={tmp_path / "d.png"}'
  assert main.main(['compare', *folders, mine, '--column=return/catch']) == 0
  for arguments, message in [
    (['--column=x'], "no column 'x'"),
    (['--x=env_steps'], 'drawn over meta-updates'),
  ]:
    more = [*arguments, f'--out={tmp_path / "e.png"}']
    assert main.main(['compare', *folders, *more]) == 2
    assert message in capsys.readouterr().err
  config = dict(command='eval', rule='x', asked=dict(env='catch'))
  (tmp_path / 'one' / 'config.json').write_text(json.dumps(config))
  assert main.main(['compare', *folders, f'--out={tmp_path / "e.png"}']) == 2
  assert 'compare those of one command at a time' in capsys.readouterr().err


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
  assert 'no parameters that could be trained' in capsys.readouterr().err


def test_a_trained_rule_goes_on_with_a_small_learning_rate(tmp_path, capsys):
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
  (tmp_path / 'config.json').write_text(json.dumps(dict(command='eval')))
  assert _meta_train('--steps=1', f'--out={tmp_path}') == 2
  assert 'already holds a run' in capsys.readouterr().err
  assert main.main(['meta-train', '--resume', str(tmp_path)]) == 2
  assert 'not a run of disco-rl meta-train' in capsys.readouterr().err
