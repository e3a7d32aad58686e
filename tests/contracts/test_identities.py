"""Special cases with known answers."""

import distrax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.networks import convolution
from disco_rl.networks import lstm
from disco_rl.networks import meta_nets
from disco_rl.update_rules import categorical
from disco_rl.value_fns import value_utils
from tests.support import golden
from tests.support import small

T, B, A = 5, 3, 3


def _experience(seed: int = 0, terminal: float = 0.3) -> types.UpdateRuleInputs:
  keys = jax.random.split(jax.random.PRNGKey(seed), 5)
  logits = jax.random.normal(keys[0], (T + 1, B, A))
  return types.UpdateRuleInputs(
    observations=None,
    actions=jax.random.randint(keys[1], (T + 1, B), 0, A),
    rewards=jax.random.normal(keys[2], (T, B)),
    is_terminal=jax.random.bernoulli(keys[3], terminal, (T, B)),
    agent_out=dict(logits=logits),
    behaviour_agent_out=dict(logits=logits),
  )


def _value_outs(rollout, lambda_, value=None, q=None, target_q=None):
  outs, _, _ = value_utils.get_value_outs(
    value,
    q,
    None,
    target_q,
    rollout,
    rollout.agent_out['logits'],
    discount=0.9,
    lambda_=lambda_,
    drop_last=False,
  )
  return outs


def test_retrace_without_traces_is_the_one_step_target():
  rollout = _experience()
  q = jax.random.normal(jax.random.PRNGKey(7), (T + 1, B, A, 1))
  outs = _value_outs(rollout, lambda_=0.0, q=q)
  v = jnp.sum(jax.nn.softmax(rollout.agent_out['logits']) * q[..., 0], -1)
  discounts = 0.9 * (1.0 - rollout.is_terminal)
  wanted = rollout.rewards + discounts * v[1:]
  np.testing.assert_allclose(outs.q_target, wanted, 1e-5, 1e-5)
  np.testing.assert_allclose(outs.value, v, 1e-5, 1e-5)


def test_retrace_is_its_naive_recursion():
  rollout = _experience(seed=1)
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  rollout = rollout.replace(
    behaviour_agent_out=dict(logits=jax.random.normal(keys[2], (T + 1, B, A)))
  )
  q = np.asarray(jax.random.normal(keys[0], (T + 1, B, A)))
  target_q = np.asarray(jax.random.normal(keys[1], (T + 1, B, A)))
  outs = _value_outs(
    rollout, lambda_=0.8, q=q[..., None], target_q=target_q[..., None]
  )

  pi = np.asarray(jax.nn.softmax(rollout.agent_out['logits']))
  mu = np.asarray(jax.nn.softmax(rollout.behaviour_agent_out['logits']))
  actions = np.asarray(rollout.actions)
  rewards, terminal = map(np.asarray, (rollout.rewards, rollout.is_terminal))
  for b in range(B):
    target = None
    for t in reversed(range(T)):
      v_next = pi[t + 1, b] @ target_q[t + 1, b]
      bootstrap = v_next
      if target is not None:  # A step with a known return follows.
        a = actions[t + 1, b]
        c = 0.8 * min(1.0, pi[t + 1, b, a] / mu[t + 1, b, a])
        bootstrap += c * (target - target_q[t + 1, b, a])
      target = rewards[t, b] + 0.9 * (1 - terminal[t, b]) * bootstrap
      np.testing.assert_allclose(outs.q_target[t, b], target, 1e-4, 1e-4)
      v = pi[t, b] @ target_q[t, b]
      np.testing.assert_allclose(outs.adv[t, b], target - v, 1e-4, 1e-4)
      np.testing.assert_allclose(
        outs.q_td[t, b], target - q[t, b, actions[t, b]], 1e-4, 1e-4
      )


def test_on_policy_vtrace_with_lambda_one_is_monte_carlo():
  rollout = _experience(seed=2)
  value = jax.random.normal(jax.random.PRNGKey(8), (T + 1, B, 1))
  outs = _value_outs(rollout, lambda_=1.0, value=value)
  returns = np.asarray(value[-1, :, 0])
  for t in reversed(range(T)):
    discount = 0.9 * (1.0 - np.asarray(rollout.is_terminal[t]))
    returns = np.asarray(rollout.rewards[t]) + discount * returns
    np.testing.assert_allclose(outs.value_target[t], returns, 1e-5, 1e-5)
    np.testing.assert_allclose(
      outs.adv[t], returns - np.asarray(value[t, :, 0]), 1e-5, 1e-5
    )
  np.testing.assert_allclose(outs.rho, 1.0, 1e-6)


def test_categorical_values_round_trip():
  values = jnp.array([-5.0, -1.3, 0.0, 0.26, 5.0])
  two_hot = value_utils.scalar_to_categorical_value(11, values, 5.0)
  np.testing.assert_allclose(two_hot.sum(-1), 1.0, 1e-5)
  assert ((two_hot > 0).sum(-1) <= 2).all()
  back = value_utils.value_logits_to_scalar(jnp.log(two_hot + 1e-9), 5.0)
  np.testing.assert_allclose(back, values, 1e-4, 1e-4)


def test_a_value_loss_is_least_at_its_target():
  net_out = jnp.array([[0.7]])
  at_target = value_utils.value_loss_from_td(net_out, jnp.zeros(1), True, False)
  np.testing.assert_allclose(at_target, 0.0, atol=1e-8)


def test_missing_or_bad_value_arguments_are_refused():
  rollout = _experience()
  with pytest.raises(ValueError, match='value or an action-value'):
    _value_outs(rollout, 0.9)
  for max_abs_value in (None, 0.0, -1.0):
    with pytest.raises(ValueError, match='max_abs_value'):
      value_utils.value_logits_to_scalar(jnp.zeros(11), max_abs_value)
  value = jnp.zeros((T + 1, B, 1))
  with pytest.raises(ValueError, match='rewards of shape'):
    _value_outs(rollout.replace(rewards=jnp.zeros((T + 1, B))), 0.9, value)
  with pytest.raises(ValueError, match='both its state and its function'):
    value_utils.get_value_outs(
      value,
      None,
      None,
      None,
      rollout,
      rollout.agent_out['logits'],
      0.9,
      adv_ema_fn=utils.MovingAverage(0.0),
    )


def test_integer_rewards_are_rewards():
  rollout = _experience()
  value = jnp.ones((T + 1, B, 1))
  integers = np.ones((T, B), np.int64)
  golden.check_trees_close(
    _value_outs(rollout.replace(rewards=integers), 0.9, value),
    _value_outs(rollout.replace(rewards=jnp.ones((T, B))), 0.9, value),
    0,
  )


def test_kl_and_entropy_agree_with_distrax():
  p, q = jax.random.normal(jax.random.PRNGKey(0), (2, 4, 7))
  np.testing.assert_allclose(categorical.kl_divergence(p, p), 0.0, atol=1e-6)
  np.testing.assert_allclose(
    categorical.kl_divergence(p, q),
    distrax.Softmax(p).kl_divergence(distrax.Softmax(q)),
    1e-5,
    1e-6,
  )
  np.testing.assert_allclose(
    categorical.entropy(p), distrax.Softmax(p).entropy(), 1e-5
  )
  np.testing.assert_allclose(categorical.entropy(jnp.zeros(8)), np.log(8), 1e-6)


def test_loss_towards_own_predictions_is_zero():
  disco_agent = small.make_agent('disco')
  rollout = small.rule_inputs(disco_agent)
  outs = rollout.agent_out
  actions = rollout.actions[:-1]
  # The next policy is what aux_pi predicts for every action.
  outs = {
    **outs,
    'aux_pi': jnp.stack([jnp.roll(outs['logits'], -1, axis=0)] * A, axis=2),
  }
  meta_out = dict(
    pi=outs['logits'][:-1],
    y=outs['y'][:-1],
    z=utils.batch_lookup(outs['z'][:-1], actions),
  )
  loss, _ = disco_agent.update_rule.agent_loss(
    rollout.replace(agent_out=outs),
    meta_out,
    disco_agent.settings.hyper_params,
    False,
  )
  np.testing.assert_allclose(loss, 0.0, atol=1e-5)


@pytest.mark.parametrize('coeff', [0.0, 1.0])
def test_target_network_follows_its_coefficient(coeff):
  config = small.settings('disco')
  config.hyper_params.target_params_coeff = coeff
  disco_agent = small.make_agent('disco', config)
  rng = jax.random.PRNGKey(0)
  state = disco_agent.initial_learner_state(rng)
  old_target = jax.tree.map(lambda x: x + 1, state.meta_state['target_params'])
  state = state.replace(
    meta_state={**state.meta_state, 'target_params': old_target}
  )
  rollout = small.act(disco_agent, state.params, rng, 4)
  meta_params, _ = disco_agent.update_rule.init_params(rng)
  new_state, _, _ = jax.jit(disco_agent.learner_step, static_argnums=5)(
    rng, rollout, state, {}, meta_params, False
  )
  # The target follows the parameters that were unrolled, before the update.
  wanted = state.params if coeff == 0.0 else old_target
  golden.check_trees_close(new_state.meta_state['target_params'], wanted, 1e-6)


@pytest.mark.parametrize('reverse', [True, False])
def test_split_lstm_is_haikus(reverse):
  xs = jax.random.normal(jax.random.PRNGKey(0), (T, B, 4))
  resets = jax.random.bernoulli(jax.random.PRNGKey(1), 0.3, (T, B))

  def ours(xs, resets):
    weights = lstm.get_weights(4, 6, 'lstm')
    return lstm.unroll(weights, xs, resets, reverse=reverse)

  def haikus(xs, resets):
    core = hk.ResetCore(hk.LSTM(6))
    return hk.dynamic_unroll(
      core, (xs, resets), core.initial_state(B), reverse=reverse
    )

  ours, haikus = map(hk.without_apply_rng, map(hk.transform, (ours, haikus)))
  rng = jax.random.PRNGKey(2)
  params = jax.jit(ours.init)(rng, xs, resets)
  golden.check_trees_close(params, jax.jit(haikus.init)(rng, xs, resets), 1e-6)
  golden.check_trees_close(
    jax.jit(ours.apply)(params, xs, resets),
    jax.jit(haikus.apply)(params, xs, resets),
    1e-5,
  )


def test_action_mixer_is_a_concatenation_and_a_convolution():
  x = jax.random.normal(jax.random.PRNGKey(0), (T, B, A, 4))
  shared = jax.random.normal(jax.random.PRNGKey(1), (T, B, 5))

  def ours(x, shared):
    return meta_nets.ActionMixer((6, 2))(x, shared)

  def plain(x, shared):
    tiled = jnp.broadcast_to(shared[:, :, None], (T, B, A, 5))
    x = jnp.concatenate([tiled, x], axis=-1)
    with hk.name_scope('sequential'):
      for channels in (6, 2):
        mean = jnp.broadcast_to(x.mean(axis=2, keepdims=True), x.shape)
        x = jnp.concatenate([x, mean], axis=-1)
        x = jax.nn.relu(hk.Conv1D(channels, 1)(x.reshape(T * B, A, -1)))
        x = x.reshape(T, B, A, channels)
    return x

  ours, plain = map(hk.without_apply_rng, map(hk.transform, (ours, plain)))
  rng = jax.random.PRNGKey(2)
  params = jax.jit(ours.init)(rng, x, shared)
  golden.check_trees_close(params, jax.jit(plain.init)(rng, x, shared), 1e-6)
  np.testing.assert_allclose(
    jax.jit(ours.apply)(params, x, shared),
    jax.jit(plain.apply)(params, x, shared),
    1e-5,
    1e-5,
  )


def test_adam_is_optax_adam():
  grads = jax.random.normal(jax.random.PRNGKey(0), (3, 4))
  ours, theirs = optimizers.scale_by_adam_sg_denom(), optax.scale_by_adam()
  our_state, their_state = ours.init(grads[0]), theirs.init(grads[0])
  for grad in grads:
    our_update, our_state = ours.update(grad, our_state)
    their_update, their_state = theirs.update(grad, their_state)
    np.testing.assert_allclose(our_update, their_update, 1e-5, 1e-6)


def test_moving_average_is_debiased_from_the_first_update():
  average = utils.MovingAverage({'x': 0.0}, decay=0.9)
  x = {'x': jnp.array([1.0, 3.0])}
  state = average.update_state(x, average.init_state(), None)
  np.testing.assert_allclose(
    average.normalize(x, state)['x'], [-1.0, 1.0], 1e-5
  )


def test_policy_gradient_loss():
  logits = jax.random.normal(jax.random.PRNGKey(0), (T, B, A))
  actions = jnp.ones((T, B), jnp.int32)
  advs = jax.random.normal(jax.random.PRNGKey(1), (T, B))
  loss = lambda advs, backprop: jnp.mean(
    utils.differentiable_policy_gradient_loss(logits, actions, advs, backprop)
  )
  wanted = -np.mean(np.log(jax.nn.softmax(logits))[..., 1] * advs)
  np.testing.assert_allclose(loss(advs, False), wanted, 1e-5)
  assert not jax.grad(loss)(advs, False).any()
  assert jax.grad(loss)(advs, True).any()


@pytest.mark.parametrize('kernel', [1, 3, 5])
def test_convolution_is_haikus(kernel):
  """Names, initial values, outputs and gradients."""
  x = jax.random.normal(jax.random.PRNGKey(0), (2, 6, 5, 3))
  ours, haikus = (
    hk.without_apply_rng(
      hk.transform(lambda x, layer=layer: layer(4, kernel)(x))
    )
    for layer in (convolution.Conv2D, hk.Conv2D)
  )
  params = ours.init(jax.random.PRNGKey(1), x)
  golden.check_trees_close(params, haikus.init(jax.random.PRNGKey(1), x), 1e-6)
  results = [
    jax.value_and_grad(
      lambda p, x, net=net: jnp.sum(jnp.sin(net.apply(p, x))), argnums=(0, 1)
    )(params, x)
    for net in (ours, haikus)
  ]
  golden.check_trees_close(*results, 1e-5)
