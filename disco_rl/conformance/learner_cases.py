"""Cases of whole updates: the agent's network, targets, learner steps."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from disco_rl import types
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import optimizer_cases
from disco_rl.conformance import samples
from disco_rl.conformance import small_rule
from disco_rl.conformance import value_cases
from disco_rl.learning import learner_step
from disco_rl.learning import rule_inputs

Arrays = case_lib.Arrays
_T, _B, _A, _H = samples.T, samples.B, samples.A, samples.H
NUM_STEPS = 3
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
    size = 1
    for n in shape:
      size *= n
    sizes[name] = (_H, size)
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
    **value_cases.sample_average(s, _AVERAGES[0]),
    **value_cases.sample_average(s, _AVERAGES[1]),
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
      adv_ema_state=value_cases.ema_state(x, 'adv_average'),
      td_ema_state=value_cases.ema_state(x, 'td_average'),
      target_params=nested('target_params'),
    ),
  )


def from_meta_state(state: Mapping[str, Any]) -> Arrays:
  """Returns the arrays of a rule's meta-state."""
  flat = small_rule.from_modules(state['target_params'])
  return {
    **case_lib.prefixed(flat, 'target_params'),
    **small_rule.from_rnn_state(state['rnn_state']),
    **value_cases.from_ema_state(state['adv_ema_state'], 'adv_average'),
    **value_cases.from_ema_state(state['td_ema_state'], 'td_average'),
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


def _network(x: Arrays) -> Arrays:
  params = small_rule.to_modules(case_lib.under(x, 'params'))
  return dict(unroll(params, None, x['observations'], None)[0])


_TARGETS = {
  'q_target': '[T, B] Retrace targets',
  'adv': '[T, B]',
  'normalized_adv': '[T, B]',
  'q_td': '[T, B]',
  'normalized_q_td': '[T, B]',
  'meta_input_emb': '[T, B, 1]',
  'y': '[T, B, Y] logits of ŷ',
  'z': '[T, B, Y] logits of ẑ',
  'pi': '[T, B, A] logits of π̂',
}


def _targets(x: Arrays) -> Arrays:
  state, rollout = to_state(x), to_rollout(x)
  agent_out, _ = unroll(state.params, None, x['observations'], None)
  meta_out, meta_state = small_rule.make_rule().unroll_meta_net(
    eta_of(x),
    state.params,
    {},
    state.meta_state,
    rule_inputs.inputs_from_rollout(rollout, agent_out),
    small_rule.HYPER_PARAMS,
    unroll,
    jax.random.PRNGKey(0),
  )
  return {name: meta_out[name] for name in _TARGETS} | from_meta_state(
    meta_state
  )


def _targets_from_target_network(x: Arrays) -> Arrays:
  target = case_lib.prefixed(case_lib.under(x, 'target_params'), 'params')
  outs = _targets({**x, **target})
  return {name: outs[name] for name in _TARGETS}


def _update(
  x: Arrays,
  state: learner_step.LearnerState,
  rollout: Arrays,
) -> tuple[Arrays, learner_step.LearnerState]:
  state, out = make_learner().update(
    eta_of(x),
    state,
    to_rollout(rollout),
    jax.random.PRNGKey(0),
    backprop=False,
  )
  log = dict(
    loss=out.log['total_loss'], gradient_norm=out.log['global_gradient_norm']
  )
  return {**log, **from_state(state)}, state


def _one_step(x: Arrays) -> Arrays:
  return _update(x, to_state(x), x)[0]


def _target_after_update(x: Arrays) -> Arrays:
  outs = _one_step(x)
  c = small_rule.HYPER_PARAMS['target_params_coeff']
  return {
    f'target_params/{name}': c * old + (1 - c) * outs[f'params/{name}']
    for name, old in case_lib.under(x, 'target_params').items()
  }


def _masked_by_arrival(x: Arrays) -> Arrays:
  """Weighs steps by discounts[1:], with the same ends of episodes."""
  state, rollout = to_state(x), to_rollout(x)
  targets, _ = small_rule.make_rule().unroll_meta_net(
    eta_of(x),
    state.params,
    {},
    state.meta_state,
    rule_inputs.inputs_from_rollout(
      rollout, unroll(state.params, None, x['observations'], None)[0]
    ),
    small_rule.HYPER_PARAMS,
    unroll,
    jax.random.PRNGKey(0),
  )
  mask = jnp.asarray(x['discounts'][1:] > 0, jnp.float32)
  costs = small_rule.HYPER_PARAMS

  def loss_fn(params: Any) -> jax.Array:
    outs = unroll(params, None, x['observations'], None)[0]
    inputs = rule_inputs.inputs_from_rollout(rollout, outs)
    rule = small_rule.make_rule()
    loss, _ = rule.agent_loss(inputs, targets, costs, False)
    more, _ = rule.agent_loss_no_meta(inputs, targets, costs)
    return jnp.sum((loss + more) * mask) / (jnp.sum(mask) + 1e-8)

  return dict(loss=loss_fn(state.params))


def _steps(x: Arrays) -> Arrays:
  outs: Arrays = {}
  state = to_state(x)
  for i in range(NUM_STEPS):
    rollout = {
      name: array[i] for name, array in case_lib.under(x, 'rollouts').items()
    }
    out, state = _update(x, state, rollout)
    outs |= case_lib.prefixed(out, f'step_{i + 1}')
  return outs


PARAMS = (
  'torso w [D, H], b [H]; heads logits, y, z, aux_pi, q: w [H, size], b [size]'
)
_OUTS = {
  'logits': '[T+1, B, A]',
  'y': '[T+1, B, Y]',
  'z': '[T+1, B, A, Y]',
  'aux_pi': '[T+1, B, A, A]',
  'q': '[T+1, B, A, bins]',
}
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
_META_STATE = {k: v for k, v in STATE.items() if k not in ('params/', 'adam/')}
_AFTER = {
  'loss': '[] the weighted loss',
  'gradient_norm': '[] L2 norm of its gradient in all parameters',
  **{k: f'{v}, after the update' for k, v in _META_STATE.items()},
  'adam/': 'state of the optimiser after the update',
  'params/': "the agent's parameters after the update",
}


def sample_learner(s: samples.Samples) -> Arrays:
  """Draws η and the state of a learner."""
  return {**small_rule.sample_eta(s), **sample_state(s)}


SETTINGS = dict(
  small_rule.SETTINGS,
  learning_rate=optimizer_cases.LEARNING_RATE,
  max_abs_update=optimizer_cases.MAX_ABS_UPDATE,
)
# Means over steps, whose terms are much larger than their sum.
_SUMS = {'adv_average/moment1': 2e-2, 'td_average/moment1': 2e-2}
_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='agent_network',
    computes="The agent's network that the next cases use.",
    equation=(
      'hidden = tanh(observations·torso/w + torso/b); each output is '
      'hidden·w + b, reshaped with the last axis contiguous'
    ),
    inputs={
      'params/': PARAMS,
      'observations': '[T+1, B, D]',
    },
    outputs=_OUTS,
    make_inputs=lambda s: {
      **case_lib.prefixed(sample_params(s), 'params'),
      'observations': s.normal(_T + 1, _B, samples.D),
    },
    compute=_network,
    mistakes=dict(
      actions_last=_Mistake(
        'outputs per action reshaped with the axis of actions last',
        lambda x: {
          name: jnp.swapaxes(
            out.reshape(*out.shape[:2], out.shape[3], _A), 2, 3
          )
          for name, out in _network(x).items()
          if name in ('z', 'q')
        },
      )
    ),
  ),
  case_lib.Case(
    name='rule_targets',
    computes="A rule's targets and its new state, from a rollout.",
    equation=(
      'from_rollout; agent_network with params and with target_params; '
      'value_outs; meta_network with v_scalar = V of the online network and '
      'q = Q of the target network; target_average'
    ),
    inputs={**small_rule.ETA, **_META_STATE, **STATE, **ROLLOUT},
    outputs={**_TARGETS, **_META_STATE},
    make_inputs=lambda s: {**sample_learner(s), **sample_rollouts(s)},
    compute=_targets,
    settings=SETTINGS,
    tolerance=2e-3,
    own_tolerances={'target_params/': 1e-5, **_SUMS},
    builds_on=(
      *('from_rollout', 'agent_network', 'value_outs', 'meta_network'),
      'target_average',
    ),
    mistakes=dict(
      target_network_twice=_Mistake(
        "the target network's outputs used as the agent's",
        _targets_from_target_network,
      )
    ),
  ),
  case_lib.Case(
    name='learner_step',
    computes='One update of an agent.',
    equation=(
      'rule_targets; Σ loss·weights as in losses and from_rollout; its '
      'gradient in params, with the targets as constants; adam_then_clip; '
      'params ← params + updates. The target network is averaged with the '
      'parameters before the update'
    ),
    inputs={**small_rule.ETA, **STATE, **ROLLOUT},
    outputs=_AFTER,
    make_inputs=lambda s: {**sample_learner(s), **sample_rollouts(s)},
    compute=_one_step,
    settings=SETTINGS,
    tolerance=2e-3,
    own_tolerances={
      'loss': 1e-4,
      'gradient_norm': 1e-4,
      'adam/': 1e-4,
      'params/': 1e-4,
      'target_params/': 1e-5,
      **_SUMS,
    },
    builds_on=('rule_targets', 'loss_gradient', 'adam_then_clip'),
    mistakes=dict(
      target_after_update=_Mistake(
        'the target network averaged with the parameters after the update',
        _target_after_update,
      ),
      masks_the_wrong_step=_Mistake(
        'the loss masked where discounts[1:] are 0', _masked_by_arrival
      ),
    ),
  ),
  case_lib.Case(
    name='learner_steps',
    computes='Three updates in a row, each with a rollout of its own.',
    equation='learner_step, three times, each from the state that was left',
    inputs={
      **small_rule.ETA,
      **STATE,
      **{f'rollouts/{k}': f'[3] × {v}' for k, v in ROLLOUT.items()},
    },
    outputs={
      f'step_{i + 1}/{name}': meaning
      for i in range(NUM_STEPS)
      for name, meaning in _AFTER.items()
    },
    make_inputs=lambda s: {
      **sample_learner(s),
      **case_lib.prefixed(sample_rollouts(s, NUM_STEPS), 'rollouts'),
    },
    compute=_steps,
    settings=SETTINGS,
    tolerance=2e-3,
    own_tolerances={
      f'step_{i + 1}/{name}': tolerance
      for i in range(NUM_STEPS)
      for name, tolerance in (
        *{'params/': 2e-4, 'adam/': 5e-4, 'loss': 5e-4}.items(),
        *_SUMS.items(),
      )
    },
    builds_on=('learner_step',),
  ),
)
