"""Cases of whole updates: network, targets, learner steps."""

from typing import Any

import jax
import jax.numpy as jnp

from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.conformance import small_agent
from disco_rl.conformance import small_rule
from disco_rl.learning import learner_step
from disco_rl.learning import rule_inputs

Arrays = case_lib.Arrays
_T, _B, _A = samples.T, samples.B, samples.A
NUM_STEPS = 3


def _network(x: Arrays) -> Arrays:
  params = small_rule.to_modules(case_lib.under(x, 'params'))
  return dict(small_agent.unroll(params, None, x['observations'], None)[0])


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


def _unroll_rule(x: Arrays) -> tuple[Any, Any, Any]:
  """Returns the inputs, the targets and the new state of the rule."""
  state, rollout = small_agent.to_state(x), small_agent.to_rollout(x)
  agent_out, _ = small_agent.unroll(state.params, None, x['observations'], None)
  inputs = rule_inputs.inputs_from_rollout(rollout, agent_out)
  meta_out, meta_state = small_rule.make_rule().unroll_meta_net(
    small_agent.eta_of(x),
    state.params,
    {},
    state.meta_state,
    inputs,
    small_rule.HYPER_PARAMS,
    small_agent.unroll,
    jax.random.PRNGKey(0),
  )
  return inputs, meta_out, meta_state


def _targets(x: Arrays) -> Arrays:
  _, meta_out, meta_state = _unroll_rule(x)
  targets = {name: meta_out[name] for name in _TARGETS}
  return targets | small_agent.from_meta_state(meta_state)


def _targets_from_target_network(x: Arrays) -> Arrays:
  target = case_lib.prefixed(case_lib.under(x, 'target_params'), 'params')
  outs = _targets({**x, **target})
  return {name: outs[name] for name in _TARGETS}


def _update(
  x: Arrays,
  state: learner_step.LearnerState,
  rollout: Arrays,
) -> tuple[Arrays, learner_step.LearnerState]:
  state, out = small_agent.make_learner().update(
    small_agent.eta_of(x),
    state,
    small_agent.to_rollout(rollout),
    jax.random.PRNGKey(0),
    backprop=False,
  )
  log = dict(
    loss=out.log['total_loss'], gradient_norm=out.log['global_gradient_norm']
  )
  return {**log, **small_agent.from_state(state)}, state


def _one_step(x: Arrays) -> Arrays:
  return _update(x, small_agent.to_state(x), x)[0]


def _target_after_update(x: Arrays) -> Arrays:
  outs = _one_step(x)
  c = small_rule.HYPER_PARAMS['target_params_coeff']
  return {
    f'target_params/{name}': c * old + (1 - c) * outs[f'params/{name}']
    for name, old in case_lib.under(x, 'target_params').items()
  }


def _masked_by_arrival(x: Arrays) -> Arrays:
  """Weighs steps by discounts[1:], with the same ends of episodes."""
  inputs, targets, _ = _unroll_rule(x)
  rule, costs = small_rule.make_rule(), small_rule.HYPER_PARAMS
  loss, _ = rule.agent_loss(inputs, targets, costs, False)
  more, _ = rule.agent_loss_no_meta(inputs, targets, costs)
  mask = jnp.asarray(x['discounts'][1:] > 0, jnp.float32)
  return dict(loss=jnp.sum((loss + more) * mask) / (jnp.sum(mask) + 1e-8))


def _steps(x: Arrays) -> Arrays:
  outs: Arrays = {}
  state = small_agent.to_state(x)
  for i in range(NUM_STEPS):
    rollout = {
      name: array[i] for name, array in case_lib.under(x, 'rollouts').items()
    }
    out, state = _update(x, state, rollout)
    outs |= case_lib.prefixed(out, f'step_{i + 1}')
  return outs


_OUTS = {
  'logits': '[T+1, B, A]',
  'y': '[T+1, B, Y]',
  'z': '[T+1, B, A, Y]',
  'aux_pi': '[T+1, B, A, A]',
  'q': '[T+1, B, A, bins]',
}
_META_STATE = {
  k: v for k, v in small_agent.STATE.items() if k not in ('params/', 'adam/')
}
_AFTER = {
  'loss': '[] the weighted loss',
  'gradient_norm': '[] L2 norm of its gradient in all parameters',
  **{k: f'{v}, after the update' for k, v in _META_STATE.items()},
  'adam/': 'state of the optimiser after the update',
  'params/': "the agent's parameters after the update",
}


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
      'params/': small_agent.PARAMS,
      'observations': '[T+1, B, D]',
    },
    outputs=_OUTS,
    make_inputs=lambda s: {
      **case_lib.prefixed(small_agent.sample_params(s), 'params'),
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
    inputs={
      **small_rule.ETA,
      **_META_STATE,
      **small_agent.STATE,
      **small_agent.ROLLOUT,
    },
    outputs={**_TARGETS, **_META_STATE},
    make_inputs=lambda s: {
      **small_agent.sample_learner(s),
      **small_agent.sample_rollouts(s),
    },
    compute=_targets,
    settings=small_agent.SETTINGS,
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
    inputs={**small_rule.ETA, **small_agent.STATE, **small_agent.ROLLOUT},
    outputs=_AFTER,
    make_inputs=lambda s: {
      **small_agent.sample_learner(s),
      **small_agent.sample_rollouts(s),
    },
    compute=_one_step,
    settings=small_agent.SETTINGS,
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
      **small_agent.STATE,
      **{f'rollouts/{k}': f'[3] × {v}' for k, v in small_agent.ROLLOUT.items()},
    },
    outputs={
      f'step_{i + 1}/{name}': meaning
      for i in range(NUM_STEPS)
      for name, meaning in _AFTER.items()
    },
    make_inputs=lambda s: {
      **small_agent.sample_learner(s),
      **case_lib.prefixed(
        small_agent.sample_rollouts(s, NUM_STEPS), 'rollouts'
      ),
    },
    compute=_steps,
    settings=small_agent.SETTINGS,
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
