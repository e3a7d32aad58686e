"""Cases of returns and advantages: V-trace and Retrace."""

from typing import Any

import jax
import jax.numpy as jnp
import rlax

from disco_rl import utils
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.value_fns import value_utils

Arrays = case_lib.Arrays
_T, _B, _A = samples.T, samples.B, samples.A
DISCOUNT = 0.9
LAMBDA = 0.8
SETTINGS = {'discount': DISCOUNT, 'lambda': LAMBDA}


def _importance(x: Arrays) -> Arrays:
  rho = value_utils.importance_weight(
    x['logits'][:-1], x['behaviour_logits'][:-1], x['actions'][:-1]
  )
  return dict(rho=rho, clipped=jnp.minimum(rho, 1.0))


def _trajectory(x: Arrays) -> tuple[Any, Any, Any, Any]:
  discounts = 1.0 - x['is_terminal'].astype(x['rewards'].dtype)
  return x['rewards'], x['actions'][:-1], discounts, x['rho']


def _vtrace(x: Arrays, shift: int = 0) -> Arrays:
  unused = {'actions': x['is_terminal']}
  rewards, actions, discounts, rho = _trajectory({**unused, **x})
  outs = value_utils.estimate_values(
    jnp.roll(rewards, shift, axis=0),
    actions,
    discounts,
    rho,
    x['v'],
    x['target_v'],
    DISCOUNT,
    LAMBDA,
  )
  return dict(value_target=outs.value_target, adv=outs.adv, td=outs.td)


_RETRACE = ('q_target', 'adv', 'value_target', 'td', 'q_td', 'qv_adv')


def _retrace(x: Arrays, lambda_: float = LAMBDA) -> Arrays:
  outs = value_utils.estimate_q_values(
    *_trajectory(x),
    x['v'],
    x['target_v'],
    x['q'],
    x['target_q'],
    DISCOUNT,
    lambda_,
  )
  return {name: outs[name] for name in _RETRACE}


def _returns(x: Arrays, traces: jax.Array, offset: int) -> jax.Array:
  """Computes returns whose traces and values belong to `step + offset`."""
  rewards, actions, discounts, _ = _trajectory(x)
  q_a = utils.batch_lookup(x['target_q'][:-1], actions)
  last = offset - 1
  return jax.vmap(
    rlax.general_off_policy_returns_from_q_and_v, in_axes=1, out_axes=1
  )(
    q_a[offset : _T + last],
    x['target_v'][1:],
    rewards,
    DISCOUNT * discounts,
    traces[offset : _T + last],
  )


def _clipped_traces(x: Arrays) -> jax.Array:
  return LAMBDA * jnp.minimum(x['rho'], 1.0)


def _trace_of_this_step(x: Arrays) -> Arrays:
  return dict(q_target=_returns(x, _clipped_traces(x), offset=0))


def _return_one_late(x: Arrays) -> Arrays:
  g = _retrace(x)['q_target']
  # The return of the step before the first, which has no reward.
  return dict(q_target=jnp.concatenate([jnp.zeros_like(g[:1]), g[:-1]]))


def _unclipped(x: Arrays) -> Arrays:
  return dict(q_target=_returns(x, LAMBDA * x['rho'], offset=1))


def _through_the_end(x: Arrays) -> Arrays:
  return dict(
    q_target=_retrace({**x, 'is_terminal': 0 * x['is_terminal']})['q_target']
  )


_Mistake = case_lib.Mistake
_STEPS = {
  'rewards': '[T, B] of the transitions',
  'is_terminal': '[T, B] whether a transition ends an episode',
  'rho': '[T, B] importance weights ρ',
  'v': '[T+1, B] V of the online network',
  'target_v': '[T+1, B] V that targets are computed from',
}


def _steps(s: samples.Samples) -> Arrays:
  return dict(
    rewards=s.rewards(_T, _B),
    is_terminal=samples.is_terminal(),
    rho=s.uniform(0.4, 1.8, _T, _B),
    v=s.normal(_T + 1, _B),
    target_v=s.normal(_T + 1, _B),
  )


CASES = (
  case_lib.Case(
    name='importance_weights',
    computes='Importance weights of the actions taken.',
    equation='ρ = π(a) / μ(a), and min(ρ, 1); the last step has none',
    inputs=dict(
      logits='[T+1, B, A] of the policy π that is evaluated',
      behaviour_logits='[T+1, B, A] of the policy μ that acted',
      actions='[T+1, B] actions taken',
    ),
    outputs=dict(rho='[T, B] ρ', clipped='[T, B] min(ρ, 1)'),
    make_inputs=lambda s: dict(
      logits=s.normal(_T + 1, _B, _A),
      behaviour_logits=s.normal(_T + 1, _B, _A),
      actions=s.actions(_T + 1, _B),
    ),
    compute=_importance,
    mistakes=dict(
      inverse_ratio=_Mistake(
        'μ(a) / π(a) instead of π(a) / μ(a)',
        lambda x: dict(rho=1 / _importance(x)['rho']),
      )
    ),
  ),
  case_lib.Case(
    name='vtrace',
    computes='V-trace targets and advantages, those of the critic.',
    equation=(
      'δₜ = ρ̄ₜ·(rₜ₊₁ + γₜ₊₁·V(sₜ₊₁) − V(sₜ)) with ρ̄ = min(ρ, 1) and '
      'γₜ₊₁ = discount, or 0 at the end of an episode; '
      'eₜ = δₜ + γₜ₊₁·λ·ρ̄ₜ·eₜ₊₁ (e_T = 0); value_target = V + e; '
      'gₜ = λ·value_targetₜ₊₁ + (1 − λ)·V(sₜ₊₁), V(s_T) at the end; '
      'adv = ρ̄·(r + γ·g − V); td = value_target − online V'
    ),
    inputs=_STEPS,
    outputs=dict(
      value_target='[T, B] V-trace targets',
      adv='[T, B] advantages',
      td='[T, B] value_target − v',
    ),
    make_inputs=_steps,
    compute=_vtrace,
    settings=SETTINGS,
    builds_on=('from_rollout', 'importance_weights'),
    mistakes=dict(
      reward_of_next_step=_Mistake(
        'rewards one step early', lambda x: _vtrace(x, shift=-1)
      )
    ),
  ),
  case_lib.Case(
    name='retrace',
    computes='Retrace targets and advantages of the actions taken.',
    equation=(
      'Gₜ = rₜ₊₁ + γₜ₊₁·(V(sₜ₊₁) + cₜ₊₁·(Gₜ₊₁ − Q(sₜ₊₁, aₜ₊₁))) with '
      'c = λ·min(ρ, 1), γₜ₊₁ = discount, or 0 at the end of an episode, and '
      'G of the last transition r + γ·V; V and Q of the target network. '
      'q_target = G; adv = G − V; value_target = V + min(ρ, 1)·adv; '
      'td = value_target − online V; q_td = G − online Q(a); '
      'qv_adv = Q − V, of all actions and T + 1 steps'
    ),
    inputs={
      **_STEPS,
      'q': '[T+1, B, A] Q of the online network',
      'target_q': '[T+1, B, A] Q that targets are computed from',
      'actions': '[T+1, B] actions taken',
    },
    outputs=dict(
      q_target='[T, B] G',
      adv='[T, B]',
      value_target='[T, B]',
      td='[T, B]',
      q_td='[T, B]',
      qv_adv='[T+1, B, A]',
    ),
    make_inputs=lambda s: dict(
      **_steps(s),
      q=s.normal(_T + 1, _B, _A),
      target_q=s.normal(_T + 1, _B, _A),
      actions=s.actions(_T + 1, _B),
    ),
    compute=_retrace,
    settings=SETTINGS,
    builds_on=('from_rollout', 'importance_weights'),
    mistakes=dict(
      shifted_trace=_Mistake(
        'Retrace shifted by one: trace and Q of step t, where those of t + 1 '
        'belong',
        _trace_of_this_step,
      ),
      shifted_return=_Mistake(
        'Retrace shifted by one: every return one step late, with that of the '
        'step before the first in front (no element was dropped)',
        _return_one_late,
      ),
      unclipped_trace=_Mistake(
        'traces λ·ρ, without the minimum of ρ and 1', _unclipped
      ),
      without_lambda=_Mistake(
        'traces without λ', lambda x: _retrace(x, lambda_=1.0)
      ),
      through_the_end=_Mistake(
        'returns that go on through the end of an episode', _through_the_end
      ),
    ),
  ),
)
