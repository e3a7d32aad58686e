"""Learner steps with action masks.

The main identity: actions that are never legal change nothing, whatever the
network predicts for them. All parts of a rule are tested by it: policies,
entropies, divergences, values, and the inputs and means of the meta-network.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import disco_rl
from disco_rl import types
from disco_rl.learning import rule_inputs
from disco_rl.learning import unrolls
from disco_rl.networks import action_masks
from disco_rl.networks import blocks
from disco_rl.networks import staged_unroll
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import base
from disco_rl.update_rules import registry
from tests.support import golden
from tests.support import masked
from tests.support import masked_learning
from tests.support import small

T, B, A, MORE = 6, 3, 4, 2  # MORE actions are added that are never legal.
OBS = 5


# ------------------------------------------------- actions that are never legal


def _init(rule, num_actions, seed):
  """Makes parameters of a network whose outputs are linear."""
  action_spec = types.ActionSpec((), jnp.int32, 0, num_actions - 1)
  spec = rule.agent_output_spec(action_spec)
  keys = jax.random.split(jax.random.PRNGKey(seed), len(spec))
  return {
    name: jax.random.normal(key, (OBS, *spec[name].shape))
    for key, name in zip(keys, sorted(spec), strict=True)
  }


def _unroll(params, state, observations, should_reset):
  del should_reset
  outs = {k: jnp.tensordot(observations, w, 1) for k, w in params.items()}
  return outs, state


def _pad(few, like):
  """Writes arrays into the first actions of larger ones."""
  return jax.tree.map(
    lambda x, y: y.at[tuple(slice(n) for n in x.shape)].set(x), few, like
  )


def _cut(many, like):
  return jax.tree.map(
    lambda x, y: x[tuple(slice(n) for n in y.shape)], many, like
  )


def _rollouts(seed=0):
  """Makes the same experience with A actions and with MORE illegal ones."""
  keys = jax.random.split(jax.random.PRNGKey(seed), 7)
  mask = jax.random.bernoulli(keys[0], 0.6, (T + 1, B, A))
  mask = mask.at[..., 1].set(True)
  actions = action_masks.sample(keys[1], mask)
  logits = jax.random.normal(keys[2], (T + 1, B, A))
  more = 3 * jax.random.normal(keys[3], (T + 1, B, MORE))
  both = []
  for own_logits, own_mask in (
    (logits, mask),
    (
      jnp.concatenate([logits, more], -1),
      jnp.concatenate([mask, jnp.zeros((T + 1, B, MORE), bool)], -1),
    ),
  ):
    both.append(
      types.ActorRollout(
        observations=jax.random.normal(keys[4], (T + 1, B, OBS)),
        actions=actions,
        rewards=jax.random.normal(keys[5], (T + 1, B)),
        discounts=jax.random.bernoulli(keys[6], 0.8, (T + 1, B)),
        agent_outs=dict(logits=own_logits),
        states=None,
        logits=own_logits,
        action_mask=own_mask,
      )
    )
  return both


def _make(name):
  settings = small.settings(name)
  rule = registry.get_update_rule(name, **settings.update_rule)
  critic = None
  if rule.needs_value_out:
    critic = types.ValueFnConfig(**settings.value_fn)
  return rule, settings.hyper_params.to_dict(), critic


# These are of all outputs of the network.
_RAW_LOGS = ('z', 'global_gradient_norm', 'global_update_norm')


@pytest.mark.parametrize('name', masked_learning.RULES)
def test_actions_that_are_never_legal_change_nothing(name):
  rule, hyper_params, critic = _make(name)
  rng = jax.random.PRNGKey(3)
  eta, _ = rule.init_params(rng)
  few = _init(rule, A, 0)
  many = _pad(few, _init(rule, A + MORE, 1))
  learner = disco_rl.make_learner(
    rule,
    _unroll,
    learning_rate=1e-2,
    hyper_params=hyper_params,
    critic=critic,
    with_outputs=True,
  )

  def learn(eta, params, rollout):
    state = learner.init(rng, params, rollout.observations[0])
    for _ in range(2):  # The second target network differs from the network.
      state, out = learner.update(eta, state, rollout, rng)
    terms = rule.target_terms(out.meta_out, None)
    own = _cut(state.params, few)
    loss = sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(own))
    return loss + sum(terms.values()), (own, out, terms)

  differentiate = jax.jit(jax.grad(learn, has_aux=True))
  rollout, larger_rollout = _rollouts()
  eta_grads, (params, out, terms) = differentiate(eta, few, rollout)
  actual = differentiate(eta, many, larger_rollout)
  assert masked_learning.all_finite((eta_grads, params, out, actual))
  moved = jax.tree.map(lambda x, y: float(jnp.abs(x - y).max()), params, few)
  assert min(jax.tree.leaves(moved)) > 1e-3
  more_grads, (more_params, more_out, more_terms) = jax.device_get(actual)
  golden.check_trees_close(more_params, jax.device_get(params), 5e-4)
  for key, value in {**out.log, **terms}.items():
    if key not in _RAW_LOGS:
      other = {**more_out.log, **more_terms}[key]
      np.testing.assert_allclose(other, value, 1e-3, 1e-4, err_msg=key)
  for key in out.meta_out.keys() & {'y', 'z', 'q_target', 'advs', 'raw_advs'}:
    np.testing.assert_allclose(
      more_out.meta_out[key], out.meta_out[key], 1e-3, 1e-4, err_msg=key
    )
  if name == 'disco':
    pi = [jax.nn.softmax(x.meta_out['pi']) for x in (more_out, out)]
    np.testing.assert_allclose(pi[0][..., :A], pi[1], 1e-3, 1e-5)
    assert (pi[0][~np.asarray(larger_rollout.action_mask[:-1])] == 0).all()
    wanted = jax.device_get(eta_grads)
    for module, leaves in wanted.items():
      for leaf, value in leaves.items():
        tolerance = 1e-3 * np.abs(value).max() + 1e-7
        other = more_grads[module][leaf]
        np.testing.assert_allclose(other, value, 5e-3, tolerance, module)


# -------------------------------------------------------- masks of all actions


@pytest.mark.parametrize('name', masked_learning.RULES)
def test_a_mask_of_legal_actions_only_changes_nothing(name):
  """To the bit where no mean over actions is taken, else to rounding."""
  an_agent = masked_learning.make_agent(name)
  kind = masked.AllLegalDoors
  eta, learner, rollout = masked_learning.act(an_agent, kind)
  results = [
    an_agent.learner.update(
      eta, learner, own, jax.random.PRNGKey(1), backprop=False
    )
    for own in (rollout, rollout.replace(action_mask=None))
  ]
  (actual, out), (wanted, plain) = jax.device_get(results)
  if name == 'disco':
    golden.check_trees_close(actual, wanted, 1e-5)
  else:
    jax.tree.map(np.testing.assert_array_equal, actual, wanted)
  golden.check_trees_close(out.log, plain.log, 1e-4)


# ------------------------------------------------------- fast paths, finiteness


def _jitted(an_agent, **kwargs):
  return jax.jit(
    lambda eta, learner, rollout: an_agent.learner.update(
      eta, learner, rollout, jax.random.PRNGKey(1), **kwargs
    )
  )


def test_summaries_and_blocks_give_the_same_numbers(monkeypatch):
  monkeypatch.setattr(blocks.map_rows, '__defaults__', (60,))
  monkeypatch.setattr(unrolls, 'STREAM_ELEMENTS', 60)
  an_agent = masked_learning.make_agent('disco')
  experience = masked_learning.act(an_agent, batch_size=5)
  fast, out = _jitted(an_agent, backprop=False)(*experience)
  whole, whole_out = _jitted(an_agent, backprop=False, whole_outputs=True)(
    *experience
  )
  assert (
    base.SUMMARY in out.agent_out and base.SUMMARY not in whole_out.agent_out
  )
  # The plain path: an unroll function without stages.
  embed_only = disco_rl.make_learner(
    an_agent.update_rule,
    lambda *inputs: an_agent._network.unroll(*inputs),
    optimizer=an_agent.learner._optimizer,
    hyper_params=an_agent.settings.hyper_params,
  )
  plain, plain_out = jax.jit(embed_only.update)(
    *experience, jax.random.PRNGKey(1)
  )
  for state in (whole, plain):
    golden.check_trees_close(
      jax.device_get(fast.params), jax.device_get(state.params), 2e-4
    )
  for log in (whole_out.log, plain_out.log):
    for key, value in log.items():
      np.testing.assert_allclose(out.log[key], value, 1e-3, 1e-4, err_msg=key)
  mask = experience[2].action_mask
  for logits in (
    out.agent_out['logits'],
    out.meta_out['target_out']['logits'],
    whole_out.agent_out['logits'],
  ):
    p = np.asarray(jax.nn.softmax(logits))
    assert (p[~np.asarray(mask)] == 0).all()


@pytest.mark.parametrize('name', masked_learning.RULES)
def test_the_rule_alone_learns_the_same(name):
  """`UpdateRule.__call__` masks what a learner masks, also with stages."""
  an_agent = masked_learning.make_agent(name)
  eta, learner, rollout = masked_learning.act(an_agent)
  network, rule = an_agent._network, an_agent.update_rule
  unroll = network.unroll
  if name == 'disco':
    assert isinstance(unroll, staged_unroll.StagedUnroll)
  value_out = None
  if an_agent.critic is not None:
    logits, _ = an_agent.learner.unroll_for_loss(learner.params, {}, rollout)
    _, value_out, _ = an_agent.critic.update(
      learner.critic, rollout, logits['logits']
    )
  # The logits that acted need not be masked.
  raw, _ = unroll(learner.params, {}, rollout.observations, rollout.is_last)
  weights = (rollout.discounts[:-1] > 0) / (rollout.discounts[:-1] > 0).sum()

  def loss_fn(params):
    outs, _ = unroll(params, {}, rollout.observations, rollout.is_last)
    inputs = types.UpdateRuleInputs(
      observations=rollout.observations,
      actions=rollout.actions,
      rewards=rollout.rewards[1:],
      is_terminal=rollout.is_last[1:],
      agent_out=outs,
      behaviour_agent_out=dict(logits=raw['logits']),
      value_out=value_out,
      action_mask=rollout.action_mask,
    )
    loss, _, _ = rule(
      eta,
      params,
      {},
      inputs,
      an_agent.settings.hyper_params,
      dict(learner.meta_state),
      unroll,
      jax.random.PRNGKey(1),
      None,
    )
    return jnp.sum(loss * weights)

  loss, grads = jax.jit(jax.value_and_grad(loss_fn))(learner.params)
  _, out = _jitted(an_agent)(eta, learner, rollout)
  assert masked_learning.all_finite(grads)
  np.testing.assert_allclose(loss, out.log['total_loss'], 1e-4, 1e-6)
  norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(grads)))
  np.testing.assert_allclose(norm, out.log['global_gradient_norm'], 1e-3)


def test_targets_of_the_policy_are_legal_and_policies_stay_so():
  an_agent = masked_learning.make_agent('disco')
  eta, learner, rollout = masked_learning.act(an_agent)
  update = _jitted(an_agent)
  for _ in range(20):
    learner, out = update(eta, learner, rollout)
    assert masked_learning.all_finite((learner, out))
  p = np.asarray(jax.nn.softmax(out.meta_out['pi']))
  assert (p[~np.asarray(rollout.action_mask[:-1])] == 0).all()


def test_masks_of_another_shape_are_refused():
  an_agent = masked_learning.make_agent('actor_critic')
  eta, learner, rollout = masked_learning.act(an_agent)
  for bad in (
    rollout.action_mask[:-1],
    rollout.action_mask[..., :-1],
    jnp.asarray(rollout.action_mask, jnp.float32),
  ):
    own = rollout.replace(action_mask=bad)
    with pytest.raises(ValueError, match='action_mask must be None or bool'):
      _jitted(an_agent)(eta, learner, own)
    inputs = rule_inputs.inputs_from_rollout(own, own.agent_outs)
    with pytest.raises(ValueError, match='action_mask must be None or bool'):
      action_masks.mask_inputs(inputs)


# ------------------------------------------------------------- with NumPy alone


def _log_softmax(x, mask):
  """Of one step: -inf for illegal actions."""
  legal = [x[a] for a in range(len(x)) if mask[a]]
  log_sum = np.log(np.sum(np.exp(legal)))
  return [x[a] - log_sum if mask[a] else -np.inf for a in range(len(x))]


def test_actor_critic_loss_with_loops():
  rule = actor_critic.ActorCritic()  # With scalar values.
  hyper_params = small.settings('actor_critic').hyper_params.to_dict()
  rollout, _ = _rollouts(7)
  params = _init(rule, A, 0)
  learner = disco_rl.make_learner(
    rule, _unroll, learning_rate=1e-2, hyper_params=hyper_params
  )
  state = learner.init(jax.random.PRNGKey(0), params)
  _, out = jax.jit(learner.update)({}, state, rollout, jax.random.PRNGKey(0))

  r = jax.device_get(rollout)
  outs = jax.device_get(_unroll(params, None, r.observations, None)[0])
  gamma, lambda_ = (
    hyper_params['discount_factor'],
    hyper_params['vtrace_lambda'],
  )
  total, weight = 0.0, 0.0
  for b in range(B):
    value = outs['v'][:, b, 0]
    pi, mu = (
      [_log_softmax(x[t, b], r.action_mask[t, b]) for t in range(T + 1)]
      for x in (outs['logits'], r.logits)
    )
    rho = [np.exp(pi[t][a] - mu[t][a]) for t, a in enumerate(r.actions[:, b])]
    discount = gamma * np.asarray(r.discounts[1:, b], float)
    error, errors = 0.0, [0.0] * (T + 1)
    for t in reversed(range(T)):
      td = r.rewards[t + 1, b] + discount[t] * value[t + 1] - value[t]
      error = min(rho[t], 1) * (td + discount[t] * lambda_ * error)
      errors[t] = error
    for t in range(T):
      if not r.discounts[t, b]:
        continue
      target = r.rewards[t + 1, b] + discount[t] * (
        value[t + 1] + lambda_ * errors[t + 1]
      )
      adv = min(rho[t], 1) * (target - value[t])
      entropy = -sum(np.exp(x) * x for x in pi[t] if x > -np.inf)
      total += hyper_params['pg_cost'] * -pi[t][r.actions[t, b]] * adv
      total += hyper_params['value_cost'] * 0.5 * errors[t] ** 2
      total -= hyper_params['entropy_cost'] * entropy
      weight += 1
  np.testing.assert_allclose(out.log['total_loss'], total / weight, 1e-4)
