"""The published networks: names, initial values, outputs, gradients."""

import json
import math

import haiku as hk
import jax
import jax.numpy as jnp
import pytest

from disco_rl import agent
from disco_rl import types
from disco_rl import utils
from disco_rl.networks import meta_nets
from disco_rl.rule_zoo import file_format
from tests.support import golden
from tests.support import small
from tests.support import weights


def _meta_net(config):
  """Makes the meta-network of agent settings as a Haiku transform."""
  kwargs = dict(**config.update_rule.net)
  name = kwargs.pop('name')
  return hk.without_apply_rng(
    hk.transform_with_state(
      lambda inputs: meta_nets.get_meta_net(name, **kwargs)(inputs, None)
    )
  )


def test_agent_network():
  disco_agent = small.make_agent('disco')
  state = disco_agent.initial_learner_state(jax.random.PRNGKey(0))
  with golden.opened('agent_net') as g:
    g.check(state.params, 'init_params', golden.INITIAL)
    params = g.params('params')
    observations = g.nested('obs')
    first = jax.tree.map(lambda x: x[0], observations)
    network = disco_agent._network
    outs, _ = jax.jit(network.one_step)(params, {}, first, jnp.zeros(3, bool))
    g.check(outs, 'one_step')
    outs, _ = jax.jit(network.unroll)(
      params, {}, observations, jnp.zeros((6, 3), bool)
    )
    g.check(outs, 'unroll')


def test_meta_network():
  net = _meta_net(small.settings('disco'))
  with golden.opened('meta_net') as g:
    inputs = types.UpdateRuleInputs(**g.nested('inputs'))
    init_params, init_state = jax.jit(net.init)(jax.random.PRNGKey(1), inputs)
    g.check(init_params, 'init_params', golden.INITIAL)
    g.check(init_state, 'init_state', golden.INITIAL)

    params = g.params('params')
    state = g.fill(init_state, 'state')
    outs, new_state = jax.jit(net.apply)(params, state, inputs)
    g.check(outs, 'outputs')
    g.check(new_state, 'new_state')

    def sum_of_sines(params):
      return sum(
        jnp.sum(jnp.sin(x))
        for x in jax.tree.leaves(net.apply(params, state, inputs))
      )

    g.check(jax.jit(jax.grad(sum_of_sines))(params), 'grad', golden.GRADIENTS)


def test_rule_initialises_like_its_network():
  g = golden.Golden('meta_net')
  rule = small.make_agent('disco').update_rule
  params, state = rule.init_params(jax.random.PRNGKey(1))
  g.check(params, 'init_params', golden.INITIAL)
  assert not any(x.any() for x in jax.tree.leaves(state))


def test_published_names_and_shapes():
  shapes = json.loads((golden.FOLDER / 'disco_103_shapes.json').read_text())
  env = small.environment()
  rule = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=agent.get_settings_disco(),
    batch_axis_name=None,
  ).update_rule
  params, _ = jax.eval_shape(rule.init_params, jax.random.PRNGKey(0))
  ours = {name: list(x.shape) for name, x in golden.named_leaves(params)}
  assert ours == shapes
  assert sum(math.prod(s) for s in ours.values()) == 754_778


def test_published_weights(monkeypatch):
  weights.need_disco_103(monkeypatch)
  params = file_format.load('disco_103')
  net = _meta_net(agent.get_settings_disco())
  with golden.opened('disco_103') as g:
    inputs = [
      types.UpdateRuleInputs(**g.nested(f'inputs/{i}'), observations=None)
      for i in range(2)
    ]
    init = jax.eval_shape(net.init, jax.random.PRNGKey(0), inputs[0])
    file_format.check_like(params, init[0])
    state = utils.zeros_like_spec(init[1])
    apply = jax.jit(net.apply)
    for i in range(2):
      outs, state = apply(params, state, inputs[i])
      g.check(outs, f'outputs/{i}/out')
      g.check(state, f'outputs/{i}/state')


def test_unknown_names_are_refused():
  with pytest.raises(ValueError, match=r"unknown meta-network 'gru'.*lstm"):
    meta_nets.get_meta_net('gru')
