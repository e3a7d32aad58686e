"""An agent: a network, an update rule, an optimiser."""

from collections.abc import Callable
import copy
from typing import Any, NamedTuple

import chex
import distrax
import dm_env
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import optax

from disco_rl import checks
from disco_rl import compat
from disco_rl import mixed_mode
from disco_rl import optimizers
from disco_rl import settings
from disco_rl import types
from disco_rl import utils
from disco_rl.networks import nets
from disco_rl.update_rules import base
from disco_rl.update_rules import registry
from disco_rl.value_fns import value_fn

# The settings are used together with `Agent`, so they are found here too.
get_settings_disco = settings.get_settings_disco
get_settings_actor_critic = settings.get_settings_actor_critic
get_settings_policy_gradient = settings.get_settings_policy_gradient


@types.chex_dataclass(frozen=True)
class LearnerState(types.Record):
  """What an agent carries from one update to the next."""

  params: types.AgentParams  # θ
  opt_state: types.OptState
  meta_state: types.MetaState  # The rule's; see `UpdateRule.init_meta_state`.


class _LearningOutputs(NamedTuple):
  """The network's outputs along a rollout, and the way from them to θ."""

  agent_out: types.AgentOuts  # All of them, leaves [T+1, B, ...].
  net_state: types.HaikuState  # After the rollout.
  learned_out: types.AgentOuts  # Those the loss is a function of.
  learned_actions: types.Array  # [T+1, B], where in them the taken actions are.
  pullback: Callable[[types.AgentOuts], tuple[types.AgentParams]]


class Agent:
  """Acts, and learns from what it did as its update rule says.

  All methods are pure functions of their arguments.

  Attributes:
    settings: the agent settings it was built with.
    single_observation_spec: tree of specs of one stream's observation.
    single_action_spec: spec of one stream's action.
    update_rule: the rule, see `update_rules.base.UpdateRule`.
  """

  def __init__(
    self,
    *,
    single_observation_spec: types.SpecsTree,
    single_action_spec: types.ActionSpec,
    agent_settings: config_dict.ConfigDict,
    batch_axis_name: Any | None,
    optimizer: optax.GradientTransformation | None = None,
  ):
    """Builds the agent.

    Args:
      single_observation_spec: tree of specs of one stream's observation.
      single_action_spec: scalar, discrete, int32.
      agent_settings: see `get_settings_disco` and its siblings.
      batch_axis_name: axis (or axes) over which the batch is spread and
        gradients and statistics are averaged, or None.
      optimizer: of θ; it replaces the one that the settings describe, their
        learning rate and clip included. In meta-training it is differentiated:
        optax.adam, e.g., needs an `eps_root` above 0 for that.
    """
    settings.check_agent_settings(agent_settings)
    self.settings = agent_settings
    self.single_observation_spec = single_observation_spec
    self.single_action_spec = single_action_spec
    self._mixed_mode = False
    self._batch_axis_name = batch_axis_name
    utils.get_num_actions_from_spec(single_action_spec)

    self.update_rule = registry.get_update_rule(
      agent_settings.update_rule_name, **agent_settings.update_rule
    )
    self._hyper_params = dict(agent_settings.hyper_params)
    self.update_rule.check_hyper_params(self._hyper_params)

    self._network = nets.get_network(
      agent_settings.net_settings.name,
      out_spec=self.update_rule.flat_output_spec(single_action_spec),
      action_spec=single_action_spec,
      model_out_spec=self.update_rule.model_output_spec(single_action_spec),
      **agent_settings.net_settings.net_args,
    )
    self._model_outputs = frozenset(
      self.update_rule.model_output_spec(single_action_spec)
    )
    self._learns_taken_actions_only = (
      self._network.unroll_taken is not None
      and self.update_rule.learns_taken_actions_only
    )
    self._optimizer = optimizer or optimizers.agent_optimizer(agent_settings)
    self._critic = self._build_critic(agent_settings)
    self._check_network()

  def in_mixed_mode(self) -> 'Agent':
    """The same agent, differentiated otherwise when η is trained.

    Its meta-gradients are the same up to rounding, but need less memory where
    `learner_step` is rematerialised (see `mixed_mode.py`). No gradients pass
    through the log.

    Returns:
      A copy.
    """
    other = copy.copy(self)
    other._mixed_mode = True
    return other

  def initial_actor_state(
    self, rng: chex.PRNGKey, batch_size: int = 1
  ) -> types.HaikuState:
    """The network state before the first step.

    Args:
      rng: key.
      batch_size: number of streams; matters to networks with memory only.

    Returns:
      The state, empty for a network without memory.
    """
    # Compiled as a whole, so that no parameters are drawn.
    return jax.jit(lambda rng: self._init_network(rng, batch_size)[1])(rng)

  def initial_learner_state(self, rng_key: chex.PRNGKey) -> LearnerState:
    """Fresh parameters, optimiser state and meta-state.

    Args:
      rng_key: split in two, for the network and for the meta-state.

    Returns:
      The state.
    """
    network_rng, meta_rng = jax.random.split(rng_key)
    params, _ = self._init_network(network_rng, batch_size=1)
    meta_state = self.update_rule.init_meta_state(meta_rng, params)
    if self._critic is not None:
      critic_state = self._critic.initial_state(
        jax.random.fold_in(meta_rng, 1), self._dummy_observations(batch_size=1)
      )
      meta_state = {**meta_state, 'critic': critic_state}
    return LearnerState(
      params=params,
      opt_state=self._optimizer.init(params),
      meta_state=meta_state,
    )

  def actor_step(
    self,
    actor_params: types.AgentParams,
    rng: chex.PRNGKey,
    timestep: types.EnvironmentTimestep,
    actor_state: types.HaikuState,
  ) -> tuple[types.ActorTimestep, types.HaikuState]:
    """Chooses actions for one step of a batch of environments.

    Args:
      actor_params: θ.
      rng: consumed whole, by the sampling of the actions.
      timestep: leaves [B, ...].
      actor_state: the network's state before this step.

    Returns:
      The step of experience, and the network's state after it.
    """
    is_last = timestep.step_type == int(dm_env.StepType.LAST)
    agent_outs, next_state = self._network.one_step(
      actor_params, actor_state, timestep.observation, is_last
    )
    logits = agent_outs['logits']
    actor_timestep = types.ActorTimestep(
      observations=timestep.observation,
      actions=distrax.Softmax(logits).sample(seed=rng),
      rewards=timestep.reward,
      discounts=jnp.logical_not(is_last),
      agent_outs=agent_outs,
      states=actor_state,
      logits=logits,
    )
    return actor_timestep, next_state

  def unroll_net(
    self,
    agent_net_params: types.AgentParams,
    agent_net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.HaikuState]:
    """Applies the network along a trajectory.

    Its memory is reset where an episode begins: on the steps that show a new
    episode's first observation, which are those with discount 0.

    Args:
      agent_net_params: θ.
      agent_net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].

    Returns:
      The outputs, leaves [T+1, B, ...], and the state after the last step.
    """
    return self._network.unroll(
      agent_net_params,
      agent_net_state,
      rollout.observations,
      rollout.discounts == 0,
    )

  def unroll_for_loss(
    self,
    params: types.AgentParams,
    state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.Array]:
    """`unroll_net` for losses that read predictions of taken actions only.

    Where rule and network allow it, no other actions are predicted for, which
    is A times less work.

    Args:
      params: θ.
      state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].

    Returns:
      The outputs, leaves [T+1, B, ...], and the number in them of the action
      taken, [T+1, B]: 0 if they have no other.
    """
    if not self._learns_taken_actions_only:
      outs, _ = self.unroll_net(params, state, rollout)
      return outs, rollout.actions
    unroll_taken = self._network.unroll_taken
    assert unroll_taken is not None
    outs, _ = unroll_taken(
      params,
      state,
      rollout.observations,
      rollout.discounts == 0,
      rollout.actions,
    )
    outs = {
      name: out[:, :, None] if name in self._model_outputs else out
      for name, out in outs.items()
    }
    return outs, jnp.zeros_like(rollout.actions)

  def learner_step(
    self,
    rng: chex.PRNGKey,
    rollout: types.ActorRollout,
    learner_state: LearnerState,
    agent_net_state: types.HaikuState,
    update_rule_params: types.MetaParams,
    is_meta_training: bool,
  ) -> tuple[LearnerState, types.HaikuState, types.LogDict]:
    """One update of θ on one batch of trajectories.

    Args:
      rng: for rules that need randomness.
      rollout: leaves [T+1, B, ...]; of `agent_outs` (those of the policy that
        acted) the known rules read only the logits.
      learner_state: the state before.
      agent_net_state: the network's state before the rollout's first step.
      update_rule_params: η.
      is_meta_training: whether the step is differentiated in η; then the log
        also carries the rule's targets, as `meta_out`.

    Returns:
      The state after, the network's state after the rollout, and a log of
      scalars.
    """
    checks.check_actor_rollout(rollout)
    params, meta_state = learner_state.params, dict(learner_state.meta_state)
    outputs = self._unroll_for_learning(params, agent_net_state, rollout)
    agent_out = outputs.agent_out

    value_out = None
    critic_state: types.MetaState = {}
    critic_log: types.LogDict = {}
    if self._critic is not None:
      critic_state['critic'], value_out, critic_log = self._critic.update(
        meta_state.pop('critic'), rollout, agent_out['logits']
      )

    inputs = base.inputs_from_rollout(rollout, agent_out, value_out)
    meta_out, new_meta_state = self.update_rule.unroll_meta_net(
      update_rule_params,
      params,
      agent_net_state,
      meta_state,
      inputs,
      self._hyper_params,
      base.with_first_reset(self._network.unroll, rollout),
      rng,
      self._batch_axis_name,
    )

    mask_weights = base.step_weights(rollout.discounts, self._batch_axis_name)
    # The targets are constants of this gradient.
    if is_meta_training and self._mixed_mode:
      grads, (total_loss, log) = mixed_mode.gradient(self._loss_of_params)(
        params,
        # A critic's estimates depend on θ through the policy.
        (meta_out, value_out),
        (
          inputs.replace(agent_out={}, value_out=None),
          agent_net_state,
          rollout,
          mask_weights,
        ),
      )
    else:
      # It is taken in the agent's outputs, then pulled back to θ through the
      # unroll made above.
      (total_loss, log), out_grads = jax.value_and_grad(
        lambda outs: self._loss(
          inputs.replace(agent_out=outs, actions=outputs.learned_actions),
          meta_out,
          mask_weights,
          backprop=is_meta_training,
        ),
        has_aux=True,
      )(outputs.learned_out)
      (grads,) = outputs.pullback(out_grads)
    log['total_loss'] = total_loss
    if self.update_rule.logs_of_all_actions:
      _, full_log = self._loss(inputs, meta_out, mask_weights, backprop=False)
      log |= {k: full_log[k] for k in self.update_rule.logs_of_all_actions}
    log.update(jax.tree.map(jnp.mean, critic_log))
    if self._batch_axis_name is not None:
      grads, log = jax.lax.pmean((grads, log), self._batch_axis_name)
    updates, opt_state = self._optimizer.update(
      grads, learner_state.opt_state, params
    )
    log['global_gradient_norm'] = compat.tree_norm(grads)
    log['global_update_norm'] = compat.tree_norm(updates)
    if is_meta_training:
      log['meta_out'] = meta_out
    new_learner_state = LearnerState(
      params=optax.apply_updates(params, updates),
      opt_state=opt_state,
      meta_state={**new_meta_state, **critic_state},
    )
    return new_learner_state, outputs.net_state, log

  def _loss(
    self,
    inputs: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    mask_weights: types.Array,
    backprop: bool,
  ) -> tuple[jax.Array, types.LogDict]:
    """The loss of all steps, weighted by `mask_weights` [T, B]."""
    loss, log = self.update_rule.agent_loss(
      inputs, meta_out, self._hyper_params, backprop=backprop
    )
    loss_no_meta, log_no_meta = self.update_rule.agent_loss_no_meta(
      inputs, meta_out, self._hyper_params
    )
    total_loss = jnp.sum((loss + loss_no_meta) * mask_weights)
    return total_loss, {**log, **log_no_meta}

  def _loss_of_params(
    self,
    params: types.AgentParams,
    targets: tuple[types.UpdateRuleOuts, types.ValueOuts | None],
    data: Any,
  ) -> tuple[jax.Array, types.LogDict]:
    """The loss as a function of θ and the targets, for `mixed_mode`."""
    meta_out, value_out = targets
    inputs, net_state, rollout, mask_weights = data
    outs, actions = self.unroll_for_loss(params, net_state, rollout)
    inputs = inputs.replace(
      agent_out=outs, actions=actions, value_out=value_out
    )
    return self._loss(inputs, meta_out, mask_weights, backprop=True)

  def _unroll_for_learning(
    self,
    params: types.AgentParams,
    net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> _LearningOutputs:
    """Unrolls the network, and prepares the way back to θ.

    Where rule and network allow it, gradients pass only through the predictions
    of the actions that were taken, and not A times as many.
    """
    unroll = lambda p: self.unroll_net(p, net_state, rollout)
    if not self._learns_taken_actions_only:
      agent_out, pullback, net_state = jax.vjp(unroll, params, has_aux=True)
      return _LearningOutputs(
        agent_out, net_state, agent_out, rollout.actions, pullback
      )
    agent_out, new_net_state = unroll(params)
    learned_out, pullback, actions = jax.vjp(
      lambda p: self.unroll_for_loss(p, net_state, rollout),
      params,
      has_aux=True,
    )
    return _LearningOutputs(
      agent_out, new_net_state, learned_out, actions, pullback
    )

  def _build_critic(
    self, agent_settings: config_dict.ConfigDict
  ) -> value_fn.ValueFunction | None:
    if not self.update_rule.needs_value_out:
      return None
    if 'value_fn' not in agent_settings:
      raise ValueError(
        f'the rule {agent_settings.update_rule_name!r} needs a critic: the '
        'agent settings have no value_fn (see types.ValueFnConfig)'
      )
    config = types.ValueFnConfig(**agent_settings.value_fn)
    return value_fn.ValueFunction(config, self._batch_axis_name)

  def _check_network(self) -> None:
    """Traces the network: it must build, and predict what the rule needs."""

    def one_step() -> types.AgentOuts:
      params, state = self._init_network(jax.random.PRNGKey(0), 1)
      outs, _ = self._network.one_step(
        params, state, self._dummy_observations(1), jnp.zeros(1, bool)
      )
      return outs

    outs = jax.eval_shape(one_step)
    spec = self.update_rule.agent_output_spec(self.single_action_spec)
    wanted = {name: (1, *s.shape) for name, s in spec.items()}
    given = {name: out.shape for name, out in outs.items()}
    if given != wanted:
      raise ValueError(
        f'the network predicts {given} for a batch of one, but the rule needs '
        f'{wanted}'
      )

  def _dummy_observations(self, batch_size: int) -> Any:
    return utils.zeros_like_spec(self.single_observation_spec, (batch_size,))

  def _init_network(
    self, rng: chex.PRNGKey, batch_size: int
  ) -> tuple[types.AgentParams, types.HaikuState]:
    if batch_size < 1:
      raise ValueError(f'batch_size must be at least 1, got {batch_size}')
    return self._network.init(
      rng, self._dummy_observations(batch_size), jnp.zeros(batch_size, bool)
    )
