"""Cases of the optimiser, and of the target network's average."""

import jax
import jax.numpy as jnp
import optax

from disco_rl import optimizers
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import small_rule

Arrays = case_lib.Arrays
LEARNING_RATE = 0.1
MAX_ABS_UPDATE = 1.0
_ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
_SIZE = 6


def optimizer() -> optax.GradientTransformation:
  """Makes the optimiser of the agents in all cases."""
  return optimizers.clipped_adam(LEARNING_RATE, MAX_ABS_UPDATE)


def _steps(
  x: Arrays, tx: optax.GradientTransformation, state: optax.OptState
) -> Arrays:
  """Returns the updates of all gradients, and the moments after the last."""
  updates = []
  for gradient in x['gradients']:
    update, state = tx.update(gradient, state)
    updates.append(update)
  moments = next(
    s
    for s in jax.tree.leaves(
      state, is_leaf=lambda s: isinstance(s, optax.ScaleByAdamState)
    )
    if isinstance(s, optax.ScaleByAdamState)
  )
  return dict(
    updates=jnp.stack(updates),
    mu=moments.mu,
    nu=moments.nu,
    count=moments.count,
  )


def _adam(x: Arrays) -> Arrays:
  tx = optimizers.scale_by_adam_sg_denom(**_ADAM)
  return _steps(x, tx, tx.init(x['gradients'][0]))


def _not_debiased(x: Arrays) -> Arrays:
  mu, nu, updates = 0.0, 0.0, []
  for gradient in x['gradients']:
    mu = 0.9 * mu + 0.1 * gradient
    nu = 0.999 * nu + 0.001 * gradient**2
    updates.append(mu / (jnp.sqrt(nu) + 1e-8))
  return dict(updates=jnp.stack(updates))


def _from_state(x: Arrays, tx: optax.GradientTransformation) -> Arrays:
  moments = optax.ScaleByAdamState(count=x['count'], mu=x['mu'], nu=x['nu'])
  state = jax.tree.map(
    lambda s: moments if isinstance(s, optax.ScaleByAdamState) else s,
    tx.init(x['mu']),
    is_leaf=lambda s: isinstance(s, optax.ScaleByAdamState),
  )
  return _steps(x, tx, state)


def _only_updates(x: Arrays, *parts: optax.GradientTransformation) -> Arrays:
  return dict(updates=_from_state(x, optax.chain(*parts))['updates'])


def _clip_first(x: Arrays) -> Arrays:
  return _only_updates(
    x,
    optax.clip(MAX_ABS_UPDATE),
    optimizers.scale_by_adam_sg_denom(**_ADAM),
    optax.scale(-LEARNING_RATE),
  )


def _clip_last(x: Arrays) -> Arrays:
  return _only_updates(
    x,
    optimizers.scale_by_adam_sg_denom(**_ADAM),
    optax.scale(-LEARNING_RATE),
    optax.clip(MAX_ABS_UPDATE),
  )


def _weighted_updates(x: Arrays, tx: optax.GradientTransformation) -> Arrays:
  def total(s: jax.Array) -> jax.Array:
    state, value = tx.init(x['gradients'][0]), jnp.zeros([])
    for i, gradient in enumerate(x['gradients']):
      update, state = tx.update(s * gradient + 0.1 * s**2, state)
      value += (i + 1) * jnp.sum(update)
    return value

  value, derivative = jax.value_and_grad(total)(x['s'])
  return dict(value=value, derivative=derivative)


_COEFFICIENT = small_rule.HYPER_PARAMS['target_params_coeff']


def _average(x: Arrays, c: float = _COEFFICIENT) -> Arrays:
  return dict(target=c * x['target'] + (1 - c) * x['params'])


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='adam',
    computes='Updates scaled as Adam does, from its first step.',
    equation=(
      'from zeros, for t = 1, 2, 3: m ← b1·m + (1 − b1)·g; '
      'v ← b2·v + (1 − b2)·g²; '
      'update = (m / (1 − b1ᵗ)) / (√(v / (1 − b2ᵗ)) + eps)'
    ),
    inputs=dict(gradients='[3, 6] gradients of three steps, below 1'),
    outputs=dict(
      updates='[3, 6] of the three steps, without learning rate',
      mu='[6] m after the last',
      nu='[6] v after the last',
      count='[] t after the last',
    ),
    make_inputs=lambda s: dict(gradients=s.uniform(-0.9, 0.9, 3, _SIZE)),
    compute=_adam,
    settings=_ADAM,
    tolerance=1e-4,
    mistakes=dict(
      not_debiased=_Mistake('Adam without its bias correction', _not_debiased)
    ),
  ),
  case_lib.Case(
    name='adam_then_clip',
    computes="The agent's optimiser, from given moments.",
    equation=(
      'as adam; then each element clipped to ±max_abs_update; then multiplied '
      'by −learning_rate'
    ),
    inputs=dict(
      gradients='[3, 6] gradients of three steps, some above 1',
      mu='[6] m before',
      nu='[6] v before',
      count='[] t before',
    ),
    outputs=dict(
      updates='[3, 6] to add to the parameters',
      mu='[6] m after',
      nu='[6] v after',
      count='[] t after',
    ),
    make_inputs=lambda s: dict(
      gradients=s.normal(3, _SIZE, scale=3.0),
      mu=s.normal(_SIZE, scale=0.1),
      nu=s.uniform(0.01, 0.1, _SIZE),
      count=jnp.asarray(500, jnp.int32),
    ),
    compute=lambda x: _from_state(x, optimizer()),
    settings=dict(
      _ADAM, learning_rate=LEARNING_RATE, max_abs_update=MAX_ABS_UPDATE
    ),
    tolerance=1e-4,
    builds_on=('adam',),
    mistakes=dict(
      clip_before_adam=_Mistake(
        'gradients clipped before Adam instead of its updates', _clip_first
      ),
      clip_after_learning_rate=_Mistake(
        'updates clipped after the learning rate', _clip_last
      ),
    ),
  ),
  case_lib.Case(
    name='adam_derivative',
    computes='The derivative that a meta-gradient takes through Adam.',
    equation=(
      'step i has the gradient s·gᵢ + 0.1·s²; value = Σᵢ (i + 1)·Σ updateᵢ of '
      'adam (i = 0, 1, 2); derivative = ∂value/∂s, in which the whole '
      'denominator √v̂ + eps is a constant'
    ),
    inputs=dict(gradients='[3, 6] gradients g', s='[] the factor'),
    outputs=dict(value='[]', derivative='[]'),
    make_inputs=lambda s: dict(
      gradients=s.uniform(-0.9, 0.9, 3, _SIZE), s=s.uniform(0.7, 0.8)
    ),
    compute=lambda x: _weighted_updates(
      x, optimizers.scale_by_adam_sg_denom(**_ADAM)
    ),
    settings=_ADAM,
    tolerance=1e-4,
    builds_on=('adam',),
    mistakes=dict(
      through_the_denominator=_Mistake(
        "a derivative through Adam's denominator",
        lambda x: _weighted_updates(x, optax.scale_by_adam(**_ADAM)),
      )
    ),
  ),
  case_lib.Case(
    name='target_average',
    computes='The average of the target network.',
    equation=(
      'target ← c·target + (1 − c)·params with c = target_params_coeff; '
      'in an update, with the parameters before it'
    ),
    inputs=dict(
      target='[6] parameters of the target network',
      params='[6] parameters of the agent',
    ),
    outputs=dict(target='[6] the new parameters of the target network'),
    make_inputs=lambda s: dict(target=s.normal(_SIZE), params=s.normal(_SIZE)),
    compute=_average,
    settings=dict(target_params_coeff=_COEFFICIENT),
    mistakes=dict(
      other_way_round=_Mistake(
        'the target averaged the wrong way round, (1 − c)·target + c·params',
        lambda x: _average(x, 1 - _COEFFICIENT),
      )
    ),
  ),
)
