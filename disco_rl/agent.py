"""An agent: a network trained by an update rule."""

import copy
from typing import Any

import chex
import distrax
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import optax

from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.config import agents
from disco_rl.config import arguments
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.learning import checks
from disco_rl.learning import learner_step as learner_lib
from disco_rl.networks import action_masks
from disco_rl.networks import checks as network_checks
from disco_rl.networks import nets
from disco_rl.networks import torsos
from disco_rl.update_rules import base as base_rule
from disco_rl.update_rules import registry
from disco_rl.value_fns import value_fn

# Names of the published library, which are used together with `Agent`.
LearnerState = learner_lib.LearnerState
get_settings_disco = agents.get_settings_disco
get_settings_actor_critic = agents.get_settings_actor_critic
get_settings_policy_gradient = agents.get_settings_policy_gradient


class Agent:
  """A network trained by an update rule.

  All methods are pure functions of their arguments.

  Attributes:
    settings: the agent settings.
    single_observation_spec: tree of specs of one stream's observation.
    single_action_spec: spec of one stream's action.
    update_rule: the rule, see `update_rules.base.UpdateRule`.
    critic: the critic (`value_fns.value_fn.ValueFunction`), or None.
    learner: the `LearnerStep` that the method `learner_step` calls.
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
      agent_settings: see `get_settings_disco`. With a group `value_fn`, the
        agent has a critic.
      batch_axis_name: axis (or axes) over which the batch is sharded and
        gradients and statistics are averaged, or None.
      optimizer: the optimiser of θ, instead of the one in the settings, with
        its learning rate and clip; other settings of the group `optimizer`
        must then be the defaults. Meta-training differentiates through it;
        `optax.adam`, for example, then needs an `eps_root` above 0.
    """
    agents.check_agent_settings(agent_settings)
    arguments.check_optimizer('optimizer', optimizer)
    # Settings always have a learning rate and a clip, but seldom the rest.
    usual = optimizers.get_settings()
    more = dict(agent_settings.get('optimizer', None) or {})
    arguments.check_replaced(
      'optimizer',
      optimizer,
      {f'optimizer.{k}': v for k, v in more.items() if v != usual.get(k)},
    )
    self.settings = agent_settings
    self.single_observation_spec = single_observation_spec
    self.single_action_spec = single_action_spec
    utils.get_num_actions_from_spec(single_action_spec)
    rule_name = agent_settings.update_rule_name
    with foreign.boundary(f'cannot make the rule {rule_name}', ValueError):
      self.update_rule = registry.get_update_rule(
        rule_name, **agent_settings.update_rule
      )
    network_name = agent_settings.net_settings.name
    with foreign.boundary(
      f'cannot make the network {network_name}', ValueError
    ):
      self._network = nets.get_network(
        network_name,
        out_spec=self.update_rule.flat_output_spec(single_action_spec),
        action_spec=single_action_spec,
        model_out_spec=self.update_rule.model_output_spec(single_action_spec),
        **agent_settings.net_settings.net_args,
      )
    self.critic = None
    if agent_settings.get('value_fn') is not None:
      config = types.ValueFnConfig(**agent_settings.value_fn)
      self.critic = value_fn.ValueFunction(config, batch_axis_name)
    with self.boundary('making the agent'):
      self.learner = learner_lib.LearnerStep(
        self.update_rule,
        self._network,
        optimizer or optimizers.agent_optimizer(agent_settings),
        dict(agent_settings.hyper_params),
        critic=self.critic,
        axis_name=batch_axis_name,
      )
      self._check_network()

  @classmethod
  def for_environment(
    cls,
    env: base.Environment,
    agent_settings: config_dict.ConfigDict,
    batch_axis_name: Any | None = None,
    optimizer: optax.GradientTransformation | None = None,
  ) -> 'Agent':
    """Builds an agent for an environment; arguments as in the constructor."""
    return cls(
      single_observation_spec=env.single_observation_spec(),
      single_action_spec=env.single_action_spec(),
      agent_settings=agent_settings,
      batch_axis_name=batch_axis_name,
      optimizer=optimizer,
    )

  def boundary(self, doing: str) -> foreign.boundary:
    """Makes a boundary for code of the rule and of the network.

    Args:
      doing: the call that may fail, e.g. `'a learner step'`.

    Returns:
      A context that converts their errors, see `foreign.boundary`.
    """
    settings = self.settings
    return foreign.boundary(
      f'the rule {settings.update_rule_name} or the network '
      f'{settings.net_settings.name} failed in {doing}',
      (KeyError, ValueError),
    )

  def in_mixed_mode(self) -> 'Agent':
    """Returns a copy that is differentiated in mixed mode when η is trained.

    See `LearnerStep.in_mixed_mode`.
    """
    other = copy.copy(self)
    other.learner = self.learner.in_mixed_mode()
    return other

  def with_rule(self, update_rule: base_rule.UpdateRule) -> 'Agent':
    """Returns a copy that learns by another rule with the same outputs.

    Args:
      update_rule: the rule; its hyper-parameters are those of the settings.
    """
    other = copy.copy(self)
    other.update_rule = update_rule
    other.learner = self.learner.with_rule(update_rule, self._network)
    return other

  def initial_actor_state(
    self, rng: chex.PRNGKey, batch_size: int = 1
  ) -> types.HaikuState:
    """Makes the network state before the first step.

    Args:
      rng: key.
      batch_size: B, at least 1; only networks with memory depend on it.

    Returns:
      The state, empty for a network without memory.
    """
    # Compiled, so that XLA removes the parameters, which are not used.
    return jax.jit(lambda rng: self._init_network(rng, batch_size)[1])(rng)

  def initial_learner_state(self, rng_key: chex.PRNGKey) -> LearnerState:
    """Makes fresh parameters, optimiser state and meta-state.

    Args:
      rng_key: split in two, for the network and for the rest.

    Returns:
      The state.
    """
    network_rng, rest_rng = jax.random.split(rng_key)
    params, _ = self._init_network(network_rng, batch_size=1)
    return self.learner.init(
      rest_rng, params, self._dummy_observations(batch_size=1)
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
      rng: key to sample the actions with; it is not split.
      timestep: leaves [B, ...]. With an `action_mask`, the logits of illegal
        actions are replaced (see `networks.action_masks`), so that they are
        never chosen.
      actor_state: the network's state before this step.

    Returns:
      The step of experience, and the network's state after it.
    """
    is_last = timestep.is_last
    agent_outs, next_state = self._network.one_step(
      actor_params, actor_state, timestep.observation, is_last
    )
    agent_outs = action_masks.mask_outputs(agent_outs, timestep.action_mask)
    logits = agent_outs['logits']
    actor_timestep = types.ActorTimestep(
      observations=timestep.observation,
      actions=distrax.Softmax(logits).sample(seed=rng),
      rewards=timestep.reward,
      discounts=jnp.logical_not(is_last),
      agent_outs=agent_outs,
      states=actor_state,
      logits=logits,
      action_mask=timestep.action_mask,
    )
    return actor_timestep, next_state

  def unroll_net(
    self,
    agent_net_params: types.AgentParams,
    agent_net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> tuple[types.AgentOuts, types.HaikuState]:
    """Applies the network along a trajectory.

    The network's memory is reset at steps with discount 0, which show the first
    observation of a new episode.

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
      rollout.is_last,
    )

  def embed(
    self,
    agent_net_params: types.AgentParams,
    agent_net_state: types.HaikuState,
    rollout: types.ActorRollout,
  ) -> types.Array | None:
    """Computes the network's embedding of a trajectory, that of its torso.

    Args:
      agent_net_params: θ.
      agent_net_state: the network's state before the first step.
      rollout: leaves [T+1, B, ...].

    Returns:
      [T+1, B, D], which the outputs are computed from; None for a network
      without stages.
    """
    if self._network.embed is None:
      return None
    embedding, _ = self._network.embed(
      agent_net_params,
      agent_net_state,
      rollout.observations,
      rollout.is_last,
    )
    return embedding

  def learner_step(
    self,
    rng: chex.PRNGKey,
    rollout: types.ActorRollout,
    learner_state: LearnerState,
    agent_net_state: types.HaikuState,
    update_rule_params: types.MetaParams,
    is_meta_training: bool,
  ) -> tuple[LearnerState, types.HaikuState, types.LogDict]:
    """Updates θ once, on one batch of trajectories.

    Args:
      rng: for rules that need randomness.
      rollout: leaves [T+1, B, ...]. `agent_outs` are those of the policy that
        acted; the built-in rules use only their logits.
      learner_state: the state before.
      agent_net_state: the network's state before the rollout's first step.
      update_rule_params: η.
      is_meta_training: whether the step is differentiated with respect to η.
        The log then also contains the rule's targets, as `meta_out`.

    Returns:
      The state after, the network's state after the rollout, and a log of
      scalars.
    """
    checks.check_actor_rollout(rollout)
    first_state = jax.tree.map(lambda x: x[None], agent_net_state)
    learner_state, out = self.learner.update(
      update_rule_params,
      learner_state,
      rollout.replace(states=first_state),
      rng,
      backprop=is_meta_training,
      whole_outputs=is_meta_training,
    )
    log = dict(out.log)
    if is_meta_training:
      log['meta_out'] = out.meta_out
    return learner_state, out.net_state, log

  def _check_network(self) -> None:
    """Traces the network, and checks its outputs against the rule's specs."""
    spec = self.update_rule.agent_output_spec(self.single_action_spec)
    network_name = self.settings.net_settings.name

    def apply(name: str, dims: tuple[int, ...]) -> None:
      made = self._init_network(jax.random.PRNGKey(0), 1)
      if not isinstance(made, tuple | list) or len(made) != 2:
        raise ValueError(
          'init of the network must return parameters and a state, but '
          f'returned an object of the type {type(made).__name__}'
        )
      observations = utils.zeros_like_spec(self.single_observation_spec, dims)
      result = getattr(self._network, name)(
        *made, observations, jnp.zeros(dims, bool)
      )
      network_checks.check_result(result, name)
      network_checks.check_outputs(result[0], spec, dims, name)
      unknown = sorted(set(result[0]) - set(spec))
      if unknown:  # They would be stored with all experience.
        raise ValueError(
          f'{name} of the network predicts {unknown[0]!r:.60}, which the rule '
          f'does not use; it needs {", ".join(spec)}'
        )
      network_checks.check_state(made[1], result[1], name)

    with foreign.boundary(f'the network {network_name} failed', ValueError):
      jax.eval_shape(lambda: apply('one_step', (1,)))
      if network_name not in torsos.BUILT_IN:
        jax.eval_shape(lambda: apply('unroll', (2, 1)))

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
