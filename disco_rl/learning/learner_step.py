"""The learner step: one update of an agent's parameters θ by an update rule.

It is used by `agent.Agent`, by `make_learner` for custom networks and loops, by
evaluation, and by the inner updates of meta-training.
"""

import copy
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from disco_rl import compat
from disco_rl import types
from disco_rl.learning import checks
from disco_rl.learning import mixed_mode
from disco_rl.learning import rule_inputs
from disco_rl.learning import stream_blocks
from disco_rl.learning import unrolls
from disco_rl.networks import action_masks
from disco_rl.update_rules import base
from disco_rl.value_fns import value_fn


@types.chex_dataclass(frozen=True)
class LearnerState(types.Record):
  """The state of a learner, carried from one update to the next."""

  params: types.AgentParams  # θ
  opt_state: types.OptState
  meta_state: types.MetaState  # The rule's; see `UpdateRule.init_meta_state`.
  critic: types.ValueState | None = None  # None without a critic.


class LearnerOutput(NamedTuple):
  """The log and intermediate results of an update.

  Attributes:
    log: scalars.
    net_state: the network's state after the rollout.
    agent_out: the network's outputs before the update, leaves [T+1, B, ...].
    meta_out: the rule's targets, leaves [T or T+1, B, ...].
    value_out: the critic's estimates, leaves [T or T+1, B]; None without one.
  """

  log: types.LogDict
  net_state: types.HaikuState
  agent_out: types.AgentOuts | None = None
  meta_out: types.UpdateRuleOuts | None = None
  value_out: types.ValueOuts | None = None


class LearnerStep:
  """A learner as pure functions: rule, network, optimiser, optional critic.

  Attributes:
    update_rule: the rule.
    critic: the critic, or None.
  """

  def __init__(
    self,
    update_rule: base.UpdateRule,
    network: types.PolicyNetwork | types.AgentUnrollFn,
    optimizer: optax.GradientTransformation,
    hyper_params: types.HyperParams,
    *,
    critic: value_fn.ValueFunction | None = None,
    axis_name: Any | None = None,
  ):
    """Initialises the learner.

    Args:
      update_rule: the rule.
      network: a `PolicyNetwork`, or only its unroll function.
      optimizer: the optimiser of θ.
      hyper_params: the rule's hyper-parameters, name to number.
      critic: the critic, or None. Its estimates are inputs of rules with
        `needs_value_out`, and part of the meta-loss in meta-training.
      axis_name: axis (or axes) over which the batch is sharded, and gradients
        and statistics are averaged; None for one shard.
    """
    if update_rule.needs_value_out and critic is None:
      raise ValueError(
        f'{type(update_rule).__name__} needs a critic: agent settings with a '
        'value_fn group (see types.ValueFnConfig), or critic='
      )
    update_rule.check_hyper_params(hyper_params)
    self.update_rule = update_rule
    self.critic = critic
    self._optimizer = optimizer
    self._hyper_params = dict(hyper_params)
    self._axis_name = axis_name
    self._mixed_mode = False
    self._unrolls = unrolls.Unrolls(network, update_rule)

  def in_mixed_mode(self) -> 'LearnerStep':
    """Returns a copy that is differentiated in mixed mode when η is trained.

    Its meta-gradients are the same up to rounding, but need less memory where
    updates are rematerialised (see `mixed_mode.py`). No gradients pass through
    the log.
    """
    other = copy.copy(self)
    other._mixed_mode = True
    return other

  def with_rule(
    self,
    update_rule: base.UpdateRule,
    network: types.PolicyNetwork | types.AgentUnrollFn,
  ) -> 'LearnerStep':
    """Returns a copy with another rule that has the same hyper-parameters.

    Args:
      update_rule: the rule.
      network: the network of this learner.
    """
    update_rule.check_hyper_params(self._hyper_params)
    other = copy.copy(self)
    other.update_rule = update_rule
    other._unrolls = unrolls.Unrolls(network, update_rule)
    return other

  def init(
    self,
    rng: chex.PRNGKey,
    params: types.AgentParams,
    observations: Any | None = None,
  ) -> LearnerState:
    """Makes the state before the first update.

    Args:
      rng: key of the rule's meta-state and of the critic.
      params: θ.
      observations: example observations, a tree of [B, ...], which initialise
        the critic; not needed without a critic.

    Returns:
      The state. Its target network may share memory with θ.
    """
    critic = None
    if self.critic is not None:
      if observations is None:
        raise ValueError('a learner with a critic needs example observations')
      critic = self.critic.initial_state(
        jax.random.fold_in(rng, 1), observations
      )
    return LearnerState(
      params=params,
      opt_state=self._optimizer.init(params),
      meta_state=self.update_rule.init_meta_state(rng, params),
      critic=critic,
    )

  def update(
    self,
    eta: types.MetaParams,
    state: LearnerState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
    backprop: bool = True,
    whole_outputs: bool = False,
  ) -> tuple[LearnerState, LearnerOutput]:
    """Updates θ once, on one batch of trajectories.

    Args:
      eta: the rule's parameters η.
      state: the state before.
      rollout: leaves [T+1, B, ...]. The network starts from its first state.
        `agent_outs` are those of the policy that acted; the built-in rules use
        only their logits. With an `action_mask`, all policies that the rule
        reads are masked, see `networks.action_masks`.
      rng: for rules that need randomness.
      backprop: whether the new θ is differentiable in η through the rule's
        targets. The numbers are the same either way.
      whole_outputs: whether the outputs of online and target network are
        returned as a whole. Otherwise, a summary may stand for those per action
        (see `UpdateRule.summary_fn`), which is faster and the same up to
        rounding.

    Returns:
      The state after, and the log with intermediate results.
    """
    checks.check_actor_rollout(rollout)
    rollout = action_masks.mask_rollout(rollout)
    params = state.params
    net_state = rollout.first_state(time_axis=0)
    summarize = None
    if self._unrolls.has_stages and not whole_outputs:
      summarize = self.update_rule.summary_fn(eta)
    outputs = self._unrolls.for_learning(
      params,
      net_state,
      rollout,
      summarize,
      by_streams=not backprop
      and self.update_rule.declares('learns_streams_separately'),
    )
    agent_out = outputs.agent_out
    critic_state, value_out, critic_log = self._update_critic(
      state.critic, rollout, agent_out['logits']
    )
    needed_value_out = value_out if self.update_rule.needs_value_out else None

    inputs = rule_inputs.inputs_from_rollout(
      rollout, agent_out, needed_value_out
    )
    meta_out, meta_state = self.update_rule.unroll_meta_net(
      eta,
      params,
      net_state,
      dict(state.meta_state),
      inputs,
      self._hyper_params,
      rule_inputs.with_first_reset(
        action_masks.mask_unroll(
          self._unrolls.for_target(summarize), rollout.action_mask
        ),
        rollout,
      ),
      rng,
      self._axis_name,
    )

    weights = rule_inputs.step_weights(rollout.discounts, self._axis_name)
    # The targets are constants of this gradient.
    if backprop and self._mixed_mode:
      grads, (total_loss, log) = mixed_mode.gradient(self._loss_of_params)(
        params,
        # A critic's estimates depend on θ through the policy.
        (meta_out, needed_value_out),
        (
          inputs.replace(agent_out={}, value_out=None),
          net_state,
          rollout,
          weights,
        ),
      )
    else:
      data = (inputs.replace(agent_out={}), meta_out, weights)

      def loss_fn(
        outs: Any, actions: Any, select: stream_blocks.SelectFn
      ) -> Any:
        own_inputs, own_meta_out, own_weights = select(data)
        return self._loss(
          own_inputs.replace(agent_out=outs, actions=actions),
          own_meta_out,
          own_weights,
          backprop,
        )

      (total_loss, log), grads = outputs.gradient(loss_fn)
    log['total_loss'] = total_loss
    if summarize is not None:
      log |= self.update_rule.summary_log(agent_out[base.SUMMARY])
    elif self.update_rule.logs_of_all_actions:
      _, full_log = self._loss(inputs, meta_out, weights, backprop=False)
      log |= {k: full_log[k] for k in self.update_rule.logs_of_all_actions}
    log |= critic_log
    if self._axis_name is not None:
      grads, log = jax.lax.pmean((grads, log), self._axis_name)
    updates, opt_state = self._optimizer.update(grads, state.opt_state, params)
    log['global_gradient_norm'] = compat.tree_norm(grads)
    log['global_update_norm'] = compat.tree_norm(updates)
    new_state = LearnerState(
      params=optax.apply_updates(params, updates),
      opt_state=opt_state,
      meta_state=meta_state,
      critic=critic_state,
    )
    output = LearnerOutput(
      log, outputs.net_state, agent_out, meta_out, value_out
    )
    return new_state, output

  def unroll_for_loss(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.Array]:
    """Unrolls the network for losses that use only the actions taken.

    See `unrolls.Unrolls.for_loss`.
    """
    return self._unrolls.for_loss(params, net_state, rollout)

  def _update_critic(
    self,
    critic_state: types.ValueState | None,
    rollout: types.ActorRollout,
    logits: types.Array,
  ) -> tuple[types.ValueState | None, types.ValueOuts | None, types.LogDict]:
    """Updates the critic, if there is one, on the agent's own batch."""
    if self.critic is None:
      return None, None, {}
    if critic_state is None:
      raise ValueError('the learner has a critic, but its state has none')
    if not self.update_rule.needs_value_out:
      # Then its estimates are constants of the meta-gradient.
      logits = jax.lax.stop_gradient(logits)
    critic_state, value_out, log = self.critic.update(
      critic_state, rollout, logits
    )
    return critic_state, value_out, jax.tree.map(jnp.mean, log)

  def _loss(
    self,
    inputs: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    weights: types.Array,
    backprop: bool,
  ) -> tuple[jax.Array, types.LogDict]:
    """Sums the loss of all steps, weighted by `weights` [T, B]."""
    loss, log = self.update_rule.agent_loss(
      inputs, meta_out, self._hyper_params, backprop=backprop
    )
    loss_no_meta, log_no_meta = self.update_rule.agent_loss_no_meta(
      inputs, meta_out, self._hyper_params
    )
    log = jax.tree.map(jnp.mean, {**log, **log_no_meta})
    return jnp.sum((loss + loss_no_meta) * weights), log

  def _loss_of_params(
    self,
    params: types.AgentParams,
    targets: tuple[types.UpdateRuleOuts, types.ValueOuts | None],
    data: Any,
  ) -> tuple[jax.Array, types.LogDict]:
    """Computes the loss from θ and the targets, for `mixed_mode`."""
    meta_out, value_out = targets
    inputs, net_state, rollout, weights = data
    outs, actions = self._unrolls.for_loss(params, net_state, rollout)
    inputs = inputs.replace(
      agent_out=outs, actions=actions, value_out=value_out
    )
    return self._loss(inputs, meta_out, weights, backprop=True)
