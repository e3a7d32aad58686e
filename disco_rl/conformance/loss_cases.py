"""Cases of an agent's losses, and of their gradient."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.conformance import small_rule
from disco_rl.update_rules import categorical

Arrays = case_lib.Arrays
_T, _B, _A, _Y = samples.T, samples.B, samples.A, samples.Y
_COSTS = ('pi_cost', 'y_cost', 'z_cost', 'aux_policy_cost')
_OUTPUTS = ('logits', 'y', 'z', 'aux_pi', 'q')


def _rule_inputs(x: Arrays, outs: Mapping[str, Any]) -> types.UpdateRuleInputs:
  return types.UpdateRuleInputs(
    observations=None,
    actions=x['actions'],
    rewards=x['is_terminal'],  # Not read.
    is_terminal=x['is_terminal'],
    agent_out=outs,
  )


def _meta_out(x: Arrays) -> Arrays:
  zeros = dict.fromkeys(('q_target', 'q_value', 'normalized_q_td'), 0.0)
  return {**case_lib.under(x, 'targets'), **zeros, 'q_td': x['q_td']}


def _losses(x: Arrays) -> Arrays:
  rule = small_rule.make_rule()
  inputs = _rule_inputs(x, case_lib.under(x, 'agent_out'))
  outs = {}
  for cost in _COSTS:
    only = dict.fromkeys(_COSTS, 0.0) | {cost: 1.0}
    loss, _ = rule.agent_loss(inputs, _meta_out(x), only, False)
    outs[cost.replace('_cost', '_loss')] = loss
  outs['value_loss'], _ = rule.agent_loss_no_meta(
    inputs, _meta_out(x), dict(value_cost=1.0)
  )
  outs['loss'] = _loss(x, case_lib.under(x, 'agent_out'))
  return outs


def _loss(x: Arrays, outs: Mapping[str, Any]) -> jax.Array:
  """Computes the loss of all steps, [T, B]."""
  rule, inputs = small_rule.make_rule(), _rule_inputs(x, outs)
  costs = small_rule.HYPER_PARAMS
  loss, _ = rule.agent_loss(inputs, _meta_out(x), costs, False)
  value_loss, _ = rule.agent_loss_no_meta(inputs, _meta_out(x), costs)
  return loss + value_loss


def _taken(x: Arrays, name: str) -> jax.Array:
  index = x['actions'][:-1, :, None, None]
  outs = x[f'agent_out/{name}'][:-1]
  return jnp.take_along_axis(outs, index, axis=2)[:, :, 0]


def _reversed_kl(x: Arrays) -> Arrays:
  kl = categorical.kl_divergence
  return dict(
    pi_loss=kl(x['agent_out/logits'][:-1], x['targets/pi']),
    y_loss=kl(x['agent_out/y'][:-1], x['targets/y']),
    z_loss=kl(_taken(x, 'z'), x['targets/z']),
  )


def _aux_loss(x: Arrays, policy: jax.Array, mask: Any) -> Arrays:
  loss = categorical.kl_divergence(policy, _taken(x, 'aux_pi'))
  return dict(aux_policy_loss=loss * mask)


def _unmasked_aux(x: Arrays) -> Arrays:
  return _aux_loss(x, x['agent_out/logits'][1:], 1.0)


def _aux_of_this_step(x: Arrays) -> Arrays:
  return _aux_loss(x, x['agent_out/logits'][:-1], 1.0 - x['is_terminal'])


def _aux_masked_late(x: Arrays) -> Arrays:
  ends = x['is_terminal']
  late = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]])
  return _aux_loss(x, x['agent_out/logits'][1:], 1.0 - late)


def _gradient(x: Arrays) -> Arrays:
  loss, grads = jax.value_and_grad(
    lambda outs: jnp.sum(_loss(x, outs) * x['weights'])
  )(case_lib.under(x, 'agent_out'))
  return {'loss': loss, **case_lib.prefixed(grads, 'gradient')}


def _next_policy_not_stopped(x: Arrays) -> Arrays:
  def aux(logits: jax.Array) -> jax.Array:
    mask = 1.0 - x['is_terminal']
    loss = _aux_loss(x, logits[1:], mask)['aux_policy_loss']
    cost = small_rule.HYPER_PARAMS['aux_policy_cost']
    return cost * jnp.sum(loss * x['weights'])

  more = jax.grad(aux)(x['agent_out/logits'])
  return {'gradient/logits': _gradient(x)['gradient/logits'] + more}


_INPUTS = {
  'agent_out/': '[T+1, B, ...] logits [A], y [Y], z [A, Y], aux_pi [A, A], '
  'q [A, bins]',
  'targets/': '[T, B, ...] logits of π̂ [A], ŷ [Y] and ẑ [Y]',
  'q_td': '[T, B] Retrace target − Q(a)',
  'actions': '[T+1, B] actions taken',
  'is_terminal': '[T, B] whether a transition ends an episode',
}


def _sample(s: samples.Samples) -> Arrays:
  return dict(
    **case_lib.prefixed(s.outputs(), 'agent_out'),
    **{
      'targets/pi': s.normal(_T, _B, _A),
      'targets/y': s.normal(_T, _B, _Y),
      'targets/z': s.normal(_T, _B, _Y),
    },
    q_td=s.normal(_T, _B),
    actions=s.actions(_T + 1, _B),
    is_terminal=samples.is_terminal(),
  )


def _sample_with_weights(s: samples.Samples) -> Arrays:
  mask = samples.discounts()[:-1]
  return dict(_sample(s), weights=mask / mask.sum())


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='losses',
    computes='The losses of every step, one by one.',
    equation=(
      'on steps 0 to T−1, KL(p‖q) = Σ p·(log p − log q) of softmaxes: '
      'pi_loss = KL(π̂‖π), y_loss = KL(ŷ‖y), z_loss = KL(ẑ‖z(a)), '
      'aux_policy_loss = KL(πₜ₊₁‖aux_pi(a)), 0 where is_terminal; value_loss = '
      'cross entropy of q(a) with two_hot(h(value + q_td)), with value from '
      'categorical_value of q(a); loss = their sum, weighted by the costs'
    ),
    inputs=_INPUTS,
    outputs={
      'pi_loss': '[T, B]',
      'y_loss': '[T, B]',
      'z_loss': '[T, B]',
      'aux_policy_loss': '[T, B]',
      'value_loss': '[T, B]',
      'loss': '[T, B] weighted by the costs',
    },
    make_inputs=_sample,
    compute=_losses,
    settings=small_rule.SETTINGS,
    tolerance=2e-4,
    builds_on=('two_hot', 'categorical_value'),
    mistakes=dict(
      reversed_kl=_Mistake(
        'KL(π‖π̂) instead of KL(π̂‖π), and so on', _reversed_kl
      ),
      aux_of_this_step=_Mistake(
        'aux_pi compared with the policy of its own step instead of the next',
        _aux_of_this_step,
      ),
      aux_not_masked=_Mistake(
        'the loss of aux_pi counted where an episode ends', _unmasked_aux
      ),
      aux_masked_late=_Mistake(
        'the loss of aux_pi masked one step late', _aux_masked_late
      ),
    ),
  ),
  case_lib.Case(
    name='loss_gradient',
    computes='The gradient of the weighted loss in the outputs of the agent.',
    equation=(
      'Σ loss · weights, with loss as before; its targets, q_td, the value '
      'that q_td is added to, and πₜ₊₁ in aux_policy_loss are constants'
    ),
    inputs={**_INPUTS, 'weights': '[T, B] see from_rollout'},
    outputs={
      'loss': '[] the weighted sum',
      **{f'gradient/{name}': 'like the output' for name in _OUTPUTS},
    },
    make_inputs=_sample_with_weights,
    compute=_gradient,
    settings=small_rule.SETTINGS,
    tolerance=1e-3,
    builds_on=('from_rollout', 'losses'),
    mistakes=dict(
      next_policy_not_stopped=_Mistake(
        'a gradient through the next policy in the loss of aux_pi',
        _next_policy_not_stopped,
      )
    ),
  ),
)
