"""Presets: the published numbers, and settings derived from them."""

import dataclasses
import pathlib
import re

import pytest

from disco_rl import memory
from disco_rl import optimizers
from disco_rl.config import batching as batching_lib
from disco_rl.config import measured
from disco_rl.config import presets
from disco_rl.config import resolve
from disco_rl.evaluation import plan as plan_lib
from disco_rl.rule_zoo import rule as rule_lib
from tests.support import environments

ROOT = pathlib.Path(__file__).parents[2]
DISCO = rule_lib.Rule('disco', 'disco', None)


def _resolve(**request):
  """The settings of an evaluation with the discovered rule."""
  return resolve.evaluation({**resolve.EVALUATION, **request}, DISCO)


# Straight from the table of the published evaluations.
PUBLISHED = dict(
  learning_rate=dict(
    atari=3e-4,
    crafter=3e-4,
    dmlab=5e-4,
    nethack=1e-4,
    procgen=3e-4,
    sokoban=3e-4,
  ),
  warmup_steps=dict(
    atari=5e6, crafter=0, dmlab=1e6, nethack=1e7, procgen=1e6, sokoban=0
  ),
  weight_decay=dict(
    atari=0.1, crafter=0.3, dmlab=0.01, nethack=0.03, procgen=0.1, sokoban=0.1
  ),
  max_abs_update=dict(
    atari=1, crafter=1, dmlab=1, nethack=0.3, procgen=1, sokoban=1
  ),
  discount=dict(
    atari=0.997,
    crafter=0.997,
    dmlab=0.99,
    nethack=0.997,
    procgen=0.997,
    sokoban=0.997,
  ),
  frame_stack=dict(
    atari=4, crafter=32, dmlab=1, nethack=4, procgen=4, sokoban=4
  ),
  batch_size=dict(
    atari=96, crafter=24, dmlab=96, nethack=96, procgen=192, sokoban=96
  ),
  replay_fraction=dict(
    atari=0.95, crafter=0.99, dmlab=0.9, nethack=0.95, procgen=0.9, sokoban=0.9
  ),
  replay_steps=dict(
    atari=1.76e6,
    crafter=4e5,
    dmlab=2.2e5,
    nethack=1.76e6,
    procgen=8.8e5,
    sokoban=8.8e5,
  ),
  rollout_length=dict(
    atari=29, crafter=29, dmlab=100, nethack=29, procgen=29, sokoban=29
  ),
)


@pytest.mark.parametrize('name', sorted(presets.PRESETS))
def test_presets_are_as_published(name):
  preset = dataclasses.asdict(presets.PRESETS[name])
  assert preset['schedule'] == ('constant' if name == 'crafter' else 'cosine')
  for field, values in PUBLISHED.items():
    assert preset[field] == values[name], field
  config = _resolve(preset=name, steps=100_000).settings
  sizes = batching_lib.Batching(**config.batching)
  assert sizes.fresh_in_batch
  assert (
    sizes.num_envs
    == {
      'atari': 5,
      'crafter': 1,
      'dmlab': 10,
      'nethack': 5,
      'procgen': 19,
      'sokoban': 10,
    }[name]
  )
  kept_steps = sizes.replay_capacity * sizes.rollout_length
  assert 0.99 * preset['replay_steps'] < kept_steps <= preset['replay_steps']
  warmup = config.agent.optimizer.warmup_updates * sizes.env_steps
  assert 0 <= warmup - preset['warmup_steps'] < sizes.env_steps
  assert config.agent.update_rule.value_discount == preset['discount']
  optimizers.agent_optimizer(config.agent)


def test_what_a_preset_says_in_steps_follows_the_sizes_set():
  sizes = ['batching.batch_size=32', 'batching.rollout_length=20']
  request = dict(preset='atari', steps=300_000)
  config = _resolve(**request, set=sizes).settings
  assert config.batching.batch_size == 32
  assert config.batching.num_envs == 2
  assert config.batching.replay_capacity == 88_000  # Of 20 steps each.
  assert config.agent.optimizer.warmup_updates == 125_000  # Of 40 steps each.
  more = ['batching.replay_capacity=64']
  config = _resolve(**request, set=sizes + more).settings
  assert config.batching.replay_capacity == 64
  with pytest.raises(ValueError, match='steps 1000 is too few'):
    _resolve(preset='atari', steps=1000)


def test_the_number_of_environments_set_is_kept():
  more = ['batching.num_envs=7']
  config = _resolve(preset='atari', steps=100_000, set=more).settings
  assert config.batching.num_envs == 7
  capacity = config.batching.replay_capacity
  assert capacity % 7 == 0 and 0 <= 1_760_000 - 29 * capacity < 29 * 8
  assert config.agent.optimizer.warmup_updates == -(-5_000_000 // (7 * 29))


def test_a_preset_says_which_settings_are_its_own():
  layers = _resolve(
    preset='atari', steps=100_000, set=['agent.learning_rate=1e-3']
  )
  preset = [k for k, origin in layers.origins.items() if 'preset' in origin]
  assert {layers.origins[k] for k in preset} == {'preset atari'}
  assert sorted(preset) == [
    'agent.hyper_params.discount_factor',
    'agent.max_abs_update',
    'agent.net_settings.name',
    'agent.optimizer.schedule',
    'agent.optimizer.warmup_updates',
    'agent.optimizer.weight_decay',
    'agent.update_rule.value_discount',
    'batching.batch_size',
    'batching.fresh_in_batch',
    'batching.num_envs',
    'batching.replay_capacity',
    'batching.rollout_length',
  ]
  assert layers.origins['agent.learning_rate'] == '--set'
  assert layers.origins['agent.optimizer.total_updates'] == '--steps'
  assert layers.settings.agent.learning_rate == 1e-3


def test_a_preset_with_a_group_of_settings():
  assignment = "env.kwargs={'max_episode_steps': 7}"
  config = _resolve(preset='crafter', env='gym:CartPole-v1', set=[assignment])
  assert config.settings.env.kwargs.max_episode_steps == 7


SHORT = [
  *('batching.batch_size=32', 'batching.num_envs=16'),
  *('batching.replay_capacity=256', 'agent.optimizer.schedule=cosine'),
]
MINATAR = 'gymnax:Breakout-MinAtar'
CARTPOLE = 'gym:CartPole-v1'
RATE = 'agent.learning_rate'


# The long commands behind the tables of docs/results.md.
@pytest.mark.parametrize(
  ('preset', 'rule', 'env', 'long'),
  [
    ('catch', 'disco', 'catch', [f'{RATE}=1e-2']),
    ('catch', 'actor_critic', 'catch', [f'{RATE}=1e-2']),
    ('catch', 'policy_gradient', 'catch', [f'{RATE}=1e-3']),
    ('minatar', 'disco', MINATAR, [*SHORT, f'{RATE}=1e-2']),
    ('minatar', 'actor_critic', MINATAR, [*SHORT, f'{RATE}=3e-3']),
    ('minatar', 'ppo', MINATAR, SHORT),  # Not in the table.
    ('cartpole', 'disco', CARTPOLE, [*SHORT, f'{RATE}=3e-3']),
    ('cartpole', 'actor_critic', CARTPOLE, [*SHORT, f'{RATE}=3e-3']),
    (
      *('atari-small', 'disco', 'atari:Pong'),
      [
        *('batching.batch_size=8', 'batching.num_envs=2'),
        'batching.replay_capacity=64',
      ],
    ),
  ],
)
def test_measured_presets_are_the_long_commands(preset, rule, env, long):
  environments.skip_without(env.partition(':')[0])
  rule = rule_lib.Rule(rule, rule, None)
  short = {**resolve.EVALUATION, 'preset': preset}
  whole = {**resolve.EVALUATION, 'env': env, 'steps': 1000, 'set': long}
  found = resolve.evaluation(short, rule)
  wanted = resolve.evaluation(whole, rule)
  assert found.settings.to_dict() == wanted.settings.to_dict()
  assert f'preset {preset}' in found.origins.values()


def test_a_measured_preset_chooses_only_what_is_not_given():
  own = dict(env='catch', steps=300, set=['agent.learning_rate=2e-3'])
  layers = _resolve(preset='minatar', **own)
  assert layers.settings.steps == 300
  assert layers.settings.agent.learning_rate == 2e-3
  assert layers.settings.env.rows == 8
  request = presets.complete({**resolve.EVALUATION, 'preset': 'cartpole'})
  assert request['env'] == 'gym:CartPole-v1' and request['steps'] == 1000
  request = presets.complete(resolve.EVALUATION)
  assert request['env'] == 'catch' and request['steps'] == 1000
  # The presets of published evaluations choose neither.
  request = presets.complete({**resolve.EVALUATION, 'preset': 'atari'})
  assert request['env'] == 'catch' and request['steps'] == 1000


def test_the_commands_in_the_results_are_presets():
  page = (ROOT / 'docs' / 'results.md').read_text('utf-8')
  found = set(re.findall(r'--preset ([\w-]+)', page))
  assert found == measured.MEASURED.keys()


def test_a_preset_that_does_not_fit_is_named_in_a_dry_run(monkeypatch):
  environments.skip_without('atari')
  monkeypatch.setattr(memory, 'available', lambda: 2**34)
  request = dict(preset='atari', env='atari:Pong', steps=100_000)
  found = plan_lib.Plan(request, rule_lib.load_rule('actor_critic')).dry_run()
  assert 'replay 49.' in str(found.error)
  assert 'lower batching.replay_capacity' in str(found.error)


def test_unknown_presets_are_refused():
  with pytest.raises(ValueError, match='did you mean atari'):
    _resolve(preset='atary')
  with pytest.raises(ValueError, match='did you mean cartpole'):
    presets.complete({**resolve.EVALUATION, 'preset': 'cart_pole'})


@pytest.mark.parametrize('name', ['atari', 'procgen', 'crafter', 'nethack'])
def test_presets_stack_frames_of_their_suite(name, caplog):
  """Their environments have the settings of the preset."""
  env = {
    'atari': 'atari:Pong',
    'procgen': 'procgen:coinrun',
    'crafter': 'crafter:reward',
    'nethack': 'nethack:Score',
  }[name]
  environments.skip_without(name)
  resolved = _resolve(preset=name, env=env, steps=1_000_000)
  settings = resolved.settings
  assert settings.env.frame_stack == PUBLISHED['frame_stack'][name]
  assert not caplog.records
  network = settings.agent.net_settings.name
  assert network == dict(nethack='glyphs').get(name, 'residual')
