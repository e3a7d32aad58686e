"""Actor-critic with V-trace (IMPALA), a hand-designed baseline.

See https://arxiv.org/abs/1802.01561. It has the interface of the discovered
rule.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_masks
from disco_rl.update_rules import base
from disco_rl.update_rules import categorical
from disco_rl.value_fns import value_utils


class ActorCritic(base.UpdateRule):
  """Policy gradient, value and entropy losses with V-trace targets."""

  required_hyper_params = (
    'discount_factor',
    'vtrace_lambda',
    'entropy_cost',
    'pg_cost',
    'value_cost',
  )
  needs_behaviour_logits = True

  def __init__(
    self,
    categorical_value: bool = False,
    num_bins: int = 601,
    max_abs_value: float = 300.0,
    nonlinear_value_transform: bool = False,
    normalize_adv: bool = False,
    normalize_td: bool = False,
    moving_average_decay: float = 0.99,
    moving_average_eps: float = 1e-6,
  ):
    """Initialises the rule.

    Args:
      categorical_value: whether to predict a categorical distribution of values
        instead of a scalar.
      num_bins: number of points of its support.
      max_abs_value: the support is ± this.
      nonlinear_value_transform: whether to predict h(value); see `value_utils`.
      normalize_adv: whether to divide advantages by their moving standard
        deviation, after subtracting the mean.
      normalize_td: whether to divide TD errors by their moving standard
        deviation; for scalar values only.
      moving_average_decay: decay of those statistics.
      moving_average_eps: added to the standard deviations.
    """
    if categorical_value and normalize_td:
      raise ValueError('normalize_td needs scalar values, not categorical ones')
    value_utils.checked_max_abs_value(max_abs_value)
    value_utils.checked_num_bins(num_bins)
    self._categorical_value = categorical_value
    self._num_bins = num_bins
    self._max_abs_value = max_abs_value if categorical_value else None
    self._nonlinear = nonlinear_value_transform
    self._normalize_adv = normalize_adv
    self._normalize_td = normalize_td
    self._ema = utils.MovingAverage(
      jnp.zeros([]), decay=moving_average_decay, eps=moving_average_eps
    )

  def flat_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns the specs of `logits` [A] and `v` [bins or 1]."""
    size = self._num_bins if self._categorical_value else 1
    return dict(
      logits=utils.get_logits_specs(single_action_spec),
      v=types.ArraySpec((size,), np.float32),
    )

  def model_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns no outputs."""
    return super().model_output_spec(single_action_spec)

  def init_meta_state(
    self, rng: chex.PRNGKey, params: types.AgentParams
  ) -> types.MetaState:
    """Makes `adv_ema_state` and `td_ema_state`."""
    del rng, params
    return dict(
      adv_ema_state=self._ema.init_state(), td_ema_state=self._ema.init_state()
    )

  def unroll_meta_net(
    self,
    meta_params: types.MetaParams,
    params: types.AgentParams,
    state: types.HaikuState,
    meta_state: types.MetaState,
    rollout: types.UpdateRuleInputs,
    hyper_params: types.HyperParams,
    unroll_policy_fn: types.AgentUnrollFn,
    rng: chex.PRNGKey,
    axis_name: Any | None = None,
  ) -> tuple[types.UpdateRuleOuts, types.MetaState]:
    """Computes V-trace advantages and targets; see `base.UpdateRule`."""
    del meta_params, params, state, unroll_policy_fn, rng
    self._check_inputs(rollout, hyper_params)
    value_outs, adv_ema_state, td_ema_state = value_utils.get_value_outs(
      value_net_out=rollout.agent_out['v'],
      q_net_out=None,
      target_value_net_out=None,
      target_q_net_out=None,
      rollout=rollout,
      pi_logits=rollout.agent_out['logits'],
      discount=hyper_params['discount_factor'],
      lambda_=hyper_params['vtrace_lambda'],
      nonlinear_transform=self._nonlinear,
      categorical_value=self._categorical_value,
      max_abs_value=self._max_abs_value,
      drop_last=False,
      adv_ema_state=meta_state['adv_ema_state'],
      adv_ema_fn=self._ema,
      td_ema_state=meta_state['td_ema_state'],
      td_ema_fn=self._ema,
      axis_name=axis_name,
    )
    meta_out = dict(
      raw_advs=value_outs.adv,
      normalized_advs=value_outs.normalized_adv,
      value_target=value_outs.value_target,
      values=value_outs.value,
      normalized_tds=value_outs.normalized_td,
      tds=value_outs.td,
    )
    new_meta_state = dict(
      adv_ema_state=adv_ema_state, td_ema_state=td_ema_state
    )
    return meta_out, new_meta_state

  def agent_loss(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
    backprop: bool,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Sums the weighted policy-gradient, value and negative-entropy losses."""
    logits = rollout.agent_out['logits'][:-1]
    advs = meta_out['normalized_advs' if self._normalize_adv else 'raw_advs']
    tds = meta_out['normalized_tds' if self._normalize_td else 'tds']
    pg_loss = utils.differentiable_policy_gradient_loss(
      logits, rollout.actions[:-1], advs, backprop
    )
    value_loss = value_utils.value_loss_from_td(
      rollout.agent_out['v'][:-1],
      jax.lax.stop_gradient(tds),
      nonlinear_transform=self._nonlinear,
      categorical_value=self._categorical_value,
      max_abs_value=self._max_abs_value,
    )
    entropy = categorical.entropy(logits)
    loss = (
      hyper_params['pg_cost'] * pg_loss
      + hyper_params['value_cost'] * value_loss
      - hyper_params['entropy_cost'] * entropy
    )
    log = dict(
      logits=action_masks.mean_over_all(logits, rollout.action_mask),
      entropy=jnp.mean(entropy),
      pg_advs=jnp.mean(advs),
      raw_advs=jnp.mean(meta_out['raw_advs']),
      avg_value=jnp.mean(meta_out['values']),
    )
    return loss, log
