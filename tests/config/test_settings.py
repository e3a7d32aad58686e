"""Networks, optimisers and presets by name."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import agent
from disco_rl import optimizers
from disco_rl import types
from disco_rl.config import evaluation as eval_config
from disco_rl.config import networks
from disco_rl.config import presets
from disco_rl.evaluation import agent_loop as experiment
from disco_rl.evaluation import evaluate as evaluation
from tests.support import golden
from tests.support import small

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
def test_presets_are_as_published_and_make_an_experiment(name):
  preset = dataclasses.asdict(presets.PRESETS[name])
  assert preset['schedule'] == ('constant' if name == 'crafter' else 'cosine')
  for field, values in PUBLISHED.items():
    assert preset[field] == values[name], field
  asked = {**eval_config.DEFAULTS, 'preset': name, 'steps': 100_000}
  config = eval_config.resolve(asked, 'disco')
  sizes = experiment.Config(**config.experiment)
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


def test_what_a_preset_says_in_steps_follows_the_sizes_asked_for():
  sizes = ['experiment.batch_size=32', 'experiment.rollout_length=20']
  asked = {**eval_config.DEFAULTS, 'preset': 'atari', 'steps': 300_000}
  config = eval_config.resolve({**asked, 'set': sizes}, 'disco')
  assert config.experiment.batch_size == 32
  assert config.experiment.replay_capacity == 88_000  # Of 20 steps each.
  assert config.agent.optimizer.warmup_updates == 125_000  # Of 40 steps each.
  more = ['experiment.replay_capacity=64']
  config = eval_config.resolve({**asked, 'set': sizes + more}, 'disco')
  assert config.experiment.replay_capacity == 64
  with pytest.raises(ValueError, match='--steps 1000 are too few'):
    eval_config.resolve({**asked, 'steps': 1000}, 'disco')
  more = ['experiment.replay_ratio=8']
  with pytest.raises(ValueError, match='replay_ratio is not used where'):
    eval_config.resolve({**asked, 'set': more}, 'disco')


def test_a_preset_with_a_group_of_settings():
  assignment = "env.kwargs={'max_episode_steps': 7}"
  asked = dict(preset='crafter', env='gym:CartPole-v1', set=[assignment])
  config = eval_config.resolve({**eval_config.DEFAULTS, **asked}, 'disco')
  assert config.env.kwargs.max_episode_steps == 7


def test_unknown_presets_are_refused():
  asked = {**eval_config.DEFAULTS, 'preset': 'atary'}
  with pytest.raises(ValueError, match='did you mean atari'):
    eval_config.resolve(asked, 'disco')


def test_the_published_atari_network():
  config = agent.get_settings_disco()
  networks.choose(config, 'atari')
  image = types.ArraySpec((84, 84, 4), jnp.uint8)
  spec = types.ActionSpec((), np.int32, 0, 17)
  an_agent = agent.Agent(
    single_observation_spec=image,
    single_action_spec=spec,
    agent_settings=config,
    batch_axis_name=None,
  )
  state = jax.eval_shape(an_agent.initial_learner_state, jax.random.PRNGKey(0))
  shapes = {
    f'{module}/{name}': x.shape
    for module, params in state.params.items()
    for name, x in params.items()
  }
  convolutions = [s for n, s in shapes.items() if 'conv2_d' in n and len(s) > 1]
  # Four stages of one convolution and two blocks of two.
  assert len(convolutions) == 20
  assert sorted({s[-1] for s in convolutions}) == [256, 384]
  linear = set(shapes.values())
  assert (6 * 6 * 256, 768) in linear
  assert (18 + 1024, 4 * 1024) in linear and (1024, 1024) in linear


def test_choosing_a_network_keeps_what_the_rule_needs():
  config = agent.get_settings_disco()
  before = config.net_settings.net_args.to_dict()
  networks.choose(config)
  networks.choose(config, 'mlp')
  after = config.net_settings.net_args.to_dict()
  assert after == {**before, 'precision': 'float32'}
  config.net_settings.net_args.precision = 'bfloat16'
  networks.choose(config, 'atari')
  networks.choose(config, 'conv', core='lstm')
  networks.choose(config, 'conv')
  args = config.net_settings.net_args
  assert args.precision == 'bfloat16' and args.core == 'lstm'
  assert args.channels == (16,) and args.core_kwargs.size == 256
  assert args.model_kwargs.lstm_size == 1024
  assert args.head_w_init_std == before['head_w_init_std']
  for name, core in (('convv', None), (None, 'lstn')):
    with pytest.raises(ValueError, match='did you mean'):
      networks.choose(config, name, core)


def test_a_critic_sees_what_its_agent_sees():
  config = agent.get_settings_policy_gradient()
  networks.choose(config, 'conv', core='lstm')
  critic = config.value_fn
  assert critic.net == 'conv' and critic.net_args.channels == (16,)
  assert critic.net_args.head_w_init_std == 1e-2
  an_agent = agent.Agent(
    single_observation_spec=types.ArraySpec((10, 10, 4), jnp.float32),
    single_action_spec=types.ActionSpec((), np.int32, 0, 2, 'action'),
    agent_settings=config,
    batch_axis_name=None,
  )
  state = an_agent.initial_learner_state(jax.random.PRNGKey(0))
  shapes = [x.ndim for x in jax.tree.leaves(state.meta_state['critic'].params)]
  assert 4 in shapes  # A convolution.


def test_clipped_adam_is_a_chain():
  """Values and meta-gradients, with a schedule and weight decay, too."""
  for decay, rate in ((0.0, 0.1), (0.3, optax.linear_schedule(0.1, 0.2, 3))):
    parts = [optimizers.scale_by_adam_sg_denom(), optax.clip(0.6)]
    parts += [optax.add_decayed_weights(decay)] if decay else []
    chain = optax.chain(*parts, optax.scale_by_learning_rate(rate))
    ours = optimizers.clipped_adam(rate, 0.6, decay)
    grads = jax.random.normal(jax.random.PRNGKey(0), (4, 5))

    def train(scale, optimizer, grads=grads):
      params = jnp.arange(5.0)
      state = optimizer.init(params)
      for grad in grads:
        updates, state = optimizer.update(
          scale * grad + 0.1 * scale**2, state, params
        )
        params = optax.apply_updates(params, updates)
      return jnp.sum(jnp.sin(params)), state

    (value, state), slope = jax.value_and_grad(train, has_aux=True)(0.7, ours)
    (wanted, wanted_state), wanted_slope = jax.value_and_grad(
      train, has_aux=True
    )(0.7, chain)
    np.testing.assert_allclose(value, wanted, 1e-6)
    np.testing.assert_allclose(slope, wanted_slope, 1e-5)
    golden.check_trees_close(state, wanted_state, 1e-6)
    assert abs(slope) > 1e-3


def test_schedules():
  constant = optimizers.learning_rate_schedule(0.5)
  assert constant == 0.5
  warm = optimizers.learning_rate_schedule(0.5, warmup_updates=10)
  np.testing.assert_allclose([warm(0), warm(5), warm(99)], [0, 0.25, 0.5])
  cosine = optimizers.learning_rate_schedule(0.5, 'cosine', 10, 110)
  rates = [float(cosine(i)) for i in (0, 5, 10, 60, 110)]
  np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.25, 0], atol=1e-6)
  with pytest.raises(ValueError, match='more updates in all'):
    optimizers.learning_rate_schedule(0.5, 'cosine', 10, 10)
  with pytest.raises(ValueError, match='unknown schedule'):
    optimizers.learning_rate_schedule(0.5, 'cosin', 10, 10)


def test_typos_in_settings_changed_from_python_are_refused():
  config = agent.get_settings_disco()
  with pytest.raises(AttributeError, match='lerning_rate'):
    config.lerning_rate = 1.0
  with pytest.raises(AttributeError, match='y_cots'):
    config.hyper_params.y_cots = 1.0
  with pytest.raises(KeyError, match='lerning_rate'):
    config.update(dict(lerning_rate=1.0))
  for rule in ('actor_critic', 'policy_gradient'):
    with pytest.raises(AttributeError, match='lerning_rate'):
      evaluation.default_agent_settings(rule, 'catch').lerning_rate = 1.0
  # Those that were not made by the library are checked by the agent.
  config = small.settings('actor_critic')
  with config.unlocked():
    config.lerning_rate = 1.0
  with pytest.raises(ValueError, match=r'did you mean learning_rate\?'):
    small.make_agent('actor_critic', config)


def test_a_discount_that_nothing_reads_is_refused():
  config = small.settings('disco')  # Its value_discount is 0.97.
  small.make_agent('disco', config)
  config.hyper_params.discount_factor = 0.97
  small.make_agent('disco', config)
  config.hyper_params.discount_factor = 0.9
  with pytest.raises(ValueError, match=r'update_rule\.value_discount, 0\.97'):
    small.make_agent('disco', config)


@pytest.mark.parametrize(
  ('path', 'meant'),
  [
    ('learning_rate', r'did you mean agent\.learning_rate\?'),
    ('rows', r'did you mean env\.rows\?'),
    ('agent.lerning_rate', r'did you mean agent\.learning_rate\?'),
    ('batch_size', r'did you mean experiment\.batch_size\?'),
  ],
)
def test_settings_without_their_group_are_suggested(path, meant):
  asked = {**eval_config.DEFAULTS, 'set': [f'{path}=1']}
  with pytest.raises(ValueError, match=meant):
    eval_config.resolve(asked, 'actor_critic')


def test_too_few_steps_to_learn_anything_are_refused():
  asked = {**eval_config.DEFAULTS, 'steps': 31}
  with pytest.raises(ValueError, match='--steps 31 is too few to learn'):
    eval_config.resolve(asked, 'actor_critic')
  eval_config.resolve({**asked, 'steps': 32}, 'actor_critic')


def test_the_meta_network_cannot_see_observations():
  config = small.settings('disco')
  option = config.update_rule.net.input_option
  inputs = types.TransformConfig(source='observations', transforms=())
  with config.unlocked():
    config.update_rule.net.input_option = option.replace(
      base=(*option.base, inputs)
    )
  agent_ = lambda: small.make_agent('disco', config)
  with pytest.raises(ValueError, match='shape of observations'):
    agent_().update_rule.init_params(jax.random.PRNGKey(0))
