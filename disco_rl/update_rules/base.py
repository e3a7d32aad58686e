"""The interface of update rules."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import chex
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_masks
from disco_rl.networks import staged_unroll
from disco_rl.update_rules import categorical
from disco_rl.update_rules import checks

ArraySpec = types.ArraySpec

# Entry of an agent's outputs with the summary of those that are left out; see
# `UpdateRule.summary_fn`.
SUMMARY = 'summary'


class UpdateRule(abc.ABC):
  """Computes a loss per step from a trajectory and an agent's outputs.

  A rule has parameters η (none for hand-designed rules) and a meta-state, which
  is kept for the agent's lifetime. It uses the agent only through its outputs
  and its unroll function, so networks may be written in any library. It never
  changes its arguments. If `rollout.action_mask` is given, all policies in its
  inputs are masked already (see `networks.action_masks`): a rule has to mask
  only policies that it computes itself, as targets.

  Attributes:
    required_hyper_params: names that `hyper_params` must have.
    optional_hyper_params: names that `hyper_params` may have.
    needs_behaviour_logits: whether the caller must put the logits of the policy
      that acted into `rollout.behaviour_agent_out`.
    needs_value_out: whether the caller must put a critic's estimates into
      `rollout.value_out`.
    learns_taken_actions_only: whether the losses read outputs per action only
      for the actions taken. Their `agent_out` may then have only those: an axis
      of actions of size 1, with `actions` 0.
    logs_of_all_actions: log entries of the losses that need all actions.
    learns_from_fixed_targets: whether no gradients pass to θ through the
      targets, unless meta-gradients do. Holds for the class that sets it and
      not for its subclasses, whose losses may differ.
    learns_streams_separately: whether the losses of a stream depend on that
      stream only, and the entries of their logs are averages over steps and
      streams. Learners may then compute the losses of a few streams at a time.
      Holds for the class that sets it, too.
  """

  required_hyper_params: ClassVar[tuple[str, ...]] = ()
  optional_hyper_params: ClassVar[tuple[str, ...]] = ()
  needs_behaviour_logits: ClassVar[bool] = False
  needs_value_out: ClassVar[bool] = False
  learns_taken_actions_only: ClassVar[bool] = False
  logs_of_all_actions: ClassVar[tuple[str, ...]] = ()
  learns_from_fixed_targets: ClassVar[bool] = False
  learns_streams_separately: ClassVar[bool] = False

  def init_params(
    self, rng: chex.PRNGKey
  ) -> tuple[types.MetaParams, types.HaikuState]:
    """Makes initial η and state of the meta-network; empty by default."""
    del rng
    return {}, {}

  @abc.abstractmethod
  def flat_output_spec(self, action_spec: types.ActionSpec) -> types.Specs:
    """Returns the specs of outputs per observation, without [B]."""

  def model_output_spec(self, action_spec: types.ActionSpec) -> types.Specs:
    """Returns the specs of outputs per action, without [B, A]."""
    utils.get_num_actions_from_spec(action_spec)
    return {}

  def agent_output_spec(self, action_spec: types.ActionSpec) -> types.Specs:
    """Returns the specs of all outputs, without [B]; [A, ...] if per action."""
    return get_agent_out_spec(
      action_spec,
      self.flat_output_spec(action_spec),
      self.model_output_spec(action_spec),
    )

  def summary_fn(
    self, meta_params: types.MetaParams
  ) -> Callable[[types.AgentOuts], dict[str, Any]] | None:
    """Returns a function that summarises outputs for `unroll_meta_net`.

    A learner may then leave out outputs per action, which are large, and give
    `unroll_meta_net` their summary instead: `agent_out` and the outputs of
    `unroll_policy_fn` have it as the entry `SUMMARY`, beside the policy's
    logits.

    Args:
      meta_params: η.

    Returns:
      A function from outputs, name to [n, ...], to name to trees of [n, ...].
      Each entry depends on one output only, and outputs may be missing. None,
      the default, if the rule needs whole outputs.
    """
    del meta_params
    return None

  def summary_log(self, summary: Mapping[str, Any]) -> types.UpdateRuleLog:
    """Computes `logs_of_all_actions` from the summary of a trajectory.

    Args:
      summary: the summary of `agent_out`, leaves [T+1, B, ...].

    Returns:
      Name to scalar.
    """
    del summary
    return {}

  @abc.abstractmethod
  def init_meta_state(
    self, rng: chex.PRNGKey, params: types.AgentParams
  ) -> types.MetaState:
    """Makes the meta-state of an agent with initial parameters θ = `params`."""

  @abc.abstractmethod
  def unroll_meta_net(
    self,
    meta_params: types.MetaParams,
    params: types.AgentParams,
    state: types.HaikuState,
    meta_state: types.MetaState,
    rollout: types.UpdateRuleInputs,
    hyper_params: types.HyperParams,
    unroll_policy_fn: types.AgentUnrollFn,
    rng: chex.PRNGKey,
    axis_name: Any | None = None,
  ) -> tuple[types.UpdateRuleOuts, types.MetaState]:
    """Computes the targets of a trajectory.

    Args:
      meta_params: η.
      params: θ, any pytree.
      state: the agent network's state before the first step; None without one.
      meta_state: from `init_meta_state` or the last update.
      rollout: the trajectory, with the agent's outputs at θ in `agent_out`.
      hyper_params: name to number; see `required_hyper_params`.
      unroll_policy_fn: `(params, state, observations, should_reset) ->
        (agent_outs, new_state)`.
      rng: for rules that need randomness.
      axis_name: axis (or axes) to average statistics over, or None.

    Returns:
      The targets, leaves [T or T+1, B, ...], and the new meta-state.
    """

  @abc.abstractmethod
  def agent_loss(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
    backprop: bool,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Computes the part of the loss that depends on the rule's targets.

    Args:
      rollout: the trajectory, with the agent's outputs in `agent_out`.
      meta_out: from `unroll_meta_net`.
      hyper_params: name to number.
      backprop: whether gradients pass through the targets to η.

    Returns:
      The loss [T, B] and a log of scalars.
    """

  def agent_loss_no_meta(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Computes the part of the loss that carries no gradients to η.

    Args:
      rollout: the trajectory, with the agent's outputs in `agent_out`.
      meta_out: from `unroll_meta_net`.
      hyper_params: name to number.

    Returns:
      The loss [T, B], zeros by default, and a log of scalars.
    """
    del meta_out, hyper_params
    return jnp.zeros(jnp.shape(rollout.rewards), jnp.float32), {}

  def validation_terms(
    self,
    agent_out: types.AgentOuts,
    actions: types.Array,
    output_actions: types.Array,
    normalized_adv: types.Array,
  ) -> types.LogDict:
    """Computes the terms of the meta-loss on the validation trajectory.

    Args:
      agent_out: the outputs of the agent after its inner updates, along a
        trajectory it has not learned from, leaves [T+1, B, ...].
      actions: [T+1, B], the actions taken.
      output_actions: [T+1, B], index of the actions taken in outputs per
        action, see `LearnerStep.unroll_for_loss`.
      normalized_adv: [T, B], the critic's normalised advantages Â; no gradients
        pass through them.

    Returns:
      Name to scalar; by default `policy_gradient`, −log π(a)·Â, and `entropy`,
      that of π. Their weights are settings of meta-training.
    """
    del output_actions
    logits = agent_out['logits'][:-1]
    policy_gradient = utils.differentiable_policy_gradient_loss(
      logits, actions[:-1], normalized_adv, backprop=False
    )
    return dict(
      policy_gradient=jnp.mean(policy_gradient),
      entropy=jnp.mean(categorical.entropy(logits)),
    )

  def target_terms(
    self, meta_out: types.UpdateRuleOuts, axis_name: Any | None
  ) -> types.LogDict:
    """Computes the terms of the meta-loss on the targets of an inner update.

    Args:
      meta_out: from `unroll_meta_net`.
      axis_name: axis (or axes) over which the batch is sharded, or None.

    Returns:
      Name to scalar, empty by default. They are averaged over inner updates.
    """
    del meta_out, axis_name
    return {}

  def __call__(
    self,
    meta_params: types.MetaParams,
    params: types.AgentParams,
    state: types.HaikuState,
    rollout: types.UpdateRuleInputs,
    hyper_params: types.HyperParams,
    meta_state: types.MetaState,
    unroll_policy_fn: types.AgentUnrollFn,
    rng: chex.PRNGKey,
    axis_name: Any | None,
    backprop: bool = False,
  ) -> tuple[jax.Array, types.MetaState, types.UpdateRuleLog]:
    """Computes targets and losses; arguments as in the methods for each.

    Returns:
      The loss of each step [T, B], the new meta-state, and a log of scalars.
    """
    rollout = action_masks.mask_inputs(rollout)
    inputs = rollout
    if not backprop and self.declares('learns_from_fixed_targets'):
      # Else their derivatives would be computed, only to be dropped.
      inputs = rollout.replace(
        agent_out=jax.lax.stop_gradient(rollout.agent_out)
      )
    if isinstance(unroll_policy_fn, staged_unroll.StagedUnroll):
      summarize = self.summary_fn(meta_params)
      if summarize is not None:
        # Then the outputs of a target network per action are not stored.
        unroll_policy_fn = unroll_policy_fn.reduced(with_logits(summarize))
    unroll_policy_fn = action_masks.mask_unroll(
      unroll_policy_fn, rollout.action_mask
    )
    meta_out, new_meta_state = self.unroll_meta_net(
      meta_params,
      params,
      state,
      meta_state,
      inputs,
      hyper_params,
      unroll_policy_fn,
      rng,
      axis_name,
    )
    loss, log = self.agent_loss(rollout, meta_out, hyper_params, backprop)
    loss_no_meta, log_no_meta = self.agent_loss_no_meta(
      rollout, meta_out, hyper_params
    )
    return loss + loss_no_meta, new_meta_state, {**log, **log_no_meta}

  def declares(self, name: str) -> bool:
    """Returns whether the class of this rule itself sets an attribute.

    Properties of methods are not inherited, since subclasses may override the
    methods.

    Args:
      name: the attribute, e.g. `'learns_streams_separately'`.
    """
    return bool(vars(type(self)).get(name, False))

  def check_hyper_params(
    self, hyper_params: types.HyperParams, allow_unknown: bool = False
  ) -> None:
    """Raises a `KeyError` that names missing (and unknown) hyper-parameters."""
    required = set(self.required_hyper_params)
    accepted = required | set(self.optional_hyper_params)
    given = set(hyper_params)
    problems = []
    if required - given:
      problems.append(f'missing {sorted(required - given)}')
    if given - accepted and not allow_unknown:
      problems.append(f'unknown {sorted(given - accepted)}')
    if problems:
      raise KeyError(
        f'hyper-parameters of {type(self).__name__}: {", ".join(problems)}; '
        f'accepted: {sorted(accepted)}'
      )

  def _check_inputs(
    self, rollout: types.UpdateRuleInputs, hyper_params: types.HyperParams
  ) -> None:
    """Checks the inputs of a rule.

    Args:
      rollout: the trajectory.
      hyper_params: name to number; unknown names are allowed.
    """
    self.check_hyper_params(hyper_params, allow_unknown=True)
    self._check_agent_out(rollout.agent_out)
    if self.needs_behaviour_logits:
      checks.check_has_logits(
        'rollout.behaviour_agent_out', rollout.behaviour_agent_out
      )
    if self.needs_value_out and rollout.value_out is None:
      raise ValueError(
        f"{type(self).__name__} needs rollout.value_out, a critic's "
        'types.ValueOuts; see value_fns.value_fn.ValueFunction'
      )
    checks.check_update_rule_inputs(rollout)

  def _check_agent_out(self, agent_out: types.AgentOuts | None) -> None:
    outs = dict(agent_out or {})
    is_summarized = outs.pop(SUMMARY, None) is not None
    given = {k: jnp.shape(x) for k, x in outs.items()}
    # The number of actions is known from the logits only.
    num_actions = given.get('logits', (1,))[-1]
    action_spec = types.ActionSpec((), jnp.int32, 0, num_actions - 1)
    for name, spec in self.agent_output_spec(action_spec).items():
      if name not in given:
        if is_summarized:
          continue
        raise KeyError(
          f'{type(self).__name__} needs the agent output {name!r}; '
          f'rollout.agent_out has {sorted(given)}'
        )
      if given[name][2:] != spec.shape:
        raise ValueError(
          f'rollout.agent_out[{name!r}] must be [T+1, B] + '
          f'{list(spec.shape)}, got shape {given[name]}'
        )


def get_agent_out_spec(
  action_spec: types.ActionSpec,
  flat_out_spec: types.Specs,
  model_out_spec: types.Specs,
) -> dict[str, ArraySpec]:
  """Joins the specs of outputs per observation and per action.

  Args:
    action_spec: scalar, discrete, int32, with A actions.
    flat_out_spec: name to spec of an output per observation.
    model_out_spec: name to spec of an output per action.

  Returns:
    Name to spec, [A, ...] if per action; all without [B].
  """
  both = sorted(set(flat_out_spec) & set(model_out_spec))
  if both:
    raise ValueError(f'outputs {both} are both flat and per-action')
  num_actions = utils.get_num_actions_from_spec(action_spec)
  per_action = utils.broadcast_specs(dict(model_out_spec), num_actions)
  return {**flat_out_spec, **per_action}


def with_logits(
  summarize: Callable[[types.AgentOuts], dict[str, Any]],
) -> Callable[[types.AgentOuts], dict[str, Any]]:
  """Returns a function to the policy's logits and the summary of all outputs.

  Args:
    summarize: see `UpdateRule.summary_fn`.
  """
  return lambda outs: {'logits': outs['logits'], SUMMARY: summarize(outs)}
