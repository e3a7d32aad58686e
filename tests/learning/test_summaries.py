"""Learning from summaries of outputs equals learning from whole outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.learning import learner as learner_lib
from disco_rl.learning import unrolls
from disco_rl.networks import blocks
from disco_rl.networks import nets
from disco_rl.networks import pure
from disco_rl.update_rules import base
from disco_rl.update_rules import disco
from tests.support import golden
from tests.support import small


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
  """Makes several blocks of the few rows and streams here."""
  monkeypatch.setattr(blocks.map_rows, '__defaults__', (60,))  # With padding.
  monkeypatch.setattr(unrolls, 'STREAM_ELEMENTS', 60)


def _experience(config, num_streams=None):
  an_agent = small.make_agent('disco', config)
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  state = an_agent.initial_learner_state(rng)
  rollout = small.act(an_agent, state.params, rng, 9)
  rollout = jax.tree.map(lambda x: x[2:], rollout)
  if num_streams is not None:
    # Streams are repeated with other actions, so that they differ.
    rollout = jax.tree.map(
      lambda x: jnp.take(x, jnp.arange(num_streams) % x.shape[1], axis=1),
      rollout,
    )
    shift = jnp.arange(num_streams) // 3
    rollout = rollout.replace(actions=(rollout.actions + shift) % 3)
  return an_agent, eta, state, rollout


def _config(**net_args):
  config = small.settings('disco')
  with config.unlocked():
    config.net_settings.net_args.update(net_args)
  return config


@pytest.mark.parametrize(
  'net_args',
  [{}, dict(core='lstm', core_kwargs=dict(size=4)), dict(precision='bfloat16')],
  ids=['plain', 'memory', 'bfloat16'],
)
def test_learner_step(net_args):
  an_agent, eta, state, rollout = _experience(_config(**net_args))
  rng = jax.random.PRNGKey(1)
  (actual, out), (wanted, whole) = (
    jax.jit(
      lambda eta, state, whole=whole: an_agent.learner.update(
        eta, state, rollout, rng, backprop=False, whole_outputs=whole
      )
    )(eta, state)
    for whole in (False, True)
  )
  assert base.SUMMARY in out.agent_out and base.SUMMARY not in whole.agent_out
  assert 'z' not in out.agent_out and 'z' not in out.meta_out['target_out']
  tolerance = 2e-2 if 'precision' in net_args else 1e-4
  for name in ('params', 'meta_state'):
    golden.check_trees_close(
      jax.device_get(actual[name]), jax.device_get(wanted[name]), tolerance
    )
  for name, value in whole.log.items():
    np.testing.assert_allclose(
      out.log[name], value, tolerance, 1e-5, err_msg=name
    )


@pytest.mark.parametrize('num_streams', [5, 7, 8])
def test_the_last_block_of_streams_may_be_smaller(monkeypatch, num_streams):
  an_agent, eta, state, rollout = _experience(_config(), num_streams)
  rng = jax.random.PRNGKey(1)
  steps = rollout.rewards.shape[0]
  results = []
  for elements in (steps * 16 * num_streams, steps * 16 * 3):
    monkeypatch.setattr(unrolls, 'STREAM_ELEMENTS', elements)
    results.append(
      jax.jit(
        lambda eta, state: an_agent.learner.update(
          eta, state, rollout, rng, backprop=False
        )
      )(eta, state)
    )
  (wanted, whole), (actual, out) = results
  golden.check_trees_close(
    jax.device_get(actual.params), jax.device_get(wanted.params), 1e-4
  )
  for name, value in whole.log.items():
    np.testing.assert_allclose(out.log[name], value, 1e-4, 1e-5, err_msg=name)


def test_meta_gradient():
  """η's gradient through two updates, the second of which depends on η."""
  an_agent, eta, state, rollout = _experience(_config())
  rng = jax.random.PRNGKey(1)

  def loss(eta, whole):
    learner, terms = state, 0.0
    for _ in range(2):
      learner, out = an_agent.learner.update(
        eta, learner, rollout, rng, whole_outputs=whole
      )
      terms += sum(jax.tree.leaves(jax.tree.map(jnp.mean, out.meta_out['pi'])))
    return terms + sum(
      jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(learner.params)
    )

  actual, wanted = (
    jax.device_get(jax.jit(jax.grad(lambda e, w=whole: loss(e, w)))(eta))
    for whole in (False, True)
  )
  for name, leaves in wanted.items():
    for leaf, value in leaves.items():
      np.testing.assert_allclose(
        actual[name][leaf],
        value,
        2e-3,
        1e-4 * np.abs(value).max(),
        err_msg=name,
      )


def test_other_inputs_of_the_meta_network_need_whole_outputs():
  config = _config()
  option = disco.get_input_option()
  added = types.TransformConfig(
    source='agent_out/z', transforms=('identity', 'max_a', 'td_pair')
  )
  with config.unlocked():
    config.update_rule.net.input_option = types.MetaNetInputOption(
      base=[*option.base, added], action_conditional=option.action_conditional
    )
  an_agent, eta, state, rollout = _experience(config)
  assert an_agent.update_rule.summary_fn(eta) is None
  _, out = jax.jit(an_agent.learner.update)(
    eta, state, rollout, jax.random.PRNGKey(1)
  )
  assert base.SUMMARY not in out.agent_out
  assert jax.tree.all(jax.tree.map(lambda x: jnp.isfinite(x).all(), out.log))


@pytest.mark.parametrize('name', ['y', 'z'])
def test_meta_networks_that_do_not_read_a_prediction(name):
  config = _config()
  option = disco.get_input_option()
  without = lambda configs: [
    c for c in configs if not c.source.endswith(f'/{name}')
  ]
  with config.unlocked():
    config.update_rule.net.input_option = types.MetaNetInputOption(
      base=without(option.base),
      action_conditional=without(option.action_conditional),
    )
  an_agent, eta, state, rollout = _experience(config)
  assert an_agent.update_rule.summary_fn(eta) is None
  jax.eval_shape(
    an_agent.learner.update, eta, state, rollout, jax.random.PRNGKey(1)
  )


class _Scaled(nets.MLP):
  def unroll(self, inputs, should_reset=None, actions=None):
    outs = super().unroll(inputs, should_reset, actions)
    return {name: 2 * out for name, out in outs.items()}


class _Called(nets.MLP):
  def __call__(self, inputs, should_reset=None, actions=None):
    return super().__call__(inputs, should_reset, actions)


class _Heads(nets.MLP):
  def _head_pass(self, torso):
    return super()._head_pass(torso)


@pytest.mark.parametrize(
  ('module', 'wanted'),
  [(nets.MLP, True), (_Heads, True), (_Scaled, False), (_Called, False)],
)
def test_networks_that_override_unroll_are_not_bypassed(module, wanted):
  network = pure.from_module(module)({}, (4,), None, None)
  assert (network.embed is not None) == wanted
  assert (network.predict is not None) == wanted


def test_losses_of_subclasses_may_depend_on_targets():
  class Own(disco.DiscoUpdateRule):
    def agent_loss_no_meta(self, rollout, meta_out, hyper_params):
      del rollout, hyper_params
      return jnp.sum(meta_out['q_value'][:-1], axis=-1), {}

  config = _config()
  an_agent, eta, state, _ = _experience(config)
  inputs = small.rule_inputs(an_agent)

  def loss(q, rule):
    agent_out = {**inputs.agent_out, 'q': q}
    per_step, *_ = rule(
      eta,
      state.params,
      {},
      inputs.replace(agent_out=agent_out),
      config.hyper_params,
      state.meta_state,
      lambda *_: (agent_out, {}),
      jax.random.PRNGKey(0),
      None,
    )
    return per_step.sum()

  grad = jax.grad(lambda q: loss(q, Own(**config.update_rule)))
  assert jnp.abs(grad(inputs.agent_out['q'])).sum() > 1


def test_subclasses_may_read_whole_outputs():
  class Own(disco.DiscoUpdateRule):
    pass

  config = _config()
  an_agent, eta, state, rollout = _experience(config)
  own = Own(**config.update_rule)
  assert an_agent.update_rule.summary_fn(eta) is not None
  assert own.summary_fn(eta) is None
  outs = []
  for rule in (own, an_agent.update_rule):
    learner = learner_lib.make_learner(
      rule,
      an_agent._network,
      learning_rate=1e-2,
      hyper_params=config.hyper_params,
    )
    new_state, _ = jax.jit(learner.update)(
      eta, state, rollout, jax.random.PRNGKey(1)
    )
    outs.append(jax.device_get(new_state.params))
  golden.check_trees_close(*outs, 1e-4)
