"""Proximal policy optimisation (PPO), a hand-designed baseline.

See https://arxiv.org/abs/1707.06347. The old policy is the one that acted, so
that the rule takes one gradient step per batch like all others, also on batches
of a replay. Its advantages are generalised advantage estimates (GAE,
https://arxiv.org/abs/1506.02438).
"""

from typing import Any

import chex
import distrax
import jax
import jax.numpy as jnp
import numpy as np
import rlax

from disco_rl import types
from disco_rl import utils
from disco_rl.update_rules import base
from disco_rl.update_rules import categorical
from disco_rl.value_fns import value_utils


class PPO(base.UpdateRule):
  """Clipped policy, value and entropy losses, with GAE."""

  required_hyper_params = (
    'discount_factor',
    'gae_lambda',
    'clip_epsilon',
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
    normalize_adv: bool = True,
    moving_average_decay: float = 0.0,
    moving_average_eps: float = 1e-6,
  ):
    """Initialises the rule.

    Args:
      categorical_value: whether to predict a categorical distribution of values
        instead of a scalar.
      num_bins: number of points of its support.
      max_abs_value: the support is ± this.
      nonlinear_value_transform: whether to predict h(value); see `value_utils`.
      normalize_adv: whether to divide advantages by their standard deviation,
        after subtracting the mean.
      moving_average_decay: decay of those statistics; with 0, they are those of
        the batch alone.
      moving_average_eps: added to the standard deviation.
    """
    value_utils.checked_max_abs_value(max_abs_value)
    value_utils.checked_num_bins(num_bins)
    self._categorical_value = categorical_value
    self._num_bins = num_bins
    self._max_abs_value = max_abs_value if categorical_value else None
    self._nonlinear = nonlinear_value_transform
    self._normalize_adv = normalize_adv
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
    """Makes `adv_ema_state`."""
    del rng, params
    return dict(adv_ema_state=self._ema.init_state())

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
    """Computes advantages and value targets; see `base.UpdateRule`."""
    del meta_params, params, state, unroll_policy_fn, rng
    self._check_inputs(rollout, hyper_params)
    values = value_utils.get_values_from_net_outs(
      rollout.agent_out['v'],
      self._categorical_value,
      self._max_abs_value,
      self._nonlinear,
    )
    advs = advantages(
      rollout.rewards,
      rollout.is_terminal,
      values,
      hyper_params['discount_factor'],
      hyper_params['gae_lambda'],
    )
    ema_state = self._ema.update_state(
      advs, meta_state['adv_ema_state'], axis_name
    )
    used = self._ema.normalize(advs, ema_state) if self._normalize_adv else advs
    meta_out = dict(
      advs=used,
      raw_advs=advs,
      value_target=values[:-1] + advs,
      values=values,
    )
    return meta_out, dict(adv_ema_state=ema_state)

  def agent_loss(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
    backprop: bool,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Sums the weighted clipped policy, value and negative-entropy losses."""
    behaviour: Any = rollout.behaviour_agent_out
    logits = rollout.agent_out['logits'][:-1]
    pg_loss, is_clipped = clipped_policy_loss(
      logits,
      behaviour['logits'][:-1],
      rollout.actions[:-1],
      meta_out['advs'] if backprop else jax.lax.stop_gradient(meta_out['advs']),
      hyper_params['clip_epsilon'],
    )
    value_loss = value_utils.value_loss_from_target(
      rollout.agent_out['v'][:-1],
      jax.lax.stop_gradient(meta_out['value_target']),
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
      entropy=jnp.mean(entropy),
      clip_fraction=jnp.mean(jnp.asarray(is_clipped, jnp.float32)),
      raw_advs=jnp.mean(meta_out['raw_advs']),
      avg_value=jnp.mean(meta_out['values']),
    )
    return loss, log


def advantages(
  rewards: types.Array,
  is_terminal: types.Array,
  values: types.Array,
  discount: chex.Numeric,
  lambda_: chex.Numeric,
) -> jax.Array:
  """Computes generalised advantage estimates.

  `Âₜ = δₜ + γₜ₊₁·λ·Âₜ₊₁` with `δₜ = rₜ₊₁ + γₜ₊₁·V(sₜ₊₁) - V(sₜ)`, where γₜ₊₁ is
  0 if the episode ends at step t+1.

  Args:
    rewards: [T, B].
    is_terminal: [T, B], bool.
    values: [T+1, B], V.
    discount: γ.
    lambda_: λ.

  Returns:
    [T, B], the advantages.
  """
  discounts = discount * (1.0 - jnp.asarray(is_terminal, jnp.float32))
  estimate = jax.vmap(
    rlax.truncated_generalized_advantage_estimation,
    in_axes=(1, 1, None, 1),
    out_axes=1,
  )
  lambda_ = jnp.asarray(lambda_, jnp.float32)
  return estimate(jnp.asarray(rewards, jnp.float32), discounts, lambda_, values)


def clipped_policy_loss(
  logits: types.Array,
  old_logits: types.Array,
  actions: types.Array,
  advs: types.Array,
  epsilon: chex.Numeric,
) -> tuple[jax.Array, jax.Array]:
  """Computes `-min(ρ·Â, clip(ρ, 1 - ε, 1 + ε)·Â)` with ρ = π(a)/μ(a).

  Args:
    logits: [..., A], the policy π.
    old_logits: [..., A], the policy μ that acted.
    actions: [...], int, the actions taken.
    advs: [...], the advantages Â.
    epsilon: ε.

  Returns:
    [...], the loss of each step; and [...], bool, whether its gradient is 0
    since ρ is already clipped.
  """
  log_rho = distrax.Softmax(logits).log_prob(actions)
  log_rho -= jax.lax.stop_gradient(
    distrax.Softmax(old_logits).log_prob(actions)
  )
  rho = jnp.exp(log_rho)
  clipped = jnp.clip(rho, 1.0 - epsilon, 1.0 + epsilon)
  is_clipped = clipped * advs < rho * advs
  return -jnp.where(is_clipped, clipped, rho) * advs, is_clipped
