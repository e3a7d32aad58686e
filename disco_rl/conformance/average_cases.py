"""Cases of normalised advantages, and of all values together."""

import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.conformance import value_cases
from disco_rl.value_fns import value_utils

Arrays = case_lib.Arrays
_T, _B, _A = samples.T, samples.B, samples.A
DECAY = 0.9
EPS = 1e-6

AVERAGE = utils.MovingAverage(0.0, decay=DECAY, eps=EPS)


def _average(x: Arrays) -> Arrays:
  outs: Arrays = {}
  state = AVERAGE.init_state()
  for name in ('first', 'second'):
    state = AVERAGE.update_state(x[name], state, None)
    outs |= {
      f'{name}/moment1': state.moment1,
      f'{name}/moment2': state.moment2,
      f'{name}/decay_product': state.decay_product,
      f'{name}/normalized': AVERAGE.normalize(x[name], state),
      f'{name}/scaled': AVERAGE.normalize(x[name], state, subtract_mean=False),
    }
  return outs


def _not_debiased(x: Arrays) -> Arrays:
  outs: Arrays = {}
  mean = square = jnp.zeros([])
  for name in ('first', 'second'):
    mean = DECAY * mean + (1 - DECAY) * x[name].mean()
    square = DECAY * square + (1 - DECAY) * jnp.square(x[name]).mean()
    std = jnp.sqrt(jnp.maximum(0.0, square - mean**2) + 1e-12) + EPS
    outs[f'{name}/normalized'] = (x[name] - mean) / std
  return outs


def _old_statistics(x: Arrays) -> Arrays:
  state = AVERAGE.update_state(x['first'], AVERAGE.init_state(), None)
  return {'second/normalized': AVERAGE.normalize(x['second'], state)}


def ema_state(x: Arrays, name: str) -> types.EmaState:
  """Makes the state of a moving average from the arrays below `name`."""
  return types.EmaState(**case_lib.under(x, name))


def from_ema_state(state: types.EmaState | None, name: str) -> Arrays:
  """Undoes `ema_state`."""
  assert state is not None
  return case_lib.prefixed({k: state[k] for k in state}, name)


_VALUE_OUTS = {
  'value': '[T+1, B] V of the online network',
  'target_value': '[T+1, B] V of the target network',
  'rho': '[T, B] importance weights',
  'q_target': '[T, B] Retrace targets',
  'adv': '[T, B] advantages',
  'qv_adv': '[T+1, B, A] advantages of all actions',
  'q_td': '[T, B] errors of the online network',
  'normalized_adv': '[T, B] with the updated average of adv',
  'normalized_qv_adv': '[T+1, B, A] with the updated average of adv',
  'normalized_q_td': '[T, B] with that of q_td; the mean is not subtracted',
}


def _value_outs(x: Arrays) -> Arrays:
  rollout = types.UpdateRuleInputs(
    observations=None,
    actions=x['actions'],
    rewards=x['rewards'],
    is_terminal=x['is_terminal'],
    agent_out={},
    behaviour_agent_out=dict(logits=x['behaviour_logits']),
  )
  outs, adv_state, td_state = value_utils.get_value_outs(
    value_net_out=None,
    q_net_out=x['q'],
    target_value_net_out=None,
    target_q_net_out=x['target_q'],
    rollout=rollout,
    pi_logits=x['logits'],
    discount=value_cases.DISCOUNT,
    lambda_=value_cases.LAMBDA,
    nonlinear_transform=True,
    categorical_value=True,
    max_abs_value=samples.MAX_ABS_VALUE,
    drop_last=False,
    adv_ema_state=ema_state(x, 'adv_average'),
    adv_ema_fn=AVERAGE,
    td_ema_state=ema_state(x, 'td_average'),
    td_ema_fn=AVERAGE,
  )
  return {
    **{name: outs[name] for name in _VALUE_OUTS},
    **from_ema_state(adv_state, 'adv_average'),
    **from_ema_state(td_state, 'td_average'),
  }


def _mean_subtracted_from_td(x: Arrays) -> Arrays:
  td = _value_outs(x)['q_td']
  state = AVERAGE.update_state(td, ema_state(x, 'td_average'), None)
  return dict(normalized_q_td=AVERAGE.normalize(td, state))


def sample_average(s: samples.Samples, name: str) -> Arrays:
  """Makes the state of a moving average after some updates."""
  return {
    f'{name}/moment1': s.uniform(-0.2, 0.2),
    f'{name}/moment2': s.uniform(0.3, 0.5),
    f'{name}/decay_product': s.uniform(0.4, 0.6),
  }


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='moving_average',
    computes='The moving average of advantages and errors, updated twice.',
    equation=(
      'from moments 0 and product 1: mᵢ ← decay·mᵢ + (1 − decay)·mean(xⁱ); '
      'product ← decay·product; μ = m₁ / (1 − product); '
      'v = max(0, m₂ / (1 − product) − μ²); with the updated state, '
      'normalized = (x − μ) / (√(v + 1e-12) + eps), scaled = x / (the same)'
    ),
    inputs=dict(
      first='[T, B] numbers of the first update',
      second='[T, B] numbers of the second update',
    ),
    outputs={
      f'{name}/{out}': f'{shape} after the {name} update'
      for name in ('first', 'second')
      for out, shape in (
        ('moment1', '[]'),
        ('moment2', '[]'),
        ('decay_product', '[]'),
        ('normalized', '[T, B]'),
        ('scaled', '[T, B]'),
      )
    },
    make_inputs=lambda s: dict(
      first=s.normal(_T, _B) + 0.5, second=2 * s.normal(_T, _B) - 0.5
    ),
    compute=_average,
    settings=dict(decay=DECAY, eps=EPS, root_eps=1e-12),
    tolerance=2e-5,
    mistakes=dict(
      moments_not_debiased=_Mistake(
        'moments that are not divided by 1 − product', _not_debiased
      ),
      old_statistics=_Mistake(
        'numbers normalised before the update of the moments', _old_statistics
      ),
    ),
  ),
  case_lib.Case(
    name='value_outs',
    computes='All values of a trajectory from the outputs of networks.',
    equation=(
      'categorical_value of both q; state_value of both, with π; '
      'importance_weights; retrace; then the average of adv is updated, and '
      'adv and qv_adv are normalised with it; the average of q_td is updated, '
      'and q_td is divided by its standard deviation'
    ),
    inputs={
      'q': '[T+1, B, A, bins] output of the online network',
      'target_q': '[T+1, B, A, bins] output of the target network',
      'logits': '[T+1, B, A] of π, of the online network',
      'behaviour_logits': '[T+1, B, A] of the policy μ that acted',
      'actions': '[T+1, B] actions taken',
      'rewards': '[T, B] of the transitions',
      'is_terminal': '[T, B] whether a transition ends an episode',
      'adv_average/': '[] state of the moving average of adv',
      'td_average/': '[] state of the moving average of q_td',
    },
    outputs={
      **_VALUE_OUTS,
      'adv_average/': '[] its state after the update',
      'td_average/': '[] its state after the update',
    },
    make_inputs=lambda s: dict(
      q=s.normal(_T + 1, _B, _A, samples.BINS),
      target_q=s.normal(_T + 1, _B, _A, samples.BINS),
      logits=s.normal(_T + 1, _B, _A),
      behaviour_logits=s.normal(_T + 1, _B, _A),
      actions=s.actions(_T + 1, _B),
      rewards=s.rewards(_T, _B),
      is_terminal=samples.is_terminal(),
      **sample_average(s, 'adv_average'),
      **sample_average(s, 'td_average'),
    ),
    compute=_value_outs,
    settings=dict(
      **value_cases.SETTINGS,
      decay=DECAY,
      eps=EPS,
      num_bins=samples.BINS,
      max_abs_value=samples.MAX_ABS_VALUE,
    ),
    tolerance=2e-3,
    builds_on=('categorical_value', 'state_value', 'retrace', 'moving_average'),
    mistakes=dict(
      mean_subtracted=_Mistake(
        'the mean subtracted from errors, too', _mean_subtracted_from_td
      )
    ),
  ),
)
