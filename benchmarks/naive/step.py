"""The plain learner step: targets, losses, gradient and optimiser."""

from collections.abc import Callable, Mapping
from typing import Any

import distrax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.naive import agent_net
from benchmarks.naive import meta_net
from disco_rl import compat
from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.learning import learner_step
from disco_rl.value_fns import value_utils

Step = Callable[
  [types.MetaParams, types.ActorRollout, learner_step.LearnerState],
  tuple[learner_step.LearnerState, types.LogDict],
]


def make_step(
  agent_settings: Any, num_actions: int, backprop: bool = False
) -> Step:
  """Makes the learner step of an agent that learns with Disco.

  Args:
    agent_settings: see `disco_rl.agent.get_settings_disco`; a network `mlp`
      without memory.
    num_actions: A.
    backprop: whether the new θ is differentiable in η through the targets.

  Returns:
    A function `(eta, rollout, state) -> (state, log)` of a rollout with leaves
    [T+1, B, ...]. The log has the rule's targets as `meta_out`, as a whole.
  """
  unroll = make_network(agent_settings, num_actions)
  targets_fn = _make_targets_fn(agent_settings, unroll)
  optimizer = optimizers.agent_optimizer(agent_settings)
  costs = agent_settings.hyper_params
  max_abs_value = agent_settings.update_rule.max_abs_value

  def step(
    eta: types.MetaParams,
    rollout: types.ActorRollout,
    state: learner_step.LearnerState,
  ) -> tuple[learner_step.LearnerState, types.LogDict]:
    mask = jnp.asarray(rollout.discounts[:-1] > 0, jnp.float32)

    inputs = types.UpdateRuleInputs(
      observations=rollout.observations,
      actions=rollout.actions,
      rewards=rollout.rewards[1:],
      is_terminal=rollout.discounts[1:] == 0,
      agent_out=unroll(state.params, rollout.observations),
      behaviour_agent_out=rollout.agent_outs,
    )
    # The targets are constants of the gradient in θ.
    meta_out, meta_state = targets_fn(
      eta, state.params, state.meta_state, inputs
    )
    if not backprop:
      meta_out = jax.lax.stop_gradient(meta_out)

    def loss_fn(params: types.AgentParams) -> Any:
      agent_out = unroll(params, rollout.observations)
      losses, log = _losses(
        inputs.replace(agent_out=agent_out), meta_out, max_abs_value
      )
      loss = sum(costs[f'{name}_cost'] * x for name, x in losses.items())
      return jnp.sum(loss * mask) / (jnp.sum(mask) + 1e-8), log

    (total_loss, log), grads = jax.value_and_grad(loss_fn, has_aux=True)(
      state.params
    )
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    log |= dict(total_loss=total_loss, meta_out=meta_out)
    log['global_gradient_norm'] = compat.tree_norm(grads)
    log['global_update_norm'] = compat.tree_norm(updates)
    new_state = state.replace(
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
      meta_state=meta_state,
    )
    return new_state, log

  return step


def make_network(
  agent_settings: Any, num_actions: int
) -> Callable[[types.AgentParams, Any], dict[str, jax.Array]]:
  """Makes the unroll function of the network.

  Args:
    agent_settings: see `make_step`.
    num_actions: A.

  Returns:
    A function from θ and observations [T+1, B, ...] to outputs by name.
  """
  rule = agent_settings.update_rule
  predictions = types.ArraySpec((rule.net.prediction_size,), np.float32)
  logits = types.ArraySpec((num_actions,), np.float32)
  bins = types.ArraySpec((rule.num_bins,), np.float32)
  network: Any = hk.without_apply_rng(
    hk.transform(
      lambda observations: agent_net.AgentNet(
        dict(logits=logits, y=predictions),
        dict(z=predictions, aux_pi=logits, q=bins),
        num_actions,
        agent_settings.net_settings.net_args,
      )(observations)
    )
  )
  return network.apply


def _make_targets_fn(
  agent_settings: Any, unroll: Callable[..., dict[str, jax.Array]]
) -> Callable[..., tuple[dict[str, Any], dict[str, Any]]]:
  """Makes a function that computes the rule's targets and new meta-state."""
  rule = agent_settings.update_rule
  network: Any = hk.without_apply_rng(
    hk.transform_with_state(lambda inputs: meta_net.MetaNet(rule.net)(inputs))
  )
  ema = utils.MovingAverage(jnp.zeros([]), decay=0.99, eps=1e-6)
  coeff = agent_settings.hyper_params.target_params_coeff

  def targets_fn(
    eta: types.MetaParams,
    params: types.AgentParams,
    meta_state: Mapping[str, Any],
    inputs: types.UpdateRuleInputs,
  ) -> tuple[dict[str, Any], dict[str, Any]]:
    target_out = unroll(meta_state['target_params'], inputs.observations)
    values, adv_ema_state, td_ema_state = value_utils.get_value_outs(
      value_net_out=None,
      q_net_out=inputs.agent_out['q'],
      target_value_net_out=None,
      target_q_net_out=target_out['q'],
      rollout=inputs,
      pi_logits=inputs.agent_out['logits'],
      discount=rule.value_discount,
      lambda_=agent_settings.hyper_params.value_fn_td_lambda,
      nonlinear_transform=True,
      categorical_value=True,
      max_abs_value=rule.max_abs_value,
      drop_last=False,
      adv_ema_state=meta_state['adv_ema_state'],
      adv_ema_fn=ema,
      td_ema_state=meta_state['td_ema_state'],
      td_ema_fn=ema,
    )
    read = ('adv', 'normalized_adv', 'qv_adv', 'normalized_qv_adv')
    shared = dict({k: values[k] for k in read}, target_out=target_out)
    meta_out, rnn_state = network.apply(
      eta,
      meta_state['rnn_state'],
      inputs.replace(
        extra_from_rule=dict(
          shared, v_scalar=values.value, q=values.target_q_value
        )
      ),
    )
    learned = ('q_target', 'q_value', 'q_td', 'normalized_q_td')
    new_meta_state = dict(
      rnn_state=rnn_state,
      adv_ema_state=adv_ema_state,
      td_ema_state=td_ema_state,
      target_params=jax.tree.map(
        lambda target, online: coeff * target + (1 - coeff) * online,
        meta_state['target_params'],
        params,
      ),
    )
    return {
      **meta_out,
      **shared,
      **{k: values[k] for k in learned},
    }, new_meta_state

  return targets_fn


def _losses(
  inputs: types.UpdateRuleInputs,
  meta_out: Mapping[str, Any],
  max_abs_value: float,
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
  """Computes the losses [T, B] by the name of their cost, and a log."""
  outs = {k: x[:-1] for k, x in inputs.agent_out.items()}
  actions = inputs.actions[:-1]
  z_a = utils.batch_lookup(outs['z'], actions)
  aux_pi_a = utils.batch_lookup(outs['aux_pi'], actions)
  q_a = utils.batch_lookup(outs['q'], actions)
  next_logits = jax.lax.stop_gradient(inputs.agent_out['logits'][1:])
  kl = lambda p, q: distrax.Softmax(p).kl_divergence(distrax.Softmax(q))
  entropy = lambda logits: jnp.mean(distrax.Softmax(logits).entropy())
  losses = dict(
    pi=kl(meta_out['pi'], outs['logits']),
    y=kl(meta_out['y'], outs['y']),
    z=kl(meta_out['z'], z_a),
    aux_policy=kl(next_logits, aux_pi_a) * (1.0 - inputs.is_terminal),
    value=value_utils.value_loss_from_td(
      q_a,
      jax.lax.stop_gradient(meta_out['q_td']),
      nonlinear_transform=True,
      categorical_value=True,
      max_abs_value=max_abs_value,
    ),
  )
  log = dict(
    logits=jnp.mean(outs['logits']),
    y=jnp.mean(outs['y']),
    z=jnp.mean(outs['z']),
    entropy=entropy(outs['logits']),
    y_entropy=entropy(outs['y']),
    z_entropy=entropy(z_a),
    pi_loss=jnp.mean(losses['pi']),
    aux_kl_loss=jnp.mean(losses['aux_policy']),
    pi_hat=jnp.mean(meta_out['pi']),
    y_hat=jnp.mean(meta_out['y']),
    z_hat=jnp.mean(meta_out['z']),
    pi_hat_entropy=entropy(meta_out['pi']),
    aux_policy_entropy=entropy(aux_pi_a),
    aux_target_entropy=entropy(next_logits),
    q_target=jnp.mean(meta_out['q_target']),
    agent_q_mean=jnp.mean(meta_out['q_value']),
    q_loss=jnp.mean(losses['value']),
    td=jnp.mean(meta_out['q_td']),
    normalized_td=jnp.mean(meta_out['normalized_q_td']),
  )
  return losses, log
