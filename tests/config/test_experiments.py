"""The published experiments as presets of meta-training."""

import logging

import pytest

from disco_rl.config import experiments
from disco_rl.config import populations
from disco_rl.config import resolve
from disco_rl.rule_zoo import rule as rule_lib

TWO = ['catch', 'catch_numpy']


def _resolve(*, rule=None, **request):
  request = {**resolve.META_TRAINING, 'preset': 'disco57', **request}
  return resolve.meta_training(request, rule)


def _counts(layers, envs):
  return list(populations.agents_by_env(layers.settings, envs).values())


def test_the_games_are_the_57_of_the_emulator():
  roms = pytest.importorskip('ale_py.roms')
  names = [rom.replace('_', '') for rom in roms.get_all_rom_ids()]
  games = [env.removeprefix('atari:').lower() for env in experiments._ATARI]
  assert len(set(games)) == 57 and set(games) <= set(names)


def test_the_games_are_the_16_of_procgen():
  pytest.importorskip('envpool')
  from disco_rl.environments.adapters import procgen_env

  games = {env.removeprefix('procgen:') for env in experiments._PROCGEN}
  assert games == set(procgen_env.GAMES)


def test_the_settings_are_those_published():
  """In two of the environments that need no other package."""
  layers = _resolve(env=TWO)
  settings = layers.settings
  assert settings.meta.num_inner_updates == 20
  assert settings.meta.learning_rate == 1e-3
  assert settings.meta.max_abs_update == 1
  assert settings.meta.adam_per_agent
  assert len(settings.meta.lifetimes) > 1
  sizes = settings.batching
  assert (sizes.batch_size, sizes.rollout_length) == (96, 29)
  assert sizes.fresh_in_batch and sizes.num_envs == 10  # 90% are replayed.
  assert settings.agent.update_rule.value_discount == 0.997
  assert settings.agent.value_fn.discount_factor == 0.997
  costs = settings.agent.hyper_params
  assert costs.pi_cost == costs.y_cost == costs.z_cost == 1
  assert costs.value_cost == 0.2
  assert sum(_counts(layers, TWO)) == settings.total_agents == 128
  assert settings.num_agents is None
  assert 'preset disco57' in layers.origins['meta.num_inner_updates']
  assert set(layers.origins.values()) == {'preset disco57'}
  resolve.meta_config(settings)  # The sizes fit each other.


def test_agents_of_games():
  pytest.importorskip('ale_py')
  layers = _resolve()
  games = experiments.get('disco57').envs
  counts = _counts(layers, games)
  assert sum(counts) == 128 and set(counts) == {2, 3}
  assert counts == sorted(counts, reverse=True)
  net = layers.settings.net['atari:Pong']
  assert net.net_args.channels == (256, 384, 384, 256)
  assert net.net_args.model_kwargs.lstm_size == 1024
  critic = layers.settings.critic_net['atari:Pong']
  assert critic.net_args.channels == net.net_args.channels
  assert layers.origins['net.atari:Pong.name'] == 'preset disco57'
  assert layers.settings.env['atari:Pong'].full_action_space


def test_missing_environments_are_named_and_not_replaced(caplog):
  pytest.importorskip('ale_py')
  pytest.importorskip('envpool')
  with caplog.at_level(logging.WARNING):
    layers = _resolve(preset='disco103')
  (record,) = caplog.records
  assert '73 of 103' in record.getMessage()
  assert 'DMLab' in record.getMessage()
  assert layers.settings.total_agents == 146  # Two in each of 73.
  for env in ('atari:Pong', 'procgen:maze'):
    net_args = layers.settings.net[env].net_args
    assert net_args.channels == (256, 384, 384, 256)
  caplog.clear()
  layers = _resolve(preset='disco103', env=TWO)
  assert layers.settings.total_agents == 206 and not caplog.records


@pytest.mark.parametrize('number', [2, 8, 64])
def test_a_scale_divides_every_size(number):
  whole = _resolve(env=TWO).settings
  layers = _resolve(env=TWO, scale=f'1/{number}')
  part = layers.settings
  assert part.total_agents == 128 // number
  batch_size = max(2, round(96 / number))
  assert part.batching.batch_size == batch_size
  assert part.batching.num_envs == max(1, round(0.1 * batch_size))
  steps = part.batching.replay_capacity * 29
  assert abs(steps - 220_000 / number) < 29 * 11
  dense = lambda settings: settings.net.catch.net_args.dense
  assert dense(part) == tuple(max(16, x // number) for x in dense(whole))
  critic = part.critic_net.catch.net_args.dense
  assert critic == tuple(max(16, 256 // number) for _ in range(2))
  # The structure, and the size of η, stay.
  assert part.meta == whole.meta
  assert part.agent.update_rule == whole.agent.update_rule
  assert part.batching.rollout_length == whole.batching.rollout_length
  assert layers.origins['batching.batch_size'] == (
    f'preset disco57 at scale 1/{number}'
  )
  assert layers.origins['meta.num_inner_updates'] == 'preset disco57'
  resolve.meta_config(part)


def test_the_least_sizes():
  layers = _resolve(env=TWO, scale='1/1000000')
  settings = layers.settings
  assert settings.total_agents == 2  # One in each environment.
  sizes = settings.batching
  assert (sizes.batch_size, sizes.num_envs, sizes.replay_capacity) == (2, 1, 20)
  assert settings.net.catch.net_args.dense == (16, 16)
  resolve.meta_config(settings)


def test_users_override_a_preset():
  layers = _resolve(
    env=TWO,
    scale='1/8',
    num_agents=3,
    set=['batching.batch_size=40', 'meta.num_inner_updates=5']
    + ['net.catch.net_args.dense=9', 'meta.lifetimes=7,8'],
  )
  settings = layers.settings
  assert settings.num_agents == 3 and settings.total_agents is None
  assert _counts(layers, TWO) == [3, 3]
  # What follows from the sizes follows from those that are set.
  assert settings.batching.num_envs == 4
  assert settings.batching.replay_capacity % 4 == 0
  assert settings.net.catch.net_args.dense == (9,)
  assert settings.meta.lifetimes == (7, 8)
  assert layers.origins['batching.batch_size'] == '--set'
  layers = _resolve(env=TWO, set=['num_agents=5'])
  assert layers.settings.total_agents is None
  assert _counts(layers, TWO) == [5, 5]


def test_a_trained_rule_keeps_its_learning_rate():
  rule = rule_lib.Rule('x', 'disco', None)
  layers = _resolve(env=['catch'], rule=rule, init='x')
  assert layers.settings.meta.learning_rate == 1e-5
  assert layers.origins['meta.learning_rate'] == 'rule x'


@pytest.mark.parametrize(
  ('given', 'message'),
  [
    (dict(preset='disco58'), 'did you mean disco57'),
    (dict(preset=None, scale='1/2'), 'makes the sizes of a preset smaller'),
    (dict(scale='2'), 'must be 1/N'),
    (dict(set=['total_agents=1']), 'must be at least the number of env'),
    (dict(set=['total_agents=4', 'num_agents=2']), 'cannot both be given'),
    (dict(set=['total_agents=none']), 'cannot both be none'),
  ],
)
def test_what_is_refused(given, message):
  with pytest.raises(ValueError, match=message):
    _resolve(**{'env': TWO, **given})


def test_agents_in_all_environments_without_a_preset():
  layers = _resolve(preset=None, env=TWO, set=['total_agents=5'])
  assert _counts(layers, TWO) == [3, 2]
