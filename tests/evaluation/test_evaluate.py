"""`disco_rl.evaluate`: an evaluation in one call, with or without files."""

import json

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.cli import main
from disco_rl.config import batching as batching_lib
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.evaluation import plan as plan_lib
from disco_rl.evaluation import training
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import files
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from tests.support import runs
from tests.support import small

SETTINGS = {
  'agent.net_settings.net_args.dense': (9, 8),
  'checkpoint_every': 8,
}


def _evaluate(**changes):
  """16 iterations of two seeds, four to a row."""
  kwargs = dict(
    env='catch',
    rule='actor_critic',
    seeds=(0, 1),
    num_iterations=16,
    batching=batching_lib.Batching(**small.SIZES),
    env_settings=dict(rows=5, columns=4),
    settings=SETTINGS,
    devices=jax.devices()[:1],
    chunk_size=4,
  )
  return disco_rl.evaluate(**{**kwargs, **changes})


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """An uninterrupted evaluation: its folder and its result."""
  out = tmp_path_factory.mktemp('runs') / 'whole'
  return out, _evaluate(out=out)


def _without(tree, *names):
  return {name: value for name, value in tree.items() if name not in names}


def test_writes_what_the_command_writes(whole, tmp_path):
  out, result = whole
  other = tmp_path / 'by_command'
  words = ['eval', '--rule=actor_critic', '--steps=16', '--num-seeds=2']
  words += ['--devices=1', '--quiet', f'--out={other}']
  settings = {
    **{f'batching.{name}': value for name, value in small.SIZES.items()},
    'env.rows': 5,
    'env.columns': 4,
    'chunk_size': 4,
    **SETTINGS,
  }
  words += [f'--set={name}={value}' for name, value in settings.items()]
  assert main.main(words) == 0
  runs.check_same_files(out, other)
  assert {'curve.png', 'params_1.npz', 'state.npz'} <= {
    path.name for path in out.iterdir()
  }
  ours, theirs = (
    json.loads((folder / 'config.json').read_text()) for folder in (out, other)
  )
  assert _without(ours, 'request', 'origins') == _without(
    theirs, 'request', 'origins'
  )
  assert metrics.to_csv(result.rows) == (out / 'metrics.csv').read_text()
  # So both can be opened, and resumed by the command.
  jax.tree.map(
    lambda saved, one: np.testing.assert_array_equal(saved, one[1]),
    disco_rl.load_run(out).params[1],
    result.state.learner.params,
  )


def test_without_a_folder_the_rows_are_the_same(whole, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert _evaluate().rows == whole[1].rows
  assert not list(tmp_path.iterdir())


def _check_same_rows(result, wanted, checkpoint):
  """Rows before the checkpoint come from a file with seven digits."""
  assert metrics.to_csv(result.rows) == metrics.to_csv(wanted.rows)
  later = lambda rows: [row for row in rows if row['iteration'] > checkpoint]
  assert later(result.rows) == later(wanted.rows)


class _Interrupted(BaseException):
  """Acts like Ctrl-C at a chosen moment."""


@pytest.mark.parametrize('env', ['catch', 'catch_numpy'])
def test_resumed_after_an_interruption_it_is_the_same_run(
  env, tmp_path, monkeypatch
):
  """It continues from the last checkpoint; later rows are computed again."""
  wanted = _evaluate(env=env, out=tmp_path / 'whole')
  out = tmp_path / 'broken'
  with monkeypatch.context() as patch:
    advance = training.Training.advance

    def interrupted(self, state, total):
      if self.done(state) == 12:
        raise _Interrupted
      return advance(self, state, total)

    patch.setattr(training.Training, 'advance', interrupted)
    with pytest.raises(_Interrupted):
      _evaluate(env=env, out=out)
  assert metrics.read_csv(out / 'metrics.csv')[-1]['iteration'] == 12
  result = _evaluate(env=env, out=out, resume=True)
  assert len(result.rows) == 8
  _check_same_rows(result, wanted, checkpoint=8)
  jax.tree.map(
    np.testing.assert_array_equal,
    result.state.learner,
    wanted.state.learner,
  )
  runs.check_same_files(out, tmp_path / 'whole')


def test_a_finished_run_is_resumed_for_more_steps_only(whole, tmp_path):
  out = tmp_path / 'short'
  _evaluate(out=out, num_iterations=8)
  _check_same_rows(_evaluate(out=out, resume=True), whole[1], checkpoint=8)
  # Nothing is left to do, and nothing changes.
  _check_same_rows(_evaluate(out=out, resume=True), whole[1], checkpoint=16)
  with pytest.raises(
    ValueError, match='is at iteration 16 already, beyond the 8'
  ):
    _evaluate(out=out, resume=True, num_iterations=8)


def test_what_cannot_be_resumed_is_refused(whole, tmp_path):
  out, _ = whole
  with pytest.raises(ValueError, match='needs the folder of the run'):
    _evaluate(resume=True)
  with pytest.raises(run_folder.RunFolderError, match='holds no run'):
    _evaluate(out=tmp_path / 'nothing', resume=True)
  with pytest.raises(run_folder.RunFolderError, match='already holds a run'):
    _evaluate(out=out)
  with pytest.raises(
    ValueError, match=r'with other settings.*learning_rate was 0\.01, is 0\.1'
  ) as refusal:
    changed = {**SETTINGS, 'agent.learning_rate': 0.1}
    _evaluate(out=out, resume=True, settings=changed)
  # A folder that was refused is not locked by it.
  run_folder.RunFolder.reopen(out).close()
  del refusal


def test_environments_and_settings_without_a_name(tmp_path):
  """They can be resumed in Python with the same objects, not by a command."""
  agent_settings = small.settings('actor_critic')
  before = agent_settings.to_json_best_effort()
  kwargs = dict(
    env=registry.environment_fn('catch', rows=5, columns=4),
    rule=None,
    agent_settings=agent_settings,
    env_settings=None,
    settings={'agent.learning_rate': 3e-3, 'checkpoint_every': 8},
  )
  wanted = _evaluate(**kwargs, out=tmp_path / 'whole')
  out = tmp_path / 'x'
  _evaluate(**kwargs, out=out, num_iterations=8)
  assert agent_settings.to_json_best_effort() == before
  with pytest.raises(run_folder.RunFolderError, match='was made in Python'):
    disco_rl.load_run(out)
  assert main.main(['eval', f'--resume={out}', '--steps=16', '--quiet']) == 2
  result = _evaluate(**kwargs, out=out, resume=True)
  _check_same_rows(result, wanted, checkpoint=8)


def test_any_setting_can_be_set_by_its_path(whole):
  """Settings that are also arguments can be, too; all are checked."""
  sizes = {f'batching.{name}': value for name, value in small.SIZES.items()}
  board = {'env.rows': 5, 'env.columns': 4}
  result = _evaluate(
    batching=None,
    env_settings=None,
    chunk_size=None,
    settings={**SETTINGS, **sizes, **board, 'chunk_size': 4},
  )
  assert result.rows == whole[1].rows
  for name, value, message in [
    ('agent.learning_rat', 1.0, r'did you mean agent\.learning_rate'),
    ('agent.learning_rate', -1.0, r'agent\.learning_rate must be a number'),
    ('batching.num_envs', 9, r'num_envs \(9\) must be at most batch_size'),
  ]:
    with pytest.raises(ValueError, match=message):
      _evaluate(batching=None, settings={**SETTINGS, **sizes, name: value})


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(num_seeds=2), 'seeds or num_seeds, not both'),
    (dict(seeds=(1, 1)), 'different numbers'),
    (dict(seeds=(-1,)), 'seed'),
    (dict(num_iterations=0), 'num_iterations must be a whole number of at l'),
    (dict(num_iterations=3), 'is too few to learn anything: the first 3'),
    (dict(chunk_size=0), 'chunk_size must be a whole number of at least 1'),
    (dict(env='cath'), 'did you mean catch'),
    (dict(env_settings=dict(row=5)), 'unknown setting'),
    (
      dict(env=registry.environment_fn('catch')),
      'env_settings need an environment that is given by name',
    ),
  ],
)
def test_mistakes_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    _evaluate(**changes)


def test_final_returns_are_those_of_the_last_iterations(whole):
  _, result = whole
  assert result.name == 'actor_critic'
  for num_iterations in (4, 100):
    averages = result.final_returns(num_iterations)
    assert averages == metrics.average_returns(result.rows, num_iterations)
    assert sorted(averages) == [0, 1]
  assert result.final_returns(4) != result.final_returns()
  with pytest.raises(ValueError, match=r'^num_iterations must be a whole num'):
    result.final_returns(0)


def test_default_settings_have_the_network_that_suits_the_environment():
  rule = rule_lib.Rule('disco', 'disco', None)
  names = {
    env: resolve.agent_settings(rule, env).net_settings.name
    for env in (None, 'catch', 'gymnax:Breakout-MinAtar')
  }
  assert list(names.values()) == ['mlp', 'mlp', 'conv']


def test_parameters_on_another_device_are_moved():
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(0)
  )
  population, _ = small.make_population('disco', num_devices=2)
  on_device = jax.device_put(eta, jax.devices()[3])
  trainable = training.Training(population, on_device)
  placed = jax.tree.leaves(trainable._eta)[0]
  assert placed.devices() == set(jax.devices()[:2])


def test_a_rule_must_be_the_one_of_the_settings():
  with pytest.raises(ValueError, match='settings are for policy_gradient'):
    disco_rl.evaluate(
      'catch', 'actor_critic', small.settings('policy_gradient')
    )


def test_a_run_is_not_resumed_with_another_rule_or_environment(tmp_path):
  _evaluate(out=tmp_path, num_iterations=4, seeds=(0,))
  more = dict(out=tmp_path, num_iterations=8, seeds=(0,), resume=True)
  with pytest.raises(ValueError, match='with env = catch, not'):
    _evaluate(**more, env='catch_numpy')
  # Final parameters of the shorter run are removed.
  (tmp_path / 'params_0.npz').write_bytes(b'old')
  _evaluate(**more)
  assert (tmp_path / 'params_0.npz').read_bytes() != b'old'


def test_a_replay_is_not_resumed_on_other_devices(tmp_path):
  _evaluate(out=tmp_path, num_iterations=4, seeds=(0,))
  path = tmp_path / 'config.json'
  config = json.loads(path.read_text())
  assert config['num_devices'] == 1
  path.write_text(json.dumps({**config, 'num_devices': 2}))
  with pytest.raises(ValueError, match='sharded over 2 devices'):
    _evaluate(out=tmp_path, num_iterations=8, seeds=(0,), resume=True)


def test_networks_by_name():
  plan = plan_lib.Plan(dict(rule='actor_critic', net='conv', core='lstm'))
  origins = plan.config['origins']
  assert origins['agent.net_settings.name'] == '--net'
  assert origins['agent.net_settings.net_args.core'] == '--core'
  with pytest.raises(ValueError, match='leave out net and core'):
    disco_rl.evaluate(
      'catch', 'actor_critic', small.settings('actor_critic'), net='conv'
    )
  with pytest.raises(ValueError, match=r'unknown network .nett.'):
    disco_rl.evaluate('catch', 'actor_critic', net='nett')
  with pytest.raises(ValueError, match=r'unknown preset .atary.'):
    disco_rl.evaluate('catch', 'actor_critic', preset='atary')


def test_a_replay_that_is_not_saved_is_filled_again(tmp_path):
  out = tmp_path / 'x'
  settings = {**SETTINGS, 'checkpoint_replay': 'never'}
  same = dict(out=out, settings=settings, chunk_size=2)
  _evaluate(num_iterations=8, **same)
  saved = files.read_npz(out / 'state.npz')
  assert saved and not any('buffer' in name for name in saved)
  with pytest.warns(UserWarning, match='the replay is not part of the check'):
    result = _evaluate(resume=True, **same)
  waits = {row['iteration']: np.isnan(row['total_loss']) for row in result.rows}
  # Three iterations, at the start and again.
  assert waits == {i: i in (2, 10) for i in range(2, 17, 2)}
  assert int(result.state.buffer.num_added) == 8 * small.SIZES['num_envs']
  assert int(result.state.iteration) == 16
