"""Cases of meta-training: the meta-loss and its gradient in η."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from disco_rl import types
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import optimizer_cases
from disco_rl.conformance import samples
from disco_rl.conformance import small_agent
from disco_rl.conformance import small_rule
from disco_rl.learning import learner_step

Arrays = case_lib.Arrays
_T, _B, _A, _Y = samples.T, samples.B, samples.A, samples.Y
NUM_UPDATES = 2
# Term of the meta-loss to its weight; see `config.meta_training`.
WEIGHTS = dict(
  policy_gradient=1.0,
  entropy=-0.01,
  y_entropy=-0.001,
  z_entropy=-0.001,
  y_mean=0.001,
  z_mean=0.001,
  pi_mean=0.001,
  target_kl=0.01,
)


def _validation_terms(x: Arrays, outs: types.AgentOuts) -> Arrays:
  return small_rule.make_rule().validation_terms(
    outs, x['actions'], x['actions'], x['normalized_adv']
  )


def _weighted(terms: Arrays) -> jax.Array:
  return sum(WEIGHTS[name] * term for name, term in terms.items())


def _terms(x: Arrays) -> Arrays:
  targets = case_lib.under(x, 'targets')
  targets['target_out'] = dict(logits=x['target_logits'])
  terms = _validation_terms(
    case_lib.under(x, 'validation'), case_lib.under(x, 'agent_out')
  )
  terms |= small_rule.make_rule().target_terms(targets, None)
  return {**terms, 'meta_loss': _weighted(terms)}


def _mean_of_squares(x: Arrays) -> Arrays:
  return {
    f'{name}_mean': jnp.mean(jnp.square(x[f'targets/{name}']))
    for name in ('y', 'z', 'pi')
  }


def _meta_loss(
  eta: types.MetaParams,
  x: Arrays,
  learner: learner_step.LearnerStep,
) -> tuple[jax.Array, Any]:
  state, target_terms = small_agent.to_state(x), []
  for i in range(NUM_UPDATES):
    rollout = {
      name: array[i] for name, array in case_lib.under(x, 'rollouts').items()
    }
    state, out = learner.update(
      eta,
      state,
      small_agent.to_rollout(rollout),
      jax.random.PRNGKey(0),
      whole_outputs=True,
    )
    assert out.meta_out is not None
    rule = small_rule.make_rule()
    target_terms.append(rule.target_terms(out.meta_out, None))
  valid = case_lib.under(x, 'validation')
  outs, _ = small_agent.unroll(state.params, None, valid['observations'], None)
  means = jax.tree.map(lambda *terms: sum(terms) / NUM_UPDATES, *target_terms)
  terms = {**_validation_terms(valid, outs), **means}
  return _weighted(terms), (terms, state)


def _gradient(
  x: Arrays, optimizer: optax.GradientTransformation | None = None
) -> Arrays:
  learner = small_agent.make_learner(optimizer)
  (loss, (terms, state)), grads = jax.value_and_grad(_meta_loss, has_aux=True)(
    small_agent.eta_of(x), x, learner
  )
  flat = small_rule.from_modules
  return {
    **case_lib.prefixed(flat(state.params), 'params'),
    **terms,
    'meta_loss': loss,
    **case_lib.prefixed(flat(grads), 'gradient'),
  }


def _through_the_denominator(x: Arrays) -> Arrays:
  optimizer = optax.chain(
    optax.scale_by_adam(),
    optax.clip(optimizer_cases.MAX_ABS_UPDATE),
    optax.scale(-optimizer_cases.LEARNING_RATE),
  )
  grads = case_lib.under(_gradient(x, optimizer), 'gradient')
  return case_lib.prefixed(grads, 'gradient')


_VALIDATION = {
  'validation/actions': '[T+1, B] actions of the validation trajectory',
  'validation/normalized_adv': "[T, B] the critic's normalised advantages Â",
}
_TERMS = {
  'policy_gradient': '[] mean of −log π(a)·Â over T and B',
  'entropy': '[] mean entropy of π over T and B',
  'y_entropy': '[] mean entropy of y, over T + 1 steps',
  'z_entropy': '[] mean entropy of z of the action taken, over T steps',
  'y_mean': '[] (mean of all ŷ)²',
  'z_mean': '[] (mean of all ẑ)²',
  'pi_mean': '[] (mean of all π̂)²',
  'target_kl': '[] mean KL(π of the target network ‖ π̂)',
  'meta_loss': '[] their weighted sum',
}

_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='meta_loss',
    computes='The terms of the meta-loss, and their weighted sum.',
    equation=(
      'those of the outputs are of the agent after its updates, on a '
      'trajectory it has not learned from, on steps 0 to T−1 but for '
      'y_entropy; those of targets are of one update; means of logits are '
      'squared after averaging'
    ),
    inputs={
      'agent_out/': '[T+1, B, ...] logits [A], y [Y], z [A, Y]',
      **_VALIDATION,
      'targets/': '[T, B, ...] logits of π̂ [A], ŷ [Y] and ẑ [Y]',
      'target_logits': '[T+1, B, A] of the target network',
    },
    outputs=_TERMS,
    make_inputs=lambda s: {
      **{
        f'agent_out/{name}': x
        for name, x in s.outputs().items()
        if name in ('logits', 'y', 'z')
      },
      'validation/actions': s.actions(_T + 1, _B),
      'validation/normalized_adv': s.normal(_T, _B),
      'targets/pi': s.normal(_T, _B, _A),
      'targets/y': s.normal(_T, _B, _Y),
      'targets/z': s.normal(_T, _B, _Y),
      'target_logits': s.normal(_T + 1, _B, _A),
    },
    compute=_terms,
    settings=dict(weights=WEIGHTS),
    mistakes=dict(
      mean_of_squares=_Mistake(
        'the mean of squares instead of the square of the mean',
        _mean_of_squares,
      )
    ),
  ),
  case_lib.Case(
    name='meta_gradient',
    computes='The gradient of the meta-loss in η through two updates.',
    equation=(
      'learner_step twice, with the targets as functions of η; terms of '
      'targets are averaged over the updates, the others are those of '
      "agent_network with the parameters after the updates. Constants: Adam's "
      'denominators (adam_derivative), inputs of the meta-network with '
      'stop_grad, the policy of pi_weighted_avg, importance weights, q_td and '
      'the value it is added to, πₜ₊₁ in aux_policy_loss, Â'
    ),
    inputs={
      **small_rule.ETA,
      **small_agent.STATE,
      **{f'rollouts/{k}': f'[2] × {v}' for k, v in small_agent.ROLLOUT.items()},
      'validation/observations': '[T+1, B, D] of the validation trajectory',
      **_VALIDATION,
    },
    outputs={
      'params/': "the agent's parameters after both updates",
      **_TERMS,
      'gradient/': 'the gradient in each array of η',
    },
    make_inputs=lambda s: {
      **small_agent.sample_learner(s),
      **case_lib.prefixed(
        small_agent.sample_rollouts(s, NUM_UPDATES), 'rollouts'
      ),
      'validation/observations': s.normal(_T + 1, _B, samples.D),
      'validation/actions': s.actions(_T + 1, _B),
      'validation/normalized_adv': s.normal(_T, _B),
    },
    compute=_gradient,
    settings=dict(
      small_agent.SETTINGS, num_inner_updates=NUM_UPDATES, weights=WEIGHTS
    ),
    tolerance=1e-3,
    own_tolerances={
      'gradient/lstm/mlp_1/': 1e-2,
      'gradient/lstm/sequential/': 2e-2,
    },
    builds_on=('learner_steps', 'adam_derivative', 'meta_loss'),
    mistakes=dict(
      through_the_denominator=_Mistake(
        "a gradient through Adam's denominators", _through_the_denominator
      )
    ),
  ),
)
