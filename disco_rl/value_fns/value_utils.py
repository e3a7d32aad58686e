"""Values, off-policy targets and value losses.

State values are learned with V-trace (https://arxiv.org/abs/1802.01561), action
values with Retrace (https://arxiv.org/abs/1606.02647). A network predicts a
value either as a scalar or as a categorical distribution over evenly spaced
points, and either directly or transformed by the signed-hyperbolic map
`h(x) = sign(x)(√(|x|+1) - 1) + εx` (https://arxiv.org/abs/1805.11593).

One file because all its functions are published in this module.
"""

from typing import Any

import chex
import distrax
import jax
import jax.numpy as jnp
import rlax

from disco_rl import types
from disco_rl import utils

Rollout = types.ActorRollout | types.UpdateRuleInputs

DEFAULT_DISCOUNT = 0.997  # γ of the published settings.
DEFAULT_TD_LAMBDA = 0.95


def get_value_outs(
  value_net_out: types.Array | None,
  q_net_out: types.Array | None,
  target_value_net_out: types.Array | None,
  target_q_net_out: types.Array | None,
  rollout: Rollout,
  pi_logits: types.Array,
  discount: chex.Numeric,
  lambda_: chex.Numeric = DEFAULT_TD_LAMBDA,
  nonlinear_transform: bool = False,
  categorical_value: bool = False,
  max_abs_value: float | None = None,
  drop_last: bool = True,
  adv_ema_state: types.EmaState | None = None,
  adv_ema_fn: utils.MovingAverage | None = None,
  td_ema_state: types.EmaState | None = None,
  td_ema_fn: utils.MovingAverage | None = None,
  axis_name: Any | None = None,
) -> tuple[types.ValueOuts, types.EmaState | None, types.EmaState | None]:
  """Computes the values, targets and advantages of a trajectory.

  Targets are those of Retrace if `q_net_out` is given, else those of V-trace.

  Args:
    value_net_out: [T+1, B, bins or 1], output of the V network, or None.
    q_net_out: [T+1, B, A, bins or 1], output of the Q network, or None.
    target_value_net_out: output of the target V network, of the same shape;
      None for that of the online network.
    target_q_net_out: output of the target Q network, of the same shape; None
      for that of the online network.
    rollout: the experience; rewards and discounts have T steps, or T+1 with
      `drop_last`.
    pi_logits: [T+1, B, A], the policy π that is evaluated.
    discount: γ.
    lambda_: λ of the traces.
    nonlinear_transform: whether the network predicts h(value).
    categorical_value: whether the network predicts a distribution.
    max_abs_value: the distribution's support is ± this.
    drop_last: whether to drop the last reward and discount.
    adv_ema_state: state of the moving average of advantages, or None for no
      normalisation.
    adv_ema_fn: the moving average of advantages, or None.
    td_ema_state: state of the moving average of TD errors, or None for no
      normalisation.
    td_ema_fn: the moving average of TD errors, or None.
    axis_name: axis (or axes) to average statistics over, or None.

  Returns:
    The values, and the updated advantage and TD averages (None as given).
  """
  for state, fn in ((adv_ema_state, adv_ema_fn), (td_ema_state, td_ema_fn)):
    if (state is None) != (fn is None):
      raise ValueError('a moving average needs both its state and its function')
  values, q_values = extract_scalar_values_from_net_out(
    value_net_out,
    q_net_out,
    pi_logits,
    categorical_value,
    max_abs_value,
    nonlinear_transform,
  )
  target_values, target_q_values = extract_scalar_values_from_net_out(
    value_net_out if target_value_net_out is None else target_value_net_out,
    q_net_out if target_q_net_out is None else target_q_net_out,
    pi_logits,
    categorical_value,
    max_abs_value,
    nonlinear_transform,
  )
  mu_logits, rewards, discounts = _experience(rollout, drop_last)
  actions = jnp.asarray(rollout.actions)[:-1]
  for name, x in dict(rewards=rewards, discounts=discounts).items():
    if x.shape != actions.shape:
      raise ValueError(
        f'{name} of shape {x.shape} do not go with actions of shape '
        f'{jnp.shape(rollout.actions)}: T and T+1 steps are needed (or T+1 and '
        'T+1, with drop_last)'
      )
  rho = importance_weight(pi_logits[:-1], mu_logits[:-1], actions)

  if q_values is None:
    outs = estimate_values(
      rewards, actions, discounts, rho, values, target_values, discount, lambda_
    )
  else:
    outs = estimate_q_values(
      rewards,
      actions,
      discounts,
      rho,
      values,
      target_values,
      q_values,
      target_q_values,
      discount,
      lambda_,
    )

  adv_ema_state, outs = _normalize_advantages(
    outs, adv_ema_state, adv_ema_fn, axis_name
  )
  td_ema_state, outs = _normalize_tds(
    outs, q_values is not None, td_ema_state, td_ema_fn, axis_name
  )
  return outs, adv_ema_state, td_ema_state


def estimate_values(
  rewards: types.Array,
  actions: types.Array,
  env_discounts: types.Array,
  rho: types.Array,
  values: types.Array,
  target_values: types.Array,
  discount: chex.Numeric = DEFAULT_DISCOUNT,
  lambda_: chex.Numeric = DEFAULT_TD_LAMBDA,
) -> types.ValueOuts:
  """Computes V-trace targets and advantages from state values.

  Args:
    rewards: [T, B].
    actions: [T, B]; not used.
    env_discounts: [T, B], 0 where an episode ended, else 1.
    rho: [T, B], π(a)/μ(a).
    values: [T+1, B], V of the online network.
    target_values: [T+1, B], V that targets are computed from.
    discount: γ.
    lambda_: λ of the traces.

  Returns:
    The outputs, with zeros for action values and for normalised fields.
  """
  del actions
  vtrace = jax.vmap(
    rlax.vtrace_td_error_and_advantage,
    in_axes=(1, 1, 1, 1, 1, None),
    out_axes=1,
  )(
    target_values[:-1],
    target_values[1:],
    rewards,
    discount * env_discounts,
    rho,
    jnp.asarray(lambda_, jnp.float32),
  )
  value_target = vtrace.errors + target_values[:-1]
  zeros = jnp.zeros_like(value_target)
  return types.ValueOuts(
    value=values,
    target_value=target_values,
    rho=rho,
    adv=vtrace.pg_advantage,
    normalized_adv=zeros,
    value_target=value_target,
    td=value_target - values[:-1],
    normalized_td=zeros,
    qv_adv=zeros,
    normalized_qv_adv=zeros,
    q_value=zeros,
    target_q_value=zeros,
    q_target=zeros,
    q_td=zeros,
    normalized_q_td=zeros,
  )


def estimate_q_values(
  rewards: types.Array,
  actions: types.Array,
  env_discounts: types.Array,
  rho: types.Array,
  values: types.Array,
  target_values: types.Array,
  q_values: types.Array,
  target_q_values: types.Array,
  discount: chex.Numeric = DEFAULT_DISCOUNT,
  lambda_: chex.Numeric = DEFAULT_TD_LAMBDA,
) -> types.ValueOuts:
  """Computes Retrace targets and advantages from action values.

  `Gₜ = rₜ₊₁ + γₜ₊₁·(V(sₜ₊₁) + cₜ₊₁·(Gₜ₊₁ - Q(sₜ₊₁, aₜ₊₁)))` with trace
  coefficients `c = λ·min(ρ, 1)`.

  Args:
    rewards: [T, B].
    actions: [T, B], int.
    env_discounts: [T, B], 0 where an episode ended, else 1.
    rho: [T, B], π(a)/μ(a).
    values: [T+1, B], V of the online network.
    target_values: [T+1, B], V that targets are computed from.
    q_values: [T+1, B, A], Q of the online network.
    target_q_values: [T+1, B, A], Q that targets are computed from.
    discount: γ.
    lambda_: λ of the traces.

  Returns:
    The outputs, with zeros for normalised fields.
  """
  q_a = utils.batch_lookup(q_values[:-1], actions)
  target_q_a = utils.batch_lookup(target_q_values[:-1], actions)
  clipped_rho = jnp.minimum(rho, 1.0)

  # In rlax, value, trace and reward at one index belong to one step. Here
  # rewards are received on arrival, so a step of zeros is prepended to them,
  # whose return is dropped again.
  prepend_zero = lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), x])
  returns = jax.vmap(
    rlax.general_off_policy_returns_from_q_and_v, in_axes=1, out_axes=1
  )(
    target_q_a,
    target_values,
    prepend_zero(rewards),
    prepend_zero(discount * env_discounts),
    lambda_ * clipped_rho,
  )
  q_target = jax.lax.stop_gradient(returns[1:])

  adv = q_target - target_values[:-1]
  value_target = target_values[:-1] + clipped_rho * adv
  qv_adv = target_q_values - target_values[..., None]
  zeros = jnp.zeros_like(adv)
  return types.ValueOuts(
    value=values,
    target_value=target_values,
    rho=rho,
    adv=adv,
    normalized_adv=zeros,
    value_target=value_target,
    td=value_target - values[:-1],
    normalized_td=zeros,
    qv_adv=qv_adv,
    normalized_qv_adv=jnp.zeros_like(qv_adv),
    q_value=q_values,
    target_q_value=target_q_values,
    q_target=q_target,
    q_td=q_target - q_a,
    normalized_q_td=zeros,
  )


def extract_scalar_values_from_net_out(
  value_net_out: types.Array | None,
  q_net_out: types.Array | None,
  pi_logits: types.Array,
  categorical_value: bool,
  max_abs_value: float | None,
  nonlinear_transform: bool,
) -> tuple[Any, Any]:
  """Converts a network's outputs to state values and action values.

  Args:
    value_net_out: [T+1, B, bins or 1]; None for V = Σₐ π(a) Q(a).
    q_net_out: [T+1, B, A, bins or 1], or None; at least one must be given.
    pi_logits: [T+1, B, A], the policy π.
    categorical_value: whether the network predicts a distribution.
    max_abs_value: the distribution's support is ± this.
    nonlinear_transform: whether the network predicts h(value).

  Returns:
    V [T+1, B], and Q [T+1, B, A] or None.
  """
  if value_net_out is None and q_net_out is None:
    raise ValueError('a value or an action-value network output is needed')

  def scalar(net_out: types.Array | None) -> Any:
    if net_out is None:
      return None
    return get_values_from_net_outs(
      net_out, categorical_value, max_abs_value, nonlinear_transform
    )

  q_values = scalar(q_net_out)
  if value_net_out is not None:
    return scalar(value_net_out), q_values
  return jnp.sum(jax.nn.softmax(pi_logits) * q_values, axis=-1), q_values


def get_values_from_net_outs(
  x: types.Array,
  categorical_value: bool,
  max_abs_value: float | None,
  nonlinear_transform: bool,
) -> jax.Array:
  """Converts a network's output to values.

  Args:
    x: [..., bins or 1].
    categorical_value: whether it is a distribution.
    max_abs_value: the distribution's support is ± this.
    nonlinear_transform: whether it is h(value).

  Returns:
    [...], the values.
  """
  checked_max_abs_value(max_abs_value, categorical_value)
  if categorical_value:
    values = value_logits_to_scalar(x, max_abs_value)
  else:
    values = jnp.squeeze(jnp.asarray(x), axis=-1)
  return rlax.signed_parabolic(values) if nonlinear_transform else values


def importance_weight(
  pi_logits: types.Array, mu_logits: types.Array, actions: types.Array
) -> jax.Array:
  """Computes ρ = π(a)/μ(a), without gradient.

  Args:
    pi_logits: [..., A], the policy that is evaluated.
    mu_logits: [..., A], the policy that acted.
    actions: [...], int.

  Returns:
    [...], the ratios.
  """
  log_rho = distrax.Softmax(pi_logits).log_prob(actions)
  log_rho -= distrax.Softmax(mu_logits).log_prob(actions)
  return jax.lax.stop_gradient(jnp.exp(log_rho))


def checked_max_abs_value(
  max_abs_value: float | None, categorical_value: bool = True
) -> float:
  """Checks and returns the limit of a categorical support."""
  if max_abs_value is None and categorical_value:
    raise ValueError('categorical values need max_abs_value')
  if max_abs_value is not None and max_abs_value <= 0:
    raise ValueError(f'max_abs_value must be positive, got {max_abs_value}')
  return max_abs_value or 0.0


def checked_num_bins(num_bins: int) -> int:
  """Checks and returns the size of a categorical support, at least 2."""
  if num_bins < 2:
    raise ValueError(f'num_bins must be at least 2, got {num_bins}')
  return num_bins


def value_logits_to_scalar(
  value_logits: types.Array, max_abs_value: float | None
) -> jax.Array:
  """Computes the mean of a categorical value, [..., bins] to [...]."""
  limit = checked_max_abs_value(max_abs_value)
  support = jnp.linspace(-limit, limit, value_logits.shape[-1])
  return jnp.sum(jax.nn.softmax(value_logits) * support, axis=-1)


def scalar_to_categorical_value(
  num_bins: int, value: types.Array, max_abs_value: float | None
) -> jax.Array:
  """Encodes values as 2-hot, [...] to [..., bins]; values are clipped."""
  limit = checked_max_abs_value(max_abs_value)
  return rlax.transform_to_2hot(value, -limit, limit, num_bins)


def value_loss_from_target(
  value_net_out: types.Array,
  value_target: types.Array,
  nonlinear_transform: bool = False,
  categorical_value: bool = False,
  max_abs_value: float | None = None,
) -> jax.Array:
  """Computes the loss of a network's value with respect to a target.

  Args:
    value_net_out: [..., bins or 1], the network's output.
    value_target: [...], target values, not transformed by h.
    nonlinear_transform: whether the network predicts h(value).
    categorical_value: whether the loss is the cross entropy with the 2-hot
      target, instead of half the squared error.
    max_abs_value: the distribution's support is ± this.

  Returns:
    [...], the loss of each element.
  """
  value_net_out = jnp.asarray(value_net_out)
  value_target = jnp.asarray(value_target)
  if nonlinear_transform:
    value_target = rlax.signed_hyperbolic(value_target)
  if categorical_value:
    two_hot = scalar_to_categorical_value(
      value_net_out.shape[-1], value_target, max_abs_value
    )
    return -jnp.sum(two_hot * jax.nn.log_softmax(value_net_out), axis=-1)
  return 0.5 * jnp.square(value_net_out.squeeze(-1) - value_target)


def value_loss_from_td(
  value_net_out: types.Array,
  td: types.Array,
  nonlinear_transform: bool = False,
  categorical_value: bool = False,
  max_abs_value: float | None = None,
) -> jax.Array:
  """Computes the loss that moves a network's value by a TD error.

  Args:
    value_net_out: [..., bins or 1], the network's output.
    td: [...], the TD errors.
    nonlinear_transform: as in `value_loss_from_target`.
    categorical_value: as in `value_loss_from_target`.
    max_abs_value: as in `value_loss_from_target`.

  Returns:
    [...], the loss towards the fixed target `value + td`.
  """
  value = get_values_from_net_outs(
    value_net_out, categorical_value, max_abs_value, nonlinear_transform
  )
  return value_loss_from_target(
    value_net_out,
    jax.lax.stop_gradient(value + td),
    nonlinear_transform,
    categorical_value,
    max_abs_value,
  )


def _experience(
  rollout: Rollout, drop_last: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns logits of μ [T+1, B, A], rewards [T, B] and discounts [T, B]."""
  if isinstance(rollout, types.ActorTimestep):
    mu_logits = rollout.logits
    discounts = jnp.asarray(rollout.discounts, jnp.float32)
  elif isinstance(rollout, types.UpdateRuleInputs):
    behaviour = rollout.behaviour_agent_out or {}
    if 'logits' not in behaviour:
      raise ValueError(
        "values need rollout.behaviour_agent_out['logits'], the policy that "
        'acted'
      )
    mu_logits = behaviour['logits']
    discounts = 1.0 - jnp.asarray(rollout.is_terminal, jnp.float32)
  else:
    raise ValueError(
      'a rollout must be an ActorRollout or UpdateRuleInputs, got '
      f'{type(rollout).__name__}'
    )
  rewards = jnp.asarray(rollout.rewards, jnp.float32)
  if drop_last:
    rewards, discounts = rewards[:-1], discounts[:-1]
  return jnp.asarray(mu_logits), rewards, discounts


def _normalize_advantages(
  outs: types.ValueOuts,
  ema_state: types.EmaState | None,
  ema_fn: utils.MovingAverage | None,
  axis_name: Any | None,
) -> tuple[types.EmaState | None, types.ValueOuts]:
  if ema_state is None or ema_fn is None:
    return ema_state, outs
  ema_state = ema_fn.update_state(outs.adv, ema_state, axis_name)
  return ema_state, outs.replace(
    normalized_adv=ema_fn.normalize(outs.adv, ema_state),
    normalized_qv_adv=ema_fn.normalize(outs.qv_adv, ema_state),
  )


def _normalize_tds(
  outs: types.ValueOuts,
  has_q: bool,
  ema_state: types.EmaState | None,
  ema_fn: utils.MovingAverage | None,
  axis_name: Any | None,
) -> tuple[types.EmaState | None, types.ValueOuts]:
  if ema_state is None or ema_fn is None:
    return ema_state, outs
  td = outs.q_td if has_q else outs.td
  ema_state = ema_fn.update_state(td, ema_state, axis_name)
  # TD errors keep their signs: only their scale is normalised.
  normalized = ema_fn.normalize(td, ema_state, subtract_mean=False)
  field = 'normalized_q_td' if has_q else 'normalized_td'
  return ema_state, outs.replace(**{field: normalized})
