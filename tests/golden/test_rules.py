"""The published rules: targets, losses, logs, gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import policy_gradient
from tests.support import golden
from tests.support import small


def _numbers(tree):
  return {name: float(value) for name, value in tree.items()}


def test_disco():
  disco_agent = small.make_agent('disco')
  rule = disco_agent.update_rule
  unroll = disco_agent._network.unroll
  with golden.opened('disco_rule') as g:
    params, meta_params = g.params('params'), g.params('meta_params')
    hyper_params = _numbers(g.nested('hyper_params'))
    meta_state = g.fill(
      rule.init_meta_state(jax.random.PRNGKey(0), params), 'meta_state'
    )
    # Its agent_out is noise: the network's outputs replace it.
    recorded = types.UpdateRuleInputs(**g.nested('rollout'))

    def inputs(params):
      agent_out, _ = unroll(
        params, {}, recorded.observations, recorded.should_reset_mask_fwd
      )
      return recorded.replace(agent_out=agent_out)

    # Not compiled, like the recording: undoing the signed-hyperbolic map
    # turns the last bit of its argument into 1e-4 of a value.
    def targets(meta_params, rollout):
      return rule.unroll_meta_net(
        meta_params,
        params,
        {},
        meta_state,
        rollout,
        hyper_params,
        unroll,
        jax.random.PRNGKey(0),
        None,
      )

    @jax.jit
    def call(params):
      return rule(
        meta_params,
        params,
        {},
        inputs(params),
        hyper_params,
        meta_state,
        unroll,
        jax.random.PRNGKey(0),
        None,
      )

    rollout = inputs(params)
    g.check(rollout.agent_out, 'agent_out')
    meta_out, new_meta_state = targets(meta_params, rollout)
    g.check(meta_out, 'meta_out')
    g.check(new_meta_state, 'new_meta_state')
    loss, log = rule.agent_loss(rollout, meta_out, hyper_params, False)
    g.check_array(loss, 'loss_per_step')
    g.check(log, 'log')
    loss, log = rule.agent_loss_no_meta(rollout, meta_out, hyper_params)
    g.check_array(loss, 'loss_no_meta')
    g.check(log, 'log_no_meta')
    g.check_array(call(params)[0], 'call_loss')

    grads = jax.jit(jax.grad(lambda params: jnp.mean(call(params)[0])))(params)
    g.check(grads, 'grad_params', golden.GRADIENTS)

    def mean_agent_loss(meta_params, backprop):
      meta_out, _ = targets(meta_params, rollout)
      return jnp.mean(
        rule.agent_loss(rollout, meta_out, hyper_params, backprop)[0]
      )

    grad_fn = jax.jit(jax.grad(mean_agent_loss), static_argnums=1)
    grads = grad_fn(meta_params, True)
    g.check(grads, 'grad_meta_backprop', golden.GRADIENTS)
    grads = grad_fn(meta_params, False)
    total = sum(np.abs(x).sum() for x in jax.tree.leaves(grads))
    g.check_array(total, 'grad_meta_stopped_sum')


def test_actor_critic():
  with golden.opened('actor_critic_rule') as g:
    for case, kwargs in dict(
      cat1=dict(categorical_value=True),
      cat0=dict(normalize_adv=True, normalize_td=True),
    ).items():
      rule = actor_critic.ActorCritic(
        num_bins=11,
        max_abs_value=5.0,
        nonlinear_value_transform=True,
        **kwargs,
      )
      rollout = types.UpdateRuleInputs(**g.nested(f'{case}/rollout'))
      hyper_params = _numbers(g.nested(f'{case}/hyper_params'))
      meta_out, meta_state = rule.unroll_meta_net(
        {},
        {},
        {},
        rule.init_meta_state(jax.random.PRNGKey(0), {}),
        rollout,
        hyper_params,
        None,
        None,
        None,
      )
      g.check(meta_out, f'{case}/meta_out')
      g.check(meta_state, f'{case}/new_meta_state')
      loss, log = rule.agent_loss(rollout, meta_out, hyper_params, False)
      g.check_array(loss, f'{case}/loss')
      g.check(log, f'{case}/log')


def test_policy_gradient():
  rule = policy_gradient.PolicyGradientUpdate()
  with golden.opened('policy_gradient_rule') as g:
    fields = g.nested('rollout')
    fields['value_out'] = types.ValueOuts(**fields['value_out'])
    rollout = types.UpdateRuleInputs(**fields)
    meta_out, _ = rule.unroll_meta_net(
      {}, {}, {}, {}, rollout, {}, None, None, None
    )
    g.check(meta_out, 'meta_out')
    loss, log = rule.agent_loss(rollout, meta_out, {}, False)
    g.check_array(loss, 'loss')
    g.check(log, 'log')
