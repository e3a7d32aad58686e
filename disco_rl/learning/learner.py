"""Learners: rules for a custom training loop, with an interface as in optax.

```python
rule = disco_rl.load_rule('disco_103')
learner = disco_rl.make_learner(rule, unroll, optimizer=optax.adam(3e-4))
state = learner.init(key, params)
update = jax.jit(learner.update, donate_argnums=1)
state, out = update(rule.eta, state, rollout, key)
print(out.log['total_loss'])
```

The network may be any function and its parameters any tree. η is an argument of
`update`, not a part of the state: the state can be donated, vmapped seeds share
one η, and gradients with respect to η can be taken.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from disco_rl import optimizers
from disco_rl import schema
from disco_rl import types
from disco_rl import utils
from disco_rl.config import agents
from disco_rl.config import arguments
from disco_rl.learning import learner_step
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import base
from disco_rl.update_rules import registry
from disco_rl.value_fns import value_fn

LearnerState = learner_step.LearnerState
LearnerOutput = learner_step.LearnerOutput


class Learner(NamedTuple):
  """A learner as a pair of pure functions.

  Attributes:
    init: `(rng, params, observations=None) -> state`, a `LearnerState` with the
      parameters θ, the optimiser's state and the rule's meta-state, which
      includes its target network. `params` are copied. Example observations, a
      tree of [B, ...], are needed only with a critic.
    update: `(eta, state, rollout, rng) -> (state, out)`, with a
      `types.ActorRollout` of leaves [T+1, B, ...] and a `LearnerOutput`.
  """

  init: Callable[..., LearnerState]
  update: Callable[
    [types.MetaParams, LearnerState, types.ActorRollout, chex.PRNGKey],
    tuple[LearnerState, LearnerOutput],
  ]


def make_learner(
  rule: rule_lib.Rule | base.UpdateRule | str,
  network: types.AgentUnrollFn | types.PolicyNetwork,
  optimizer: optax.GradientTransformation | None = None,
  hyper_params: types.HyperParams | None = None,
  *,
  learning_rate: optax.ScalarOrSchedule | None = None,
  critic: types.ValueFnConfig | None = None,
  axis_name: Any | None = None,
  with_outputs: bool = False,
) -> Learner:
  """Makes a learner from a rule, a network and an optimiser.

  Args:
    rule: a rule from `disco_rl.load_rule`, or its name; or an update rule of
      your own, together with its `hyper_params`.
    network: the network's unroll function, `(params, state, observations [T+1,
      B, ...], should_reset [T+1, B]) -> (outputs, new_state)`; or a
      `types.PolicyNetwork`. Its outputs must be those of the rule's
      `agent_output_spec`; for Disco, `logits` [A], `y` [600], `z` [A, 600],
      `aux_pi` [A, A] and `q` [A, 601], with [T+1, B] in front.
    optimizer: the optimiser of θ; by default the published one, with
      `learning_rate`.
    hyper_params: hyper-parameters of the rule; by default those that it was
      trained with.
    learning_rate: learning rate of the published optimiser, by default 3e-4. An
      error together with `optimizer`.
    critic: settings of a critic, which rules with `needs_value_out` require.
    axis_name: axis (or axes) over which the batch is sharded and gradients are
      averaged, or None.
    with_outputs: whether `update` also returns the network's outputs, the
      rule's targets and the critic's estimates, which are large. Otherwise
      those fields are None, and a compiled `update` need not store them.

  Returns:
    `init` and `update`. The network starts from the first of `rollout.states`,
    whose leaves have a leading axis of time, T+1 or 1; None for networks
    without memory. `rollout.agent_outs` needs the `logits` of the policy that
    acted. With a `rollout.action_mask`, True for legal actions, all policies
    are masked; the network and its logits need not be.
  """
  if isinstance(learning_rate, int | float | str):
    learning_rate = schema.check('learning_rate', learning_rate)
  elif learning_rate is not None and not callable(learning_rate):
    if jnp.shape(learning_rate):
      raise ValueError(
        'learning_rate must be one number or a schedule, got the shape '
        f'{jnp.shape(learning_rate)}'
      )
  arguments.check_flag('with_outputs', with_outputs)
  schema.check_mapping('hyper_params', hyper_params)
  arguments.check_optimizer('optimizer', optimizer)
  if learning_rate is not None:
    arguments.check_replaced(
      'optimizer', optimizer, dict(learning_rate=learning_rate)
    )
  arguments.check_critic(critic)
  update_rule, default_hyper_params, max_abs_update = _resolve(rule)
  if hyper_params is None:
    if default_hyper_params is None:
      raise ValueError(
        f'{type(update_rule).__name__} needs its hyper_params: '
        f'{", ".join(update_rule.required_hyper_params) or "an empty dict"}'
      )
    hyper_params = default_hyper_params
  else:
    is_built_in = any(
      type(update_rule) is registry.UPDATE_RULES[name]
      for name in registry.BUILT_IN
    )
    schema.check_tree(
      hyper_params, 'agent.hyper_params', () if is_built_in else schema.CUSTOM
    )
  if optimizer is None:
    optimizer = optimizers.clipped_adam(
      3e-4 if learning_rate is None else learning_rate, max_abs_update
    )
  step = learner_step.LearnerStep(
    update_rule,
    network,
    optimizer,
    hyper_params,
    critic=(
      None if critic is None else value_fn.ValueFunction(critic, axis_name)
    ),
    axis_name=axis_name,
  )
  eta_spec = jax.eval_shape(
    lambda: update_rule.init_params(jax.random.PRNGKey(0))[0]
  )

  def init(
    rng: chex.PRNGKey,
    params: types.AgentParams,
    observations: Any | None = None,
  ) -> LearnerState:
    # Copied, so that donating the state keeps the caller's parameters.
    params = utils.copy_tree(params)
    return step.init(rng, params, observations)

  def update(
    eta: types.MetaParams,
    state: LearnerState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[LearnerState, LearnerOutput]:
    file_format.check_like({} if eta is None else eta, eta_spec, 'eta')
    state, out = step.update(
      eta, state, rollout, rng, whole_outputs=with_outputs
    )
    return state, out if with_outputs else LearnerOutput(out.log, out.net_state)

  return Learner(init, update)


def _resolve(
  rule: rule_lib.Rule | base.UpdateRule | str,
) -> tuple[base.UpdateRule, types.HyperParams | None, float]:
  """Returns the update rule, its hyper-parameters and `max_abs_update`."""
  if isinstance(rule, base.UpdateRule):
    return rule, None, 1.0
  if not isinstance(rule, rule_lib.Rule):
    rule = rule_lib.load_rule(rule)
  config = agents.for_rule(rule)
  update_rule = registry.get_update_rule(rule.kind, **config.update_rule)
  return update_rule, config.hyper_params.to_dict(), config.max_abs_update
