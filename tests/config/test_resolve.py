"""Resolving a request into all settings of a run."""

import jax
import pytest

from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as meta_lib
from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.rule_zoo import rule as rule_lib
from tests.support import small


def _evaluation(rule='actor_critic', **request):
  rule = rule_lib.load_rule(rule) if isinstance(rule, str) else rule
  return resolve.evaluation({**resolve.EVALUATION, **request}, rule)


def _meta_training(rule=None, **request):
  return resolve.meta_training({**resolve.META_TRAINING, **request}, rule)


@pytest.mark.parametrize(
  ('path', 'meant'),
  [
    ('learning_rate', r'did you mean agent\.learning_rate\?'),
    ('rows', r'did you mean env\.rows\?'),
    ('agent.lerning_rate', r'did you mean agent\.learning_rate\?'),
    ('batch_size', r'did you mean batching\.batch_size\?'),
  ],
)
def test_settings_without_their_group_are_suggested(path, meant):
  with pytest.raises(ValueError, match=meant):
    _evaluation(set=[f'{path}=1'])


def test_too_few_steps_to_learn_anything_are_refused():
  with pytest.raises(ValueError, match='steps 31 is too few to learn'):
    _evaluation(steps=31)
  _evaluation(steps=32)


def test_workers_must_divide_the_environments():
  name = 'gym:CartPole-v1'
  with pytest.raises(ValueError, match=r'^env\.num_workers must .*, got 3'):
    _evaluation(env=name, set=['env.num_workers=3'])
  _evaluation(env=name, set=['env.num_workers=2'])
  path = f'eval.env.{name}.num_workers'
  with pytest.raises(ValueError, match=rf'^{path} must .* \(2\), got 3'):
    _meta_training(eval_env=[name], eval_every=1, set=[f'{path}=3'])


def test_the_defaults_have_no_origins():
  layers = _evaluation()
  assert layers.origins == {}
  assert batching_lib.Batching(**layers.settings.batching) == (
    batching_lib.Batching()
  )
  layers = _meta_training()
  assert layers.origins == {}
  assert resolve.meta_config(layers.settings) == meta_lib.Config()


def test_what_a_rule_was_trained_with_comes_from_the_rule():
  trained_with = rule_lib.rule_settings(small.settings('disco'))
  rule = rule_lib.Rule('mine', 'disco', {}, trained_with)
  layers = _evaluation(rule, set=['agent.update_rule.num_bins=21'])
  origins = layers.origins
  assert origins['agent.update_rule.value_discount'] == 'rule mine'
  assert origins['agent.update_rule.net.hidden_size'] == 'rule mine'
  assert origins['agent.update_rule.num_bins'] == '--set'
  assert layers['agent.update_rule.value_discount'] == 0.97
  assert layers['agent.update_rule.num_bins'] == 21
  layers = _meta_training(rule)
  assert layers.origins['meta.learning_rate'] == 'rule mine'
  assert layers['meta.learning_rate'] == meta_lib.FINE_TUNING_LEARNING_RATE
  assert layers['agent.update_rule.num_bins'] == 11


def test_an_agent_of_ones_own_does_not_come_from_the_rule():
  own = small.settings('disco')
  rule = rule_lib.Rule('mine', 'disco', {}, rule_lib.rule_settings(own))
  layers = resolve.evaluation(resolve.EVALUATION, rule, agent=own)
  assert layers.origins == {}
  layers = resolve.meta_training(resolve.META_TRAINING, rule, agent=own)
  assert layers.origins == {'meta.learning_rate': 'rule mine'}


def test_every_origin_is_a_setting():
  """From the rule, from the preset and from the user."""
  rule = rule_lib.load_rule('catch_small')
  layers = _evaluation(
    rule, preset='atari', steps=100_000, set=['chunk_size=4']
  )
  assert {'rule catch_small', 'preset atari', '--set', '--steps'} == set(
    layers.origins.values()
  )
  assert all(path in layers for path in layers.origins)


def test_seeds():
  assert _evaluation(seed=3, num_seeds=2).settings.seeds == (3, 4)
  assert _evaluation(seeds=[5, 1]).settings.seeds == (5, 1)
  for request, message in [
    (dict(seed=-1), 'seed must be a whole number between 0 and 2147483647'),
    (dict(num_seeds=0), 'num_seeds must be a whole number of at least 1'),
    (dict(seed=2**31 - 1, num_seeds=2), 'seed 2147483647 is too large for 2'),
  ]:
    with pytest.raises(ValueError, match=message):
      _evaluation(**request)


def test_each_environment_has_a_network_and_a_critic_of_its_own():
  envs = ['catch', 'gymnax:Breakout-MinAtar']
  change = 'critic_net.gymnax:Breakout-MinAtar.net_args.channels=4,4'
  layers = _meta_training(env=envs, set=[change, 'net.catch.net_args.dense=7'])
  settings = layers.settings
  catch, breakout = (resolve.meta_agent_settings(settings, env) for env in envs)
  assert catch.net_settings.name == catch.value_fn.net == 'mlp'
  assert catch.net_settings.net_args.dense == (7,)
  assert catch.value_fn.net_args.dense == (256, 256)
  assert breakout.net_settings.name == breakout.value_fn.net == 'conv'
  assert breakout.value_fn.net_args.channels == (4, 4)
  assert breakout.net_settings.net_args.channels == (16,)
  # Neither is a setting of all agents.
  assert 'agent.net_settings' not in layers
  assert 'agent.value_fn.net' not in layers
  assert 'agent.value_fn.learning_rate' in layers


def test_an_agent_is_made_of_the_settings():
  """The agent accepts all resolved settings."""
  changes = [
    'net.catch.net_args.dense=9,8',
    'critic_net.catch.net_args.dense=6',
  ]
  settings = _meta_training(set=changes).settings
  own = resolve.meta_agent_settings(settings, 'catch')
  an_agent = small.make_agent('disco', own)
  state = jax.eval_shape(an_agent.initial_learner_state, jax.random.PRNGKey(0))
  widths = {x.shape[-1] for x in jax.tree.leaves(state.critic.params)}
  assert 6 in widths


def test_a_critic_has_the_torso_of_the_agent_unless_it_is_given():
  pytest.importorskip('gymnax')
  name = 'gymnax:Breakout-MinAtar'
  request = {**resolve.META_TRAINING, 'env': [name]}
  settings = resolve.meta_training(request, None).settings
  assert settings.net[name].name == settings.critic_net[name].net == 'conv'
  critic = types.ValueFnConfig(
    **{**agents.get_settings_critic(), 'net_args': dict(dense=(8,))}
  )
  settings = resolve.meta_training(request, None, critic=critic).settings
  assert settings.critic_net[name].net == 'mlp'
  assert tuple(settings.critic_net[name].net_args.dense) == (8,)


def test_what_has_no_effect_in_meta_training_is_refused():
  request = {**resolve.META_TRAINING, 'set': ['batching.min_replay_size=8']}
  settings = resolve.meta_training(request, None).settings
  with pytest.raises(ValueError, match='min_replay_size has no effect'):
    resolve.meta_config(settings)
  with pytest.raises(ValueError, match='devices must be at least 1'):
    resolve.meta_training({**resolve.META_TRAINING, 'devices': 0}, None)
  with pytest.raises(ValueError, match='need a period'):
    resolve.meta_training(
      {**resolve.META_TRAINING, 'eval_env': ['catch_numpy']}, None
    )


def test_no_devices_are_refused_as_they_were_given():
  with pytest.raises(ValueError, match='devices must be at least 1, got 0'):
    _meta_training(set=['devices=0'])


def test_new_steps_replace_those_of_a_request_wherever_they_are():
  request = dict(steps=3, set=[' steps = 4', 'env.rows=5'])
  request['settings'] = {'steps': 5, 'chunk_size': 2}
  changed = requests.prepare(request, resolve.EVALUATION, steps=6)
  assert changed['steps'] == 6 and changed['set'] == ['env.rows=5']
  assert changed['settings'] == {'chunk_size': 2}
  assert request['settings'] == {'steps': 5, 'chunk_size': 2}
  assert (
    requests.prepare(dict(settings=None), resolve.EVALUATION)['settings'] == {}
  )
  with pytest.raises(ValueError, match='set must be a list of texts'):
    requests.prepare(dict(set=[5]), resolve.EVALUATION, steps=6)


def test_seeds_that_add_up_to_too_much_are_named():
  seed = 2**31 - 3
  message = r'{}\.random_seed 2147483645 is too large for the seed {}, which'
  with pytest.raises(ValueError, match=message.format('env', 5)):
    _evaluation(env='catch_numpy', seed=5, set=[f'env.random_seed={seed}'])
  path = r'eval.env.catch_numpy'
  more = dict(eval_every=1, eval_env=['catch_numpy'])
  changes = [f'{path}.random_seed={seed}', 'eval.num_seeds=6']
  with pytest.raises(ValueError, match=message.format(path, 5)):
    _meta_training(**more, set=changes)


def test_too_many_environments_of_evaluations_on_the_host_are_refused():
  more = dict(eval_every=1, eval_env=['catch_numpy'])
  changes = ['eval.num_seeds=4096', 'eval.batching.num_envs=8']
  message = r'eval\.batching\.num_envs \(8\) for each of 4096 seeds makes 32768'
  with pytest.raises(ValueError, match=message):
    _meta_training(**more, set=changes)
