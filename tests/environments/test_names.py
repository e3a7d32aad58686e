"""Names of environments in other forms."""

import pytest

from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.environments import names
from disco_rl.environments import registry
from disco_rl.meta_training import plan as meta_plan
from tests.support import environments


@pytest.mark.parametrize(
  ('given', 'canonical'),
  [
    ('gymnax/CartPole-v1', 'gymnax:CartPole-v1'),
    ('atari/Pong', 'atari:Pong'),
    ('dm/my_module:make_env', 'dm:my_module:make_env'),
    ('gym/ALE/Pong-v5', 'gym:ALE/Pong-v5'),
    # These have another meaning.
    ('gym:ALE/Pong-v5', 'gym:ALE/Pong-v5'),
    ('ALE/Pong-v5', 'ALE/Pong-v5'),
    ('./gym/x', './gym/x'),
    ('catch', 'catch'),
    (3, 3),
  ],
)
def test_a_slash_is_a_synonym_of_the_colon(given, canonical):
  assert registry.canonical(given) == canonical


def test_the_registry_accepts_both():
  colon, slash = 'gymnax:MemoryChain-bsuite', 'gymnax/MemoryChain-bsuite'
  assert registry.default_settings(slash) == registry.default_settings(colon)
  assert registry.settings_fields(slash) == registry.settings_fields(colon)
  assert registry.get_environment(slash, 2).batch_size == 2
  assert registry.environment_fn(slash).__name__ == (
    registry.environment_fn(colon).__name__
  )
  network = registry.suggested_network('gymnax/Breakout-MinAtar')
  assert network == 'conv'
  assert not registry.is_on_host(slash) and registry.is_on_host('gym/X-v1')
  with pytest.raises(ValueError, match='did you mean gymnax:CartPole-v1'):
    registry.default_settings('gymnx:CartPole-v1')
  with pytest.raises(ValueError, match='which means gym:X'):
    registry.register_environment('gym/X', environments.make_scripted)


def test_requests_record_the_canonical_name():
  request = requests.prepare(dict(env='gymnax/CartPole-v1'), resolve.EVALUATION)
  assert request['env'] == 'gymnax:CartPole-v1'
  request = requests.prepare(
    dict(
      env=['catch', 'gymnax/CartPole-v1'],
      eval_env=['gymnax/CartPole-v1'],
      set=[
        'env.gymnax/CartPole-v1.params.max_steps_in_episode = 9',
        'eval.env.gymnax/CartPole-v1.params.force_mag=1/2',
        'agent.x=gymnax/y',
      ],
      settings={'net.gymnax/CartPole-v1.net_args.dense': (8,)},
    ),
    resolve.META_TRAINING,
  )
  assert request['env'] == ['catch', 'gymnax:CartPole-v1']
  assert request['eval_env'] == ['gymnax:CartPole-v1']
  assert request['set'] == [
    'env.gymnax:CartPole-v1.params.max_steps_in_episode= 9',
    'eval.env.gymnax:CartPole-v1.params.force_mag=1/2',
    'agent.x=gymnax/y',
  ]
  assert list(request['settings']) == ['net.gymnax:CartPole-v1.net_args.dense']


def test_a_plan_of_meta_training_has_them_once():
  path = 'env.gymnax/CartPole-v1.params.max_steps_in_episode=9'
  plan = meta_plan.Plan(dict(env=['gymnax/CartPole-v1'], set=[path]))
  assert plan.config['request']['env'] == ['gymnax:CartPole-v1']
  settings = plan.settings.env['gymnax:CartPole-v1']
  assert settings.params.max_steps_in_episode == 9
  with pytest.raises(ValueError, match='gymnax:CartPole-v1 is given twice'):
    meta_plan.Plan(dict(env=['gymnax/CartPole-v1', 'gymnax:CartPole-v1']))


@pytest.mark.parametrize(
  ('name', 'meant'),
  [
    ('Craftax-Classic-Symbolic-v1', 'craftax:Craftax-Classic-Symbolic-v1'),
    ('Navix-Empty-5x5-v0', 'navix:Navix-Empty-5x5-v0'),
    ('MiniGrid-Empty-5x5', 'xminigrid:MiniGrid-Empty-5x5'),
    ('MiniGrid-Empty-5x5-v0', 'gym:MiniGrid-Empty-5x5-v0'),
    ('sokobam', 'sokoban'),
  ],
)
def test_names_as_other_packages_write_them(name, meant):
  message = names.unknown(name, registry.FAMILIES, registry.known_names())
  assert f'did you mean {meant}?' in message
