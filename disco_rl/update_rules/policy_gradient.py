"""The simplest rule: policy gradient with the advantages of a critic."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.update_rules import base
from disco_rl.update_rules import categorical


class PolicyGradientUpdate(base.UpdateRule):
  """Policy-gradient and entropy losses; a critic supplies `value_out`."""

  needs_value_out = True

  def __init__(
    self,
    entropy_cost: float = 0.01,
    normalize_adv: bool = True,
    pg_cost: float = 1.0,
    kl_prior_cost: float = 0.5,
    p_actor_prior: float = 0.03,
    p_uniform_prior: float = 0.003,
    target_params_coeff: float = 0.1,
  ):
    """Initialises the rule.

    Args:
      entropy_cost: weight of the negative entropy.
      normalize_adv: whether to use `value_out.normalized_adv` instead of `adv`.
      pg_cost: weight of the policy-gradient loss.
      kl_prior_cost: part of the published interface, not used.
      p_actor_prior: part of the published interface, not used.
      p_uniform_prior: part of the published interface, not used.
      target_params_coeff: part of the published interface, not used.
    """
    del kl_prior_cost, p_actor_prior, p_uniform_prior, target_params_coeff
    self._entropy_cost = entropy_cost
    self._normalize_adv = normalize_adv
    self._pg_cost = pg_cost

  def flat_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns the spec of `logits` [A]."""
    return dict(logits=utils.get_logits_specs(single_action_spec))

  def model_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns no outputs."""
    return super().model_output_spec(single_action_spec)

  def init_meta_state(
    self, rng: chex.PRNGKey, params: types.AgentParams
  ) -> types.MetaState:
    """Makes an empty meta-state."""
    del rng, params
    return {}

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
    """Returns the advantages, as `pi` [T, B]; see `base.UpdateRule`."""
    del meta_params, params, state, unroll_policy_fn, rng, axis_name
    self._check_inputs(rollout, hyper_params)
    value_out: Any = rollout.value_out
    field = 'normalized_adv' if self._normalize_adv else 'adv'
    if jnp.shape(value_out[field]) != jnp.shape(rollout.rewards):
      raise ValueError(
        f'rollout.value_out.{field} must be [T, B] like the rewards, '
        f'{jnp.shape(rollout.rewards)}; got {jnp.shape(value_out[field])}'
      )
    return dict(pi=value_out[field]), meta_state

  def agent_loss(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
    backprop: bool,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Sums the weighted policy-gradient and negative-entropy losses."""
    del hyper_params
    logits = rollout.agent_out['logits'][:-1]
    advs = meta_out['pi']
    pg_loss = utils.differentiable_policy_gradient_loss(
      logits, rollout.actions[:-1], advs, backprop
    )
    entropy = categorical.entropy(logits)
    loss = self._pg_cost * pg_loss - self._entropy_cost * entropy
    return loss, dict(entropy=jnp.mean(entropy), pg_advs=jnp.mean(advs))
