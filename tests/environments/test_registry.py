"""Environments by name: known names, and suggestions in messages."""

import importlib.util

import pytest

from disco_rl.environments import registry
from disco_rl.evaluation import evaluate
from disco_rl.evaluation import population
from disco_rl.meta_training import meta_train
from tests.support import environments


def test_unknown_environments_and_settings_are_refused():
  for name, message in {
    'pong': r"environment 'pong'.*catch.*gym:<id>",
    'gymm:CartPole-v1': r'did you mean gym:CartPole-v1\?',
    'gym:CartPol-v1': r'did you mean CartPole-v1',
    'gymnax:Breakout': r'did you mean Breakout-MinAtar',
    'atari:Ping': r'did you mean pong',
    'dm:tests.support.scripted': r'found: write dm:module:function',
    'dm:tests.support.scripted:Nothing': r'has no function Nothing',
    'gym:': r'write gym:<id>',
    'gym:Pendulum-v1': r'gym:Pendulum-v1 has actions Box.*only discrete',
    'gymnax:Pendulum-v1': r'only discrete',
    'atari:Joust': r'unknown Atari game',
    'dmlab:explore': r'^cannot make dmlab:explore: .* dm:my_module:make_env$',
  }.items():
    with pytest.raises(ValueError, match=message):
      registry.get_environment(name, 2)
  with pytest.raises(ValueError, match=r"\['row'\] of catch.*'rows'"):
    registry.get_environment('catch', 2, row=5)
  env = registry.get_environment('catch', 2, rows=5)
  assert env.single_observation_spec()['observation'].shape == (5, 8, 1)


def test_missing_packages_are_named_with_their_extra(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  for family in ('gym', 'gymnax', 'atari', 'procgen', 'crafter', 'nethack'):
    with pytest.raises(ValueError, match='is not installed') as caught:
      registry.default_settings(f'{family}:Anything')
    extra, name = f'[{family}]', f"'{family}>="
    assert extra in str(caught.value) or name in str(caught.value)


@pytest.mark.parametrize(
  ('name', 'meant'),
  [
    ('CartPole-v1', 'gym:CartPole-v1'),
    ('ALE/Pong-v5', 'atari:Pong'),
    ('PongNoFrameskip-v4', 'atari:Pong'),
    ('Breakout-MinAtar', 'gymnax:Breakout-MinAtar'),
    ('cath', 'catch'),
    ('gymn:CartPole-v1', 'gym:CartPole-v1'),
  ],
)
def test_names_without_their_family_are_suggested(name, meant):
  with pytest.raises(ValueError, match=f'did you mean {meant}'):
    registry.default_settings(name)


def test_an_object_is_refused_where_a_function_is_wanted():
  env = registry.get_environment('catch', 2)
  message = 'by its name or by a function that makes one'
  with pytest.raises(ValueError, match=message):
    evaluate.evaluate(env, 'actor_critic')
  with pytest.raises(ValueError, match=message):
    population.Population(env, None, None)
  with pytest.raises(ValueError, match=message):
    meta_train.meta_train(env)
  with pytest.raises(ValueError, match='must be registered as a function'):
    registry.register_environment('mine', env)


def test_an_environment_of_ones_own_in_two_lines():
  make = lambda batch_size, _: environments.make_scripted(batch_size)
  registry.register_environment('mine', make)
  registry.register_environment('mine', make)  # As in a notebook.
  assert registry.get_environment('mine', 3).batch_size == 3
  for taken in ('catch', 'gym', 'gym:mine'):
    with pytest.raises(ValueError, match=r'^an environment cannot be registe'):
      registry.register_environment(taken, environments.make_scripted)


@pytest.mark.parametrize('name', ['a\nb', '\x1b[31m', 'a\0', '', None, 3])
def test_names_that_cannot_be_printed_are_refused(name):
  with pytest.raises(ValueError, match=r'cannot be registered as .*') as caught:
    registry.register_environment(name, environments.make_scripted)
  assert str(caught.value).isprintable()
