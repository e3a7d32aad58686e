"""Networks by name, for agents and their critics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import agent
from disco_rl import types
from disco_rl.config import networks


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
  shapes = [x.ndim for x in jax.tree.leaves(state.critic.params)]
  assert 4 in shapes  # A convolution.
