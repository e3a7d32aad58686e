"""A rule for a training loop of one's own, in the manner of optax.

  rule = disco_rl.load_rule('disco_103')
  learner = disco_rl.make_learner(rule, unroll, optimizer=optax.adam(3e-4))
  state = learner.init(key, params)
  update = jax.jit(learner.update, donate_argnums=1)
  state, log = update(rule.eta, state, rollout, key)

The network may be any function and its parameters any tree. η is an argument of
`update` and no part of the state: the state can be donated, seeds that are
vmapped share one η, and gradients can be taken in it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from disco_rl import agent
from disco_rl import checks
from disco_rl import compat
from disco_rl import optimizers
from disco_rl import rule_choice
from disco_rl import rule_params
from disco_rl import settings as settings_lib
from disco_rl import types
from disco_rl.update_rules import base
from disco_rl.update_rules import registry


class Learner(NamedTuple):
  """A pair of pure functions.

  Attributes:
    init: `(rng, params) -> state`, an `agent.LearnerState` with the parameters
      θ, the optimiser's state and the rule's meta-state, in which its target
      network is. `params` are copied.
    update: `(eta, state, rollout, rng) -> (state, log)`, with a
      `types.ActorRollout` of leaves [T+1, B, ...] and a log of scalars.
  """

  init: Callable[[chex.PRNGKey, types.AgentParams], agent.LearnerState]
  update: Callable[
    [types.MetaParams, agent.LearnerState, types.ActorRollout, chex.PRNGKey],
    tuple[agent.LearnerState, types.LogDict],
  ]


def make_learner(
  rule: rule_choice.Rule | base.UpdateRule | str,
  unroll: types.AgentUnrollFn,
  *,
  optimizer: optax.GradientTransformation | None = None,
  learning_rate: optax.ScalarOrSchedule | None = None,
  hyper_params: types.HyperParams | None = None,
  axis_name: Any | None = None,
) -> Learner:
  """Bundles a rule and an optimiser around a network.

  Args:
    rule: what `disco_rl.load_rule` returns, or the name it takes; or an update
      rule of your own, together with its `hyper_params`.
    unroll: the network, `(params, state, observations [T+1, B, ...],
      should_reset [T+1, B]) -> (outputs, new_state)`. Its outputs must be those
      of the rule's `agent_output_spec`; Disco's are `logits` [A], `y` [600],
      `z` [A, 600], `aux_pi` [A, A] and `q` [A, 601], after [T+1, B].
    optimizer: of the network's parameters; by default the published one, with
      `learning_rate`.
    learning_rate: of the published optimiser (default 3e-4). Not together with
      `optimizer`, which has its own.
    hyper_params: of the rule; by default those it was trained with.
    axis_name: over which the batch is sharded and gradients are averaged, or
      None.

  Returns:
    `init` and `update`. The network's state before the first step of a rollout
    is that of `rollout.states`, whose leaves have a leading axis of time, T+1
    or 1, and which may be None for networks without memory; of
    `rollout.agent_outs` the behaviour's `logits` are needed.
  """
  update_rule, default_hyper_params, max_abs_update = _resolve(rule)
  if hyper_params is None:
    if default_hyper_params is None:
      raise ValueError(
        f'{type(update_rule).__name__} needs its hyper_params: '
        f'{", ".join(update_rule.required_hyper_params) or "an empty dict"}'
      )
    hyper_params = default_hyper_params
  constants = dict(hyper_params)
  update_rule.check_hyper_params(constants)
  if update_rule.needs_value_out:
    raise ValueError(
      f'{type(update_rule).__name__} needs a critic: use it through '
      'agent.Agent, which brings one along'
    )
  if optimizer is None:
    optimizer = optimizers.clipped_adam(
      3e-4 if learning_rate is None else learning_rate, max_abs_update
    )
  elif learning_rate is not None:
    raise ValueError(
      f'learning_rate ({learning_rate}) would have no effect beside an '
      'optimizer: give it to the optimizer, or leave the optimizer out'
    )
  eta_spec = jax.eval_shape(
    lambda: update_rule.init_params(jax.random.PRNGKey(0))[0]
  )

  def init(rng: chex.PRNGKey, params: types.AgentParams) -> agent.LearnerState:
    # Copied, so that donating the state leaves the caller's parameters alone.
    params = jax.tree.map(lambda x: jnp.array(x, copy=True), params)
    return agent.LearnerState(
      params=params,
      opt_state=optimizer.init(params),
      meta_state=update_rule.init_meta_state(rng, params),
    )

  def update(
    eta: types.MetaParams,
    state: agent.LearnerState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[agent.LearnerState, types.LogDict]:
    rule_params.check_like({} if eta is None else eta, eta_spec, 'eta')
    checks.check_actor_rollout(rollout)
    net_state = rollout.first_state(time_axis=0)
    weights = base.step_weights(rollout.discounts, axis_name)

    def loss_fn(params: types.AgentParams) -> tuple[jax.Array, Any]:
      agent_out, _ = unroll(
        params, net_state, rollout.observations, rollout.discounts == 0
      )
      loss, meta_state, log = update_rule(
        eta,
        params,
        net_state,
        base.inputs_from_rollout(rollout, agent_out),
        constants,
        state.meta_state,
        base.with_first_reset(unroll, rollout),
        rng,
        axis_name,
      )
      return jnp.sum(loss * weights), (meta_state, log)

    (loss, (meta_state, log)), grads = jax.value_and_grad(
      loss_fn, has_aux=True
    )(state.params)
    log = {**jax.tree.map(jnp.mean, log), 'total_loss': loss}
    if axis_name is not None:
      grads, log = jax.lax.pmean((grads, log), axis_name)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    log['global_gradient_norm'] = compat.tree_norm(grads)
    new_state = agent.LearnerState(
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
      meta_state=meta_state,
    )
    return new_state, log

  return Learner(init, update)


def _resolve(
  rule: rule_choice.Rule | base.UpdateRule | str,
) -> tuple[base.UpdateRule, types.HyperParams | None, float]:
  """The update rule, its hyper-parameters if known, and a bound on updates."""
  if isinstance(rule, base.UpdateRule):
    return rule, None, 1.0
  if isinstance(rule, str):
    rule = rule_choice.load_rule(rule)
  config = settings_lib.get_settings(rule.kind)
  settings_lib.update_from_plain(config, rule.settings)
  update_rule = registry.get_update_rule(rule.kind, **config.update_rule)
  return update_rule, config.hyper_params.to_dict(), config.max_abs_update
