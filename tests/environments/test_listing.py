"""Lists of environments."""

import importlib.util

import pytest

from disco_rl.environments import host_suites
from disco_rl.environments import listing
from disco_rl.environments import registry
from tests.support import environments


def _names(pattern=''):
  return [listed.name for listed in listing.list_environments(pattern)]


def test_all_names_can_be_looked_up():
  names = _names()
  for name in ('catch', 'gym:CartPole-v1', 'atari:SpaceInvaders', 'tasks:all'):
    assert name in names
  assert len(names) > 120 and len(set(names)) == len(names)
  # Continuous actions, other families, other modules.
  for name in ('gym:Pendulum-v1', 'gym:ALE/Pong-v5', 'gymnax:Pendulum-v1'):
    assert name not in names
  for listed in listing.list_environments():
    if listed.is_installed and '<' not in listed.name:
      registry.default_settings(listed.name)


@pytest.mark.parametrize(
  ('pattern', 'expected'),
  [
    ('atari:S*', 'atari:Skiing'),
    ('ATARI:skii', 'atari:Skiing'),
    ('*cart?ole*', 'gym:CartPole-v1'),
    ('minatar', 'gymnax:Breakout-MinAtar'),
    ('dm:', 'dm:<module>:<factory>'),
  ],
)
def test_patterns(pattern, expected):
  names = _names(pattern)
  assert expected in names and 'tasks:all' not in names


def test_observations_of_few_are_read_from_the_environments():
  (listed,) = listing.list_environments('gymnax:Breakout-MinAtar')
  assert listed == listing.Listed(
    name='gymnax:Breakout-MinAtar',
    observation='10x10x4 f32',
    actions='3',
    where='device',
    extra='gymnax',
  )
  catches = listing.list_environments('catch')
  assert [x.where for x in catches][:2] == ['device', 'host']
  assert catches[0].observation == '8x8x1 f32' and catches[0].actions == '3'
  # Of many, they are those of the family, and none are made.
  every = {x.name: x for x in listing.list_environments('atari:')}
  assert every['atari:Pong'].actions == '3-18'


@pytest.mark.parametrize(
  'name', ['atari:Pong', 'procgen:maze', 'nethack:Score', 'crafter:reward']
)
def test_what_families_declare_is_so(name):
  family = name.partition(':')[0]
  environments.skip_without(family)
  (listed,) = (x for x in listing.list_environments(name) if x.name == name)
  observation, actions = host_suites.DECLARED[family]
  assert listed.observation == observation and not listed.problem
  low, _, high = actions.partition('-')
  assert int(low) <= int(listed.actions) <= int(high or low)


def test_missing_packages_and_failures_are_listed(monkeypatch):
  find_spec = importlib.util.find_spec
  monkeypatch.setattr(
    importlib.util,
    'find_spec',
    lambda name: None if name == 'ale_py' else find_spec(name),
  )
  (listed,) = listing.list_environments('atari:Pong')
  assert listed.name == 'atari:<Game>' and not listed.is_installed
  assert listed.extra == 'atari'

  def fail(batch_size, settings):
    raise OSError('no such level')

  registry.register_environment('own_levels', fail)
  (listed,) = listing.list_environments('own_levels')
  assert 'no such level' in listed.problem and not listed.observation
