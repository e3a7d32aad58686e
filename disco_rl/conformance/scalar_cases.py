"""Cases of values: their transformation, and distributions over bins."""

import jax.numpy as jnp
import numpy as np
import rlax

from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.value_fns import value_utils

Arrays = case_lib.Arrays
_BINS = dict(num_bins=samples.BINS, max_abs_value=samples.MAX_ABS_VALUE)


def _without_linear_term(x: Arrays) -> Arrays:
  v = x['value']
  return dict(transformed=jnp.sign(v) * (jnp.sqrt(jnp.abs(v) + 1) - 1))


def _two_hot(x: Arrays) -> Arrays:
  return dict(
    two_hot=value_utils.scalar_to_categorical_value(
      samples.BINS, x['value'], samples.MAX_ABS_VALUE
    )
  )


def _exchanged_weights(x: Arrays) -> Arrays:
  two_hot = _two_hot(x)['two_hot']
  # Within each pair of neighbouring bins that has weights.
  first = jnp.argmax(two_hot > 0, axis=-1)[..., None]
  bins = jnp.arange(samples.BINS)
  partner = jnp.clip(2 * first + 1 - bins, 0, samples.BINS - 1)
  both = (jnp.sum(two_hot > 0, axis=-1) == 2)[..., None]
  other = jnp.take_along_axis(two_hot, partner, axis=-1)
  return dict(two_hot=jnp.where(both, other, two_hot))


def _categorical_value(x: Arrays) -> Arrays:
  logits = x['logits']
  return dict(
    mean=value_utils.value_logits_to_scalar(logits, samples.MAX_ABS_VALUE),
    value=value_utils.get_values_from_net_outs(
      logits, True, samples.MAX_ABS_VALUE, True
    ),
  )


def _inverse_before_mean(x: Arrays) -> Arrays:
  limit = samples.MAX_ABS_VALUE
  support = rlax.signed_parabolic(jnp.linspace(-limit, limit, samples.BINS))
  logits = x['logits']
  p = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
  return dict(value=(p / p.sum(axis=-1, keepdims=True)) @ support)


def _state_value(x: Arrays) -> Arrays:
  value, _ = value_utils.extract_scalar_values_from_net_out(
    None, x['q'][..., None], x['logits'], False, None, False
  )
  return dict(v=value)


def _values(s: samples.Samples) -> Arrays:
  edges = np.array([0.0, 1e-3, -1.0, 300.0, -300.0, 4.0], np.float32)
  return dict(value=np.concatenate([edges, s.normal(6, scale=3.0)]))


def _values_for_bins(s: samples.Samples) -> Arrays:
  edges = np.array([0.0, 1.0, -5.0, 5.0, -7.0, 9.0], np.float32)
  return dict(value=np.concatenate([edges, s.uniform(-5, 5, 6)]))


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='signed_hyperbolic',
    computes='The map h from values to the space in which they are predicted.',
    equation='h(x) = sign(x)·(√(|x| + 1) − 1) + 0.001·x',
    inputs=dict(value='[12] values x'),
    outputs=dict(transformed='[12] h(x)'),
    make_inputs=_values,
    compute=lambda x: dict(transformed=rlax.signed_hyperbolic(x['value'])),
    mistakes=dict(
      without_linear_term=_Mistake(
        'h without its linear term 0.001·x', _without_linear_term
      )
    ),
  ),
  case_lib.Case(
    name='signed_parabolic',
    computes='The inverse of h.',
    equation=(
      'h⁻¹(y) = sign(y)·(z² − 1) with '
      'z = (√(1 + 4ε·(ε + 1 + |y|)) − 1) / (2ε) and ε = 0.001. In 32 bits, '
      'the difference loses digits, here and in all that follows from it'
    ),
    inputs=dict(transformed='[12] y'),
    outputs=dict(value='[12] h⁻¹(y)'),
    make_inputs=lambda s: dict(
      transformed=np.concatenate(
        [np.array([0.0, 1.0, -1.0, 30.0, -30.0, 1e-3]), s.normal(6, scale=3.0)]
      ).astype(np.float32)
    ),
    compute=lambda x: dict(value=rlax.signed_parabolic(x['transformed'])),
    tolerance=1e-3,
    builds_on=('signed_hyperbolic',),
    mistakes=dict(
      square_only=_Mistake(
        'the inverse of h without its linear term 0.001·x',
        lambda x: dict(
          value=jnp.sign(x['transformed'])
          * (jnp.square(jnp.abs(x['transformed']) + 1) - 1)
        ),
      )
    ),
  ),
  case_lib.Case(
    name='two_hot',
    computes='Values as two-hot distributions over evenly spaced bins.',
    equation=(
      'clip x to ±max_abs_value; between the neighbouring bins l ≤ x ≤ u, the '
      'weight of l is (u − x) / (u − l + 1e-5), and that of u is the rest; a '
      'value at a bin has weight 1 there'
    ),
    inputs=dict(value='[12] values, some at a bin, some beyond the last'),
    outputs=dict(two_hot='[12, bins] weights'),
    make_inputs=_values_for_bins,
    compute=_two_hot,
    settings=_BINS,
    mistakes=dict(
      exchanged_weights=_Mistake(
        'the weights of the two bins exchanged', _exchanged_weights
      )
    ),
  ),
  case_lib.Case(
    name='categorical_value',
    computes='The value that a categorical output predicts.',
    equation=(
      'mean = Σ softmax(logits)·bins, with bins evenly spaced from '
      '−max_abs_value to max_abs_value; value = h⁻¹(mean)'
    ),
    inputs=dict(logits='[T+1, B, bins] a network output'),
    outputs=dict(
      mean='[T+1, B] mean of the distribution',
      value='[T+1, B] the value',
    ),
    make_inputs=lambda s: dict(
      logits=s.normal(samples.T + 1, samples.B, samples.BINS, scale=2.0)
    ),
    compute=_categorical_value,
    settings=_BINS,
    tolerance=1e-3,
    builds_on=('signed_parabolic',),
    mistakes=dict(
      inverse_before_mean=_Mistake(
        'the mean of h⁻¹(bins) instead of h⁻¹ of the mean',
        _inverse_before_mean,
      )
    ),
  ),
  case_lib.Case(
    name='state_value',
    computes='State values from action values.',
    equation='V = Σₐ π(a)·Q(a) with π = softmax(logits)',
    inputs=dict(
      q='[T+1, B, A] action values Q', logits='[T+1, B, A] of the policy π'
    ),
    outputs=dict(v='[T+1, B] state values V'),
    make_inputs=lambda s: dict(
      q=s.normal(samples.T + 1, samples.B, samples.A),
      logits=s.normal(samples.T + 1, samples.B, samples.A),
    ),
    compute=_state_value,
    mistakes=dict(
      greedy=_Mistake(
        'the largest action value instead of its mean under the policy',
        lambda x: dict(v=jnp.max(x['q'], axis=-1)),
      )
    ),
  ),
)
