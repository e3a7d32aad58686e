"""A small agent: its network, its state as arrays, and the learner."""

from collections.abc import Mapping
import math
from typing import Any

import jax.numpy as jnp
import optax

from disco_rl import types
from disco_rl.conformance import average_cases
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import optimizer_cases
from disco_rl.conformance import samples
from disco_rl.conformance import small_rule
from disco_rl.learning import learner_step

Arrays = case_lib.Arrays
_T, _B, _A, _H = samples.T, samples.B, samples.A, samples.H
# Heads of the network to the shapes of their outputs.
_HEADS = dict(
  logits=(_A,),
  y=(samples.Y,),
  z=(_A, samples.Y),
  aux_pi=(_A, _A),
  q=(_A, samples.BINS),
)
_AVERAGES = ('adv_average', 'td_average')


def unroll(
  params: types.AgentParams, state: Any, observations: Any, should_reset: Any
) -> tuple[types.AgentOuts, Any]:
  """Applies the agent's network, a layer of tanh and linear heads."""
  del should_reset
  linear = lambda name, x: x @ params[name]['w'] + params[name]['b']
  hidden = jnp.tanh(linear('torso', observations))
  outs = {
    name: linear(name, hidden).reshape(*hidden.shape[:-1], *shape)
    for name, shape in _HEADS.items()
  }
  return outs, state


def sample_params(s: samples.Samples) -> Arrays:
  """Draws parameters of the network, `torso/w` and so on."""
  sizes = {'torso': (samples.D, _H)}
  for name, shape in _HEADS.items():
    sizes[name] = (_H, math.prod(shape))
  params = {}
  for name, (size_in, size_out) in sizes.items():
    params[f'{name}/w'] = s.normal(size_in, size_out, scale=0.5)
    params[f'{name}/b'] = s.normal(size_out, scale=0.3)
  return params


def sample_rollouts(s: samples.Samples, *number: int) -> Arrays:
  """Draws rollouts, leaves [*number, T+1, B, ...]."""
  shape = (*number, _T + 1, _B)
  return dict(
    observations=s.normal(*shape, samples.D),
    actions=s.actions(*shape),
    rewards=s.rewards(*shape),
    discounts=jnp.broadcast_to(samples.discounts(), shape),
    behaviour_logits=s.normal(*shape, _A),
  )


def sample_state(s: samples.Samples) -> Arrays:
  """Draws the state of a learner after some updates."""
  params = sample_params(s)
  target = {k: x + s.normal(*x.shape, scale=0.1) for k, x in params.items()}
  mu = {k: s.normal(*x.shape, scale=0.02) for k, x in params.items()}
  nu = {k: s.uniform(1e-6, 3e-4, *x.shape) for k, x in params.items()}
  return {
    **case_lib.prefixed(params, 'params'),
    **case_lib.prefixed(target, 'target_params'),
    **case_lib.prefixed(mu, 'adam/mu'),
    **case_lib.prefixed(nu, 'adam/nu'),
    'adam/count': jnp.asarray(100, jnp.int32),
    **small_rule.sample_rnn_state(s),
    **average_cases.sample_average(s, _AVERAGES[0]),
    **average_cases.sample_average(s, _AVERAGES[1]),
  }


def make_learner(
  optimizer: optax.GradientTransformation | None = None,
) -> learner_step.LearnerStep:
  """Makes the learner of all cases, perhaps with another optimiser."""
  return learner_step.LearnerStep(
    small_rule.make_rule(),
    unroll,
    optimizer or optimizer_cases.optimizer(),
    small_rule.HYPER_PARAMS,
  )


def to_state(x: Arrays) -> learner_step.LearnerState:
  """Makes the state of a learner from arrays."""
  nested = lambda name: small_rule.to_modules(case_lib.under(x, name))
  params = nested('params')
  moments = optax.ScaleByAdamState(
    count=x['adam/count'], mu=nested('adam/mu'), nu=nested('adam/nu')
  )
  # Both parts of the optimiser after Adam have empty states.
  empty = optax.EmptyState()
  return learner_step.LearnerState(
    params=params,
    opt_state=(moments, empty, empty),
    meta_state=dict(
      rnn_state=small_rule.to_rnn_state(x),
      adv_ema_state=average_cases.ema_state(x, 'adv_average'),
      td_ema_state=average_cases.ema_state(x, 'td_average'),
      target_params=nested('target_params'),
    ),
  )


def from_meta_state(state: Mapping[str, Any]) -> Arrays:
  """Returns the arrays of a rule's meta-state."""
  flat = small_rule.from_modules(state['target_params'])
  return {
    **case_lib.prefixed(flat, 'target_params'),
    **small_rule.from_rnn_state(state['rnn_state']),
    **average_cases.from_ema_state(state['adv_ema_state'], 'adv_average'),
    **average_cases.from_ema_state(state['td_ema_state'], 'td_average'),
  }


def from_state(state: learner_step.LearnerState) -> Arrays:
  """Undoes `to_state`."""
  flat = small_rule.from_modules
  moments = state.opt_state[0]
  return {
    **from_meta_state(state.meta_state),
    'adam/count': moments.count,
    **case_lib.prefixed(flat(moments.mu), 'adam/mu'),
    **case_lib.prefixed(flat(moments.nu), 'adam/nu'),
    **case_lib.prefixed(flat(state.params), 'params'),
  }


def to_rollout(x: Arrays) -> types.ActorRollout:
  """Makes a rollout from arrays."""
  logits = x['behaviour_logits']
  return types.ActorRollout(
    observations=x['observations'],
    actions=x['actions'],
    rewards=x['rewards'],
    discounts=x['discounts'],
    agent_outs=dict(logits=logits),
    states={},
    logits=logits,
  )


def eta_of(x: Arrays) -> types.MetaParams:
  """Returns η among arrays."""
  return small_rule.to_modules(case_lib.under(x, 'eta'))


def sample_learner(s: samples.Samples) -> Arrays:
  """Draws η and the state of a learner."""
  return {**small_rule.sample_eta(s), **sample_state(s)}


SETTINGS = dict(
  small_rule.SETTINGS,
  learning_rate=optimizer_cases.LEARNING_RATE,
  max_abs_update=optimizer_cases.MAX_ABS_UPDATE,
)
PARAMS = (
  'torso w [D, H], b [H]; heads logits, y, z, aux_pi, q: w [H, size], b [size]'
)
STATE = {
  'params/': f"the agent's parameters: {PARAMS}",
  'target_params/': 'those of the target network',
  'adam/': 'state of the optimiser: mu (m) and nu (v) per parameter, count',
  'life_long/': '[3] hidden and cell of the life-long LSTM',
  'adv_average/': '[] state of the moving average of adv',
  'td_average/': '[] state of the moving average of q_td',
}
ROLLOUT = {
  'observations': '[T+1, B, D]',
  'actions': '[T+1, B] actions taken',
  'rewards': '[T+1, B] received on arriving at a step',
  'discounts': '[T+1, B] 0 on the last step of an episode, else 1',
  'behaviour_logits': '[T+1, B, A] of the policy that acted',
}
