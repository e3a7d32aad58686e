"""Cases of a rule's inputs: from a rollout, and their transforms."""

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.learning import rule_inputs
from disco_rl.update_rules import input_transforms

Arrays = case_lib.Arrays
_T, _B, _A, _Y = samples.T, samples.B, samples.A, samples.Y


def _from_rollout(x: Arrays) -> Arrays:
  rollout = types.ActorRollout(
    observations=None,
    actions=jnp.zeros_like(x['rewards'], jnp.int32),
    rewards=x['rewards'],
    discounts=x['discounts'],
    agent_outs={},
    states={},
    logits=x['rewards'],  # Not read.
  )
  inputs = rule_inputs.inputs_from_rollout(rollout, {})
  return dict(
    rewards=inputs.rewards,
    is_terminal=inputs.is_terminal,
    reset_forward=inputs.should_reset_mask_fwd,
    reset_backward=inputs.should_reset_mask_bwd[:-1],
    weights=rule_inputs.step_weights(x['discounts'], None),
  )


def _weights_of_arrival(x: Arrays) -> Arrays:
  mask = jnp.asarray(x['discounts'][1:] > 0, jnp.float32)
  return dict(weights=mask / (jnp.sum(mask) + 1e-8))


def _resets_one_early(x: Arrays) -> Arrays:
  ends = x['discounts'][1:] == 0
  return dict(
    reset_forward=jnp.concatenate([ends, jnp.zeros_like(ends[:1])]),
    reset_backward=jnp.concatenate([ends[1:], jnp.zeros_like(ends[:1])]),
  )


def _transforms(x: Arrays) -> Arrays:
  outs = {}
  for name in input_transforms.TRANSFORMS:
    if name == 'normalize':
      continue
    transform = input_transforms.get_transform(name, {})
    given = x['x'][:-1] if name == 'select_a' else x['x']
    outs[name] = transform(given, x['actions'], x['policy'], None)
  return outs


def _next_step_first(x: Arrays) -> Arrays:
  return dict(td_pair=jnp.concatenate([x['x'][1:], x['x'][:-1]], axis=-1))


def _next_action(x: Arrays) -> Arrays:
  actions = jnp.concatenate([x['actions'][1:], x['actions'][-1:]])
  index = actions[..., None, None]
  rows = jnp.take_along_axis(x['x'][:-1], index, axis=2)[:, :, 0]
  return dict(select_a=rows)


def _normalize(x: Arrays) -> Arrays:
  transform: Any = hk.without_apply_rng(
    hk.transform_with_state(
      lambda y: input_transforms.Normalize()(y, y, y, None)
    )
  )
  params, state = transform.init(jax.random.PRNGKey(0), x['first'])
  first, state = transform.apply(params, state, x['first'])
  second, _ = transform.apply(params, state, x['second'])
  return dict(first=first, second=second)


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='from_rollout',
    computes='The inputs of a rule, and the masks, from a rollout.',
    equation=(
      'rewards[1:]; is_terminal = (discounts[1:] = 0); reset_forward is '
      'is_terminal one step later, False first; reset_backward is is_terminal '
      'itself; weights = mask / (Σ mask + 1e-8) with mask = '
      '(discounts[:-1] > 0), since a step with discount 0 already shows the '
      'first observation of the next episode'
    ),
    inputs=dict(
      rewards='[T+1, B] received on arriving at a step',
      discounts='[T+1, B] 0 on the last step of an episode, else 1',
    ),
    outputs=dict(
      rewards='[T, B] of the transitions',
      is_terminal='[T, B] whether a transition ends an episode',
      reset_forward='[T+1, B] where a network with memory is reset',
      reset_backward='[T, B] where a recursion backward in time is reset',
      weights='[T, B] of the steps in the loss of an agent',
    ),
    make_inputs=lambda s: dict(
      rewards=s.rewards(_T + 1, _B), discounts=samples.discounts()
    ),
    compute=_from_rollout,
    mistakes=dict(
      rewards_one_early=_Mistake(
        'rewards[:-1], each one step early',
        lambda x: dict(rewards=x['rewards'][:-1]),
      ),
      ends_one_early=_Mistake(
        'ends of episodes from discounts[:-1], each one step early',
        lambda x: dict(is_terminal=x['discounts'][:-1] == 0),
      ),
      resets_one_early=_Mistake(
        'resets one step early in the direction of time', _resets_one_early
      ),
      masks_the_wrong_step=_Mistake(
        'the loss masked where discounts[1:] are 0, which is the step before '
        'the one to mask',
        _weights_of_arrival,
      ),
    ),
  ),
  case_lib.Case(
    name='input_transforms',
    computes='Each transform of an input of the meta-network.',
    equation=(
      'softmax: over the last axis; max_a: maximum over actions; clip: to ±2; '
      'drop_last: x[:-1]; td_pair: x[:-1] and x[1:] concatenated on the last '
      'axis; sign_log: sign(x)·log(1 + |x|); sign_hyp: h(x); '
      'masks_to_discounts: 1 − x; select_a: the row of the action taken, of '
      'x[:-1]; pi_weighted_avg: mean over actions under the policy; identity, '
      'stop_grad: x'
    ),
    inputs=dict(
      x='[T+1, B, A, Y] the input',
      actions='[T, B] actions taken',
      policy='[T+1, B, A] probabilities',
    ),
    outputs={
      name: f'transform {name}'
      for name in input_transforms.TRANSFORMS
      if name != 'normalize'
    },
    make_inputs=lambda s: dict(
      x=s.normal(_T + 1, _B, _A, _Y, scale=2.0),
      actions=s.actions(_T, _B),
      policy=s.policy(_T + 1, _B, _A),
    ),
    compute=_transforms,
    mistakes=dict(
      next_step_first=_Mistake(
        'td_pair with the next step first', _next_step_first
      ),
      next_action=_Mistake(
        'the row of the next action instead of the action taken', _next_action
      ),
    ),
  ),
  case_lib.Case(
    name='normalize',
    computes='The transform normalize, called twice.',
    equation=(
      'per channel: update moving averages (decay 0.99, from 0) of the mean '
      'and of the mean square over axes 0 and 1; debias them; '
      '(x − μ) / (√(max(0, m₂ − μ²) + 1e-12) + 1e-6)'
    ),
    inputs=dict(
      first='[T, B, 3] input of the first call',
      second='[T, B, 3] input of the second call',
    ),
    outputs=dict(
      first='[T, B, 3] result of the first call',
      second='[T, B, 3] result of the second call',
    ),
    make_inputs=lambda s: dict(
      first=s.normal(_T, _B, 3) + 0.5, second=2 * s.normal(_T, _B, 3)
    ),
    compute=_normalize,
    tolerance=2e-5,
  ),
)
