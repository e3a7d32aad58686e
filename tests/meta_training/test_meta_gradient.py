"""The meta-gradient of one agent: identities between ways to compute it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import agent
from disco_rl import compat
from disco_rl.learning import actors
from disco_rl.meta_training import meta_gradient
from disco_rl.update_rules import policy_gradient
from disco_rl.update_rules import registry
from tests.support import golden
from tests.support import small
from tests.support import small_meta


@pytest.mark.slow
def test_all_ways_to_compute_the_meta_gradient_agree():
  """Inner updates rematerialised or not, in reverse mode and mixed mode.

  In float64 to 1e-9, and in float32 to 1e-4 of the largest derivative.
  """
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  sizes = dict(num_inner_updates=3)
  first = small_meta.make_meta_agent(**sizes)
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state = jax.jit(first.init)(keys[0])
  state, train, valid, _ = jax.jit(first.act)(state, keys[1])
  inputs = (eta, state, train, valid)

  def gradient(inputs, **changes):
    an_agent = small_meta.make_meta_agent(**sizes, **changes)
    result = jax.jit(an_agent.differentiate)(*inputs, keys[2])
    return jax.device_get(result.grads)

  plainly = dict(rematerialize_all_but=None, meta_gradient_mode='reverse')
  ways = [
    dict(rematerialize_all_but=0, meta_gradient_mode='mixed'),
    dict(rematerialize_all_but=0, meta_gradient_mode='reverse'),
    dict(rematerialize_all_but=None, meta_gradient_mode='mixed'),
    dict(rematerialize_all_but=1),
  ]
  with small.enable_x64(True):
    inputs64 = small_meta.in_float64(inputs)
    plain = gradient(inputs64, **plainly)
    for way in ways:
      _check_gradients(gradient(inputs64, **way), plain, 1e-9)
    assert all(x.dtype == np.float64 for x in jax.tree.leaves(plain))
  plain = gradient(inputs, **plainly)
  _check_gradients(gradient(inputs, **ways[0]), plain, 1e-4)


def _check_gradients(actual, wanted, tolerance):
  scale = max(np.abs(x).max() for x in jax.tree.leaves(wanted))
  assert scale > 1e-3
  for a, b in zip(*map(jax.tree.leaves, (actual, wanted)), strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
  ('num_updates', 'mode'), [(1, 'reverse'), (2, 'mixed')]
)
def test_the_meta_gradient_of_an_entropy_cost(own_rule, num_updates, mode):
  """Compared with plain `jax.grad`, and with finite differences.

  Those are exact for one inner update by SGD: with more of them, gradients are
  stopped on purpose where values are bootstrapped.
  """
  an_agent = small_meta.make_meta_agent(
    settings=own_rule['agent_settings'],
    optimizer=optax.sgd(0.3),
    num_inner_updates=num_updates,
    meta_gradient_mode=mode,
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state, train, valid, _ = jax.jit(
    lambda: an_agent.act(an_agent.init(keys[0]), keys[1])
  )()
  learner_agent, critic = an_agent._agent, an_agent._critic

  def by_hand(eta, state, train, valid, advantages):
    learner, values = state.learner, state.learner.critic
    for n in range(num_updates):
      rollout = jax.tree.map(lambda x, n=n: x[n], train)
      outs, _ = learner_agent.unroll_net(learner.params, {}, rollout)
      values, _, _ = critic.update(
        values, rollout, jax.lax.stop_gradient(outs['logits'])
      )
      learner, _, _ = learner_agent.learner_step(
        keys[2], rollout, learner, {}, eta, is_meta_training=True
      )
    outs, _ = learner_agent.unroll_net(learner.params, {}, valid)
    if advantages is None:
      out, *_ = critic.get_value_outs(values, valid, outs['logits'])
      advantages = jax.lax.stop_gradient(out.normalized_adv)
    log_pi = jax.nn.log_softmax(outs['logits'][:-1])
    taken = jnp.take_along_axis(log_pi, valid.actions[:-1, :, None], -1)[..., 0]
    entropy = -jnp.sum(jnp.exp(log_pi) * log_pi, -1)
    loss = -jnp.mean(taken * advantages) - 0.01 * jnp.mean(entropy)
    return loss, advantages

  eta, _ = learner_agent.update_rule.init_params(keys[0])
  with small.enable_x64(True):
    inputs = small_meta.in_float64((eta, state, train, valid))
    wanted, advantages = jax.jit(jax.grad(by_hand, has_aux=True))(*inputs, None)
    wanted = wanted['entropy_cost']['log']
    assert abs(wanted) > 1e-7
    result = jax.jit(an_agent.differentiate)(*inputs, keys[2])
    actual = result.grads['entropy_cost']['log']
    np.testing.assert_allclose(actual, wanted, 1e-8)
    if num_updates == 1:
      loss = jax.jit(lambda eta: by_hand(eta, *inputs[1:], advantages)[0])
      step = 1e-3
      ends = [
        loss(jax.tree.map(lambda x, d=d: x + d, inputs[0]))
        for d in (step, -step)
      ]
      np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), wanted, 1e-5)


class ScaledAdvantages(policy_gradient.PolicyGradientUpdate):
  """Needs a critic, has integers among its targets, and η is not a dict."""

  def init_params(self, rng):
    return (jax.random.uniform(rng, (2,)),), {}

  def unroll_meta_net(self, meta_params, *args):
    meta_out, meta_state = super().unroll_meta_net(meta_params, *args)
    rollout = args[3]
    scales = jnp.asarray(meta_params[0])
    return dict(meta_out, scales=scales, taken=rollout.actions), meta_state

  def agent_loss(self, rollout, meta_out, hyper_params, backprop):
    loss, log = super().agent_loss(rollout, meta_out, hyper_params, backprop)
    scale = meta_out['scales'][meta_out['taken'][:-1] % 2]
    return loss * scale * rollout.value_out.rho, log


def test_any_rule_can_be_differentiated_in_both_modes(monkeypatch):
  monkeypatch.setitem(registry.UPDATE_RULES, 'scaled', ScaledAdvantages)
  settings = small.settings('policy_gradient')
  settings.update_rule_name = 'scaled'
  make = lambda **changes: small_meta.make_meta_agent(
    settings=settings, rematerialize_all_but=0, **changes
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  first = make()
  state, train, valid, _ = jax.jit(
    lambda: first.act(first.init(keys[0]), keys[1])
  )()
  eta, _ = ScaledAdvantages().init_params(keys[2])
  with small.enable_x64(True):
    inputs = small_meta.in_float64((eta, state, train, valid))
    grads = [
      jax.jit(make(meta_gradient_mode=mode).differentiate)(
        *inputs, keys[2]
      ).grads[0]
      for mode in ('mixed', 'reverse')
    ]
    assert np.abs(grads[0]).min() > 1e-6
    np.testing.assert_allclose(*grads, 1e-8)


@pytest.mark.slow
def test_one_batch_in_shards_has_the_gradient_of_the_whole():
  """On the same data: eight devices compared with one that has all of it."""
  sizes = dict(batch_size=16, num_envs=16)
  whole = small_meta.make_meta_agent(**sizes)
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state = jax.jit(whole.init)(keys[0])
  state, train, valid, _ = jax.jit(whole.act)(state, keys[1])
  state = state._replace(actor=None)
  wanted = jax.jit(whole.differentiate)(eta, state, train, valid, keys[2])

  shard = small_meta.make_meta_agent('batch', 8, **sizes)
  spec = jax.sharding.PartitionSpec
  mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ('batch',))
  actual = jax.jit(
    compat.shard_map(
      shard.differentiate,
      mesh,
      in_specs=(
        spec(),
        spec(),
        spec(None, None, 'batch'),
        spec(None, 'batch'),
        spec(),
      ),
      out_specs=spec(),
    )
  )(eta, state, train, valid, keys[2])
  for a, b in zip(
    jax.tree.leaves(wanted.grads), jax.tree.leaves(actual.grads), strict=True
  ):
    np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4 * np.abs(a).max())
  golden.check_trees_close(
    jax.device_get(actual.state.learner.params),
    jax.device_get(wanted.state.learner.params),
    2e-4,
  )
  for name, value in wanted.log.items():
    np.testing.assert_allclose(actual.log[name], value, 2e-4, 1e-5)


def test_batches_are_the_fresh_trajectories_and_replayed_ones():
  an_agent = small_meta.make_meta_agent(
    batch_size=6, num_envs=3, replay_capacity=12
  )
  act = jax.jit(an_agent.act)
  state = jax.jit(an_agent.init)(jax.random.PRNGKey(0))
  seen_old = False
  for i in range(2):
    state, batches, *_ = act(state, jax.random.PRNGKey(i))
    stored = np.asarray(state.buffer.data.agent_outs['logits'])  # [12, L, A]
    logits = np.moveaxis(batches.logits, 2, 1)  # [N, B, L, A]
    np.testing.assert_array_equal(batches.agent_outs['logits'], batches.logits)
    assert logits.shape[:2] == (2, 6)
    for n in range(2):
      first = 6 * i + 3 * n
      np.testing.assert_array_equal(logits[n, :3], stored[first : first + 3])
      for replayed in logits[n, 3:]:
        (rows,) = (stored == replayed).all(axis=(1, 2)).nonzero()
        assert rows.size and rows[0] < 6 * (i + 1)
        seen_old |= rows[0] < 6 * i
  assert seen_old


def test_replay_keeps_one_network_state_per_trajectory():
  """The first, like the replay of evaluations; checks shapes only."""
  settings = small.settings('policy_gradient')
  with settings.unlocked():
    settings.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  an_agent = small_meta.make_meta_agent(
    settings=settings, batch_size=4, num_envs=2, replay_capacity=8
  )
  rng = jax.random.PRNGKey(0)
  state, train, valid, _ = jax.eval_shape(
    lambda: an_agent.act(an_agent.init(rng), rng)
  )
  stored = jax.tree.leaves(state.buffer.data.states)
  assert stored and all(x.shape[:2] == (8, 1) for x in stored)
  assert state.buffer.data.rewards.shape == (8, 7)
  for x in jax.tree.leaves(train.states):
    assert x.shape[:3] == (2, 1, 4)
  for x in jax.tree.leaves(valid.states):
    assert x.shape[:2] == (1, 2)


def test_an_agent_without_a_critic_is_refused():
  env = small.environment()
  an_agent = agent.Agent.for_environment(env, small.settings('disco'))
  with pytest.raises(ValueError, match='need a critic: a group value_fn'):
    meta_gradient.MetaAgent(
      an_agent, actors.make(an_agent, env), small_meta.config()
    )
