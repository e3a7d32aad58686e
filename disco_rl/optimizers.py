"""Optimisers that meta-gradients can pass through."""

from typing import Any, NamedTuple

import jax
from jax import ad_checkpoint
import jax.numpy as jnp
from ml_collections import config_dict
import optax

from disco_rl import utils

# Checkpoint name of the derivative of an update with respect to its gradient.
SLOPE = 'optimizer_slope'


def scale_by_adam_sg_denom(
  b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformation:
  """Scales updates as Adam does, with a denominator that carries no gradient.

  The update is `m̂ / (√stop(v̂) + ε)` with the usual bias-corrected moments
  (https://arxiv.org/abs/1412.6980). Meta-gradients flow through the numerator
  only: the derivative of `1/√v̂` explodes where gradients are tiny.

  Args:
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the denominator.

  Returns:
    A gradient transformation whose state is an `optax.ScaleByAdamState`.

  Example:
    >>> tx = scale_by_adam_sg_denom()
    >>> state = tx.init(jnp.zeros(2))
    >>> updates, state = tx.update(jnp.array([3.0, -0.5]), state)
    >>> [round(float(u), 3) for u in updates]
    [1.0, -1.0]
  """

  def update_fn(
    updates: optax.Updates,
    state: optax.ScaleByAdamState,
    params: optax.Params | None = None,
  ) -> tuple[optax.Updates, optax.ScaleByAdamState]:
    del params
    state = _update_moments(updates, state, b1, b2)
    numerators, denominators = _corrected(state, b1, b2, eps)
    return jax.tree.map(jnp.divide, numerators, denominators), state

  return optax.GradientTransformation(_init_moments, update_fn)


def clipped_adam(
  learning_rate: optax.ScalarOrSchedule,
  max_abs_update: float,
  weight_decay: float = 0.0,
) -> optax.GradientTransformation:
  """Makes the optimiser of agents and critics.

  It chains `scale_by_adam_sg_denom`, an element-wise clip and `-learning_rate`.
  The first two are one function, whose backward pass needs one number per
  parameter: the slope, with the checkpoint name `SLOPE`. A `jax.checkpoint`
  that saves it need not recompute the gradient.

  Args:
    learning_rate: step size, or a schedule.
    max_abs_update: element-wise bound on the scaled gradient, applied before
      the learning rate.
    weight_decay: coefficient of decoupled weight decay, which is added after
      the clip (https://arxiv.org/abs/1711.05101).

  Returns:
    The optimiser, with the state of those transformations chained.
  """
  b1, b2, eps = 0.9, 0.999, 1e-8
  clip = optax.clip(max_abs_update)
  parts = [optax.scale_by_learning_rate(learning_rate)]
  if weight_decay:
    parts.insert(0, optax.add_decayed_weights(weight_decay))
  rest = optax.chain(*parts)

  def init_fn(params: optax.Params) -> tuple[Any, ...]:
    return (_init_moments(params), clip.init(params), *rest.init(params))

  def update_fn(
    updates: optax.Updates, state: Any, params: optax.Params | None = None
  ) -> tuple[optax.Updates, tuple[Any, ...]]:
    moments, clip_state, *rest_state = state
    moments = _update_moments(updates, moments, b1, b2)
    numerators, denominators = _corrected(moments, b1, b2, eps)

    def step(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
      fixed = jax.lax.stop_gradient(numerator)
      update, pullback = jax.vjp(
        lambda x: clip.update(x / denominator, clip_state)[0], fixed
      )
      (slope,) = pullback(jnp.ones_like(update))
      slope = ad_checkpoint.checkpoint_name(slope, SLOPE)
      # Adds zero, whose derivative is the slope.
      return update + slope * (numerator - fixed)

    updates = jax.tree.map(step, numerators, denominators)
    updates, rest_state = rest.update(updates, tuple(rest_state), params)
    return updates, (moments, clip_state, *rest_state)

  return optax.GradientTransformation(init_fn, update_fn)


class FactorState(NamedTuple):
  """The state of an optimiser made by `with_factor`."""

  inner: Any  # That of the other optimiser.
  factor: jax.Array  # [], 1 unless it is replaced.


def with_factor(
  optimizer: optax.GradientTransformation,
) -> optax.GradientTransformation:
  """Multiplies the updates of an optimiser by a factor that is in its state.

  Agents in one compiled program can thus have different learning rates.

  Args:
    optimizer: the optimiser.

  Returns:
    An optimiser whose state is a `FactorState`.
  """

  def init_fn(params: optax.Params) -> FactorState:
    return FactorState(optimizer.init(params), jnp.ones([]))

  def update_fn(
    updates: optax.Updates,
    state: FactorState,
    params: optax.Params | None = None,
  ) -> tuple[optax.Updates, FactorState]:
    updates, inner = optimizer.update(updates, state.inner, params)
    updates = jax.tree.map(lambda x: state.factor * x, updates)
    return updates, FactorState(inner, state.factor)

  return optax.GradientTransformation(init_fn, update_fn)


SCHEDULES = ('constant', 'cosine')


def learning_rate_schedule(
  learning_rate: float,
  schedule: str = 'constant',
  warmup_updates: int = 0,
  total_updates: int = 0,
) -> optax.ScalarOrSchedule:
  """Makes the learning-rate schedule of an agent.

  Args:
    learning_rate: the highest value.
    schedule: `'constant'`, or `'cosine'` for a decay to zero.
    warmup_updates: updates over which the learning rate rises from zero.
    total_updates: updates after which a cosine schedule is at zero; not used by
      a constant one.

  Returns:
    A number if it is constant, else a function of the number of updates.
  """
  utils.lookup(dict.fromkeys(SCHEDULES), schedule, 'schedule')
  if warmup_updates < 0:
    raise ValueError(f'warmup_updates must be >= 0, got {warmup_updates}')
  if schedule == 'cosine':
    if total_updates <= warmup_updates:
      raise ValueError(
        f'a cosine schedule needs more updates in all ({total_updates}) than '
        f'for its warm-up ({warmup_updates})'
      )
    return optax.warmup_cosine_decay_schedule(
      0.0 if warmup_updates else learning_rate,
      learning_rate,
      warmup_updates,
      total_updates,
    )
  if warmup_updates:
    return optax.linear_schedule(0.0, learning_rate, warmup_updates)
  return learning_rate


def get_settings() -> dict[str, Any]:
  """Makes the default group `optimizer` of an agent's settings."""
  return dict(
    schedule='constant', warmup_updates=0, total_updates=0, weight_decay=0.0
  )


def agent_optimizer(
  agent_settings: config_dict.ConfigDict,
) -> optax.GradientTransformation:
  """Makes the optimiser that an agent's settings describe.

  Args:
    agent_settings: settings with `learning_rate` and `max_abs_update`, and
      optionally a group `optimizer` with `weight_decay` and the arguments of
      `learning_rate_schedule`.

  Returns:
    The optimiser.
  """
  more = dict(agent_settings.get('optimizer', None) or {})
  weight_decay = more.pop('weight_decay', 0.0)
  return clipped_adam(
    learning_rate_schedule(agent_settings.learning_rate, **more),
    agent_settings.max_abs_update,
    weight_decay,
  )


def _init_moments(params: optax.Params) -> optax.ScaleByAdamState:
  return optax.ScaleByAdamState(
    count=jnp.zeros([], jnp.int32),
    mu=jax.tree.map(jnp.zeros_like, params),
    nu=jax.tree.map(jnp.zeros_like, params),
  )


def _update_moments(
  updates: optax.Updates, state: optax.ScaleByAdamState, b1: float, b2: float
) -> optax.ScaleByAdamState:
  return optax.ScaleByAdamState(
    count=optax.safe_increment(state.count),
    mu=jax.tree.map(lambda g, m: b1 * m + (1 - b1) * g, updates, state.mu),
    nu=jax.tree.map(lambda g, v: b2 * v + (1 - b2) * g * g, updates, state.nu),
  )


def _corrected(
  state: optax.ScaleByAdamState, b1: float, b2: float, eps: float
) -> tuple[optax.Updates, optax.Updates]:
  """Returns `m̂`, and `√v̂ + ε` without gradient."""
  mu_correction = 1 - b1**state.count
  nu_correction = 1 - b2**state.count
  return (
    jax.tree.map(lambda m: m / mu_correction, state.mu),
    jax.tree.map(
      lambda v: jnp.sqrt(jax.lax.stop_gradient(v / nu_correction)) + eps,
      state.nu,
    ),
  )
