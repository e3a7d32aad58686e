"""A rule for a training loop of one's own, in the manner of optax.

  learner = rule_learner.disco(eta, unroll, learning_rate=3e-4)
  state = learner.init(key, params)
  params, state, log = jax.jit(learner.update)(params, state, rollout)

Rule, target network, meta-state and optimiser are in the one state; the network
may be any function and its parameters any tree.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from disco_rl import checks
from disco_rl import compat
from disco_rl import optimizers
from disco_rl import rule_params
from disco_rl import settings
from disco_rl import types
from disco_rl.update_rules import base
from disco_rl.update_rules import disco as disco_rule


class LearnerState(NamedTuple):
  """What learning carries from one update to the next."""

  eta: types.MetaParams  # Never changes; here, so that it is no constant.
  meta_state: types.MetaState  # The rule's, with its target network.
  opt_state: types.OptState
  rng: chex.PRNGKey


class RuleLearner(NamedTuple):
  """A pair of pure functions.

  Attributes:
    init: `(rng, params) -> state`.
    update: `(params, state, rollout) -> (params, state, log)`, with a
      `types.ActorRollout` of leaves [T+1, B, ...] and a log of scalars.
  """

  init: Callable[[chex.PRNGKey, types.AgentParams], LearnerState]
  update: Callable[
    [types.AgentParams, LearnerState, types.ActorRollout],
    tuple[types.AgentParams, LearnerState, types.LogDict],
  ]


def make(
  rule: base.UpdateRule,
  eta: types.MetaParams,
  unroll: types.AgentUnrollFn,
  hyper_params: types.HyperParams,
  optimizer: optax.GradientTransformation,
  axis_name: Any | None = None,
) -> RuleLearner:
  """Bundles a rule and an optimiser around a network.

  Args:
    rule: which says what to learn.
    eta: its parameters; `{}` for a hand-made one.
    unroll: the network, `(params, state, observations [T+1, B, ...],
      should_reset [T+1, B]) -> (outputs, new_state)`. Its outputs must be those
      of `rule.agent_output_spec`.
    hyper_params: of the rule, see `settings.py`.
    optimizer: of the network's parameters.
    axis_name: over which the batch is spread and gradients are averaged, or
      None.

  Returns:
    `init` and `update`. The network's state before the first step of a rollout
    is that of `rollout.states`, which may be None for networks without memory;
    of `rollout.agent_outs` the behaviour's `logits` are needed.
  """
  hyper_params = dict(hyper_params)
  rule.check_hyper_params(hyper_params)
  wanted = jax.eval_shape(lambda: rule.init_params(jax.random.PRNGKey(0))[0])
  rule_params.check_like(eta or {}, wanted, 'eta')
  if rule.needs_value_out:
    raise ValueError(
      f'{type(rule).__name__} needs a critic: use it through agent.Agent, '
      'which brings one along'
    )

  def init(rng: chex.PRNGKey, params: types.AgentParams) -> LearnerState:
    rng, meta_rng = jax.random.split(rng)
    return LearnerState(
      eta=eta,
      meta_state=rule.init_meta_state(meta_rng, params),
      opt_state=optimizer.init(params),
      rng=rng,
    )

  def update(
    params: types.AgentParams, state: LearnerState, rollout: types.ActorRollout
  ) -> tuple[types.AgentParams, LearnerState, types.LogDict]:
    checks.check_actor_rollout(rollout)
    rng, rule_rng = jax.random.split(state.rng)
    net_state = rollout.first_state(time_axis=0)
    weights = base.step_weights(rollout.discounts, axis_name)

    def loss_fn(params: types.AgentParams) -> tuple[jax.Array, Any]:
      agent_out, _ = unroll(
        params, net_state, rollout.observations, rollout.discounts == 0
      )
      loss, meta_state, log = rule(
        state.eta,
        params,
        net_state,
        base.inputs_from_rollout(rollout, agent_out),
        hyper_params,
        state.meta_state,
        base.with_first_reset(unroll, rollout),
        rule_rng,
        axis_name,
      )
      return jnp.sum(loss * weights), (meta_state, log)

    (loss, (meta_state, log)), grads = jax.value_and_grad(
      loss_fn, has_aux=True
    )(params)
    log = {**jax.tree.map(jnp.mean, log), 'total_loss': loss}
    if axis_name is not None:
      grads, log = jax.lax.pmean((grads, log), axis_name)
    updates, opt_state = optimizer.update(grads, state.opt_state, params)
    log['global_gradient_norm'] = compat.tree_norm(grads)
    new_state = LearnerState(state.eta, meta_state, opt_state, rng)
    return optax.apply_updates(params, updates), new_state, log

  return RuleLearner(init, update)


def disco(
  eta: types.MetaParams,
  unroll: types.AgentUnrollFn,
  learning_rate: optax.ScalarOrSchedule = 3e-4,
  *,
  optimizer: optax.GradientTransformation | None = None,
  axis_name: Any | None = None,
) -> RuleLearner:
  """The discovered rule, as published, around any network.

  Args:
    eta: e.g. `rule_params.load('disco_103')`.
    unroll: as of `make`. Its outputs are `logits` [A], `y` [600], `z` [A, 600],
      `aux_pi` [A, A] and `q` [A, 601], after [T+1, B].
    learning_rate: of the published optimiser.
    optimizer: another one, instead.
    axis_name: as of `make`.

  Returns:
    `init` and `update`.
  """
  config = settings.get_settings_disco()
  return make(
    disco_rule.DiscoUpdateRule(**config.update_rule),
    eta,
    unroll,
    config.hyper_params,
    optimizer or optimizers.clipped_adam(learning_rate, config.max_abs_update),
    axis_name,
  )
