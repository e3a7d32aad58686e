"""Computes the meta-gradient of one agent: acts, learns and differentiates.

All functions are pure, to be mapped over many agents. Acting and
differentiating are two methods, which `meta_gradient` combines. In environments
on the host, `host_group.py` acts instead.
"""

import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import agent as agent_lib
from disco_rl import compat
from disco_rl import optimizers
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import base
from disco_rl.learning import actors
from disco_rl.learning import episodes as episodes_lib
from disco_rl.learning import faults
from disco_rl.learning import replay
from disco_rl.meta_training import lifetimes
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import trajectories

# Folded into a key to sample from the replay. Large, since folding in small
# numbers gives the keys that splitting gives, too.
_REPLAY = 2**31

# Entries of a meta-gradient's log that are sums over episodes, not averages.
EPISODE_LOG = ('num_episodes', 'total_return')
TASK_LOG = base.TaskFacts._fields
# Entries that cannot be averaged over agents.
NOT_AVERAGED = (*EPISODE_LOG, *TASK_LOG, faults.METRIC)


class AgentState(NamedTuple):
  """The state of an agent, carried from one meta-update to the next."""

  learner: agent_lib.LearnerState  # With a critic.
  actor: Any  # An `actors.ActorState`; in a program, None for one on the host.
  buffer: replay.ReplayState | None  # None without replay.
  episodes: episodes_lib.RunningEpisodes


class MetaGradient(NamedTuple):
  """One agent's contribution to a meta-update."""

  grads: types.MetaParams  # Like η.
  state: AgentState  # After the inner updates.
  log: types.LogDict  # Scalars.
  inner_log: types.LogDict  # Logs of the inner updates, leaves [N].


class MetaAgent:
  """An agent in meta-training, and its actor."""

  def __init__(
    self,
    agent: agent_lib.Agent,
    actor: actors.Actor,
    config: config_lib.Config,
    batch_axis_name: Any | None = None,
    regularizer: meta_loss.Regularizer | None = None,
  ):
    """Initialises the agent.

    Args:
      agent: the agent, with a critic.
      actor: its actor, in JAX in `config.batching.num_envs` environments.
      config: the sizes; with a batch axis, those of one shard.
      batch_axis_name: axis over which batches are sharded, or None; the same as
        that of the agent.
      regularizer: a further term of the meta-loss, see `trainer.Trainer`.

    Raises:
      ValueError: if the agent has no critic.
    """
    if agent.critic is None:
      raise ValueError(
        'agents in meta-training need a critic: a group value_fn in their '
        'settings (see types.ValueFnConfig)'
      )
    self._agent = agent
    self._critic = agent.critic
    self._actor = actor
    self._config = config
    self._batching = config.batching
    self._axis_name = batch_axis_name
    self._regularizer = regularizer

  def init(
    self, rng: chex.PRNGKey, actor_state: actors.ActorState | None = None
  ) -> AgentState:
    """Makes the initial state of an agent.

    Args:
      rng: key of the environment's reset; also split in three, for the learner,
        the actor's network and the critic.
      actor_state: the state of an actor on the host, without that of its
        environment, see `trajectories.actor_keys`; None to reset it here.

    Returns:
      Its state; with `actor` None if that is on the host.
    """
    learner_rng, actor_rng, critic_rng = jax.random.split(rng, 3)
    if actor_state is None:
      actor_state = self._actor.init(
        rng, actor_rng, parallel.shard_key(rng, self._axis_name)
      )
    with self._agent.boundary('its first state'):
      learner = self._agent.initial_learner_state(learner_rng)
    learner = learner.replace(
      critic=self._critic.initial_state(
        critic_rng, actor_state.timestep.observation
      )
    )
    if bounds := self._config.agent_learning_rates:
      rate = lifetimes.sample_learning_rate(rng, bounds)
      factor = rate / self._agent.settings.learning_rate
      opt_state = learner.opt_state._replace(factor=factor)
      learner = learner.replace(opt_state=opt_state)
    spec = self._actor.rollout_spec(
      learner.params, actor_state, self._batching.rollout_length
    )
    return AgentState(
      learner=learner,
      actor=actor_state if self._actor.is_pure else None,
      buffer=replay.init_for(spec, self._batching),
      episodes=episodes_lib.init(self._batching.num_envs),
    )

  def meta_gradient(
    self,
    update_rule_params: types.MetaParams,
    state: AgentState,
    act_rng: chex.PRNGKey,
    update_rng: chex.PRNGKey,
    steps: types.ActorRollout | None = None,
  ) -> MetaGradient:
    """Acts, learns N times, and differentiates the meta-loss in η.

    Args:
      update_rule_params: η.
      state: the state before.
      act_rng: split per inner update; the validation trajectory uses the key
        itself.
      update_rng: split in (train, validation), the former per inner update.
      steps: what was acted on the host, see `receive`; None to act here.

    Returns:
      The meta-gradient, and the state after.
    """
    if steps is None:
      acted = self.act(state, act_rng)
    else:
      acted = self.receive(state, steps, act_rng)
    state, train_rollouts, valid_rollout, acted_log = acted
    result = self.differentiate(
      update_rule_params, state, train_rollouts, valid_rollout, update_rng
    )
    return result._replace(log={**result.log, **acted_log})

  def act(
    self, state: AgentState, rng: chex.PRNGKey
  ) -> tuple[AgentState, types.ActorRollout, types.ActorRollout, types.LogDict]:
    """Acts for all rollouts of one meta-update, before any update of θ.

    Args:
      state: the state before.
      rng: the `act_rng` of `meta_gradient`.

    Returns:
      The state after; N batches to learn from, leaves [N, L, B, ...] with L
      steps; the validation trajectory, leaves [2L, B', ...] with B'
      environments; and a log of rewards, episodes and whether the environment
      returned numbers that cannot be learned from (`faults.METRIC`).
    """
    assert isinstance(self._actor, actors.DeviceActor)
    # One loop for all trajectories, since a second one takes time to compile.
    actor_state, steps, fault = self._actor.unroll_and_check(
      state.learner.params,
      state.actor,
      trajectories.step_keys(rng, self._config, self._axis_name),
      self._axis_name,
    )
    state, batches, valid_rollout, log = self.receive(
      state._replace(actor=actor_state), steps, rng
    )
    return state, batches, valid_rollout, {**log, faults.METRIC: fault}

  def receive(
    self, state: AgentState, steps: types.ActorRollout, rng: chex.PRNGKey
  ) -> tuple[AgentState, types.ActorRollout, types.ActorRollout, types.LogDict]:
    """Stores what was acted for one meta-update, and makes its batches.

    Args:
      state: the state before.
      steps: the steps of all trajectories, leaves [N·L + 2L, B', ...]; from an
        actor on the host, `states` has those at `trajectories.starts` only,
        leaves [N + 1, B', ...].
      rng: the `act_rng` of `meta_gradient`.

    Returns:
      The same as `act`, without the check of the environment.
    """
    num_updates, length = (
      self._config.num_inner_updates,
      self._batching.rollout_length,
    )
    num_train = num_updates * length
    first_states = None
    if not self._actor.is_pure:
      first_states, steps = steps.states, steps.replace(states=None)
    episodes, finished = episodes_lib.update(
      state.episodes, steps.rewards, steps.discounts
    )
    finished = parallel.total(finished, self._axis_name)
    fresh = jax.tree.map(
      lambda x: x[:num_train].reshape(num_updates, length, *x.shape[1:]), steps
    )
    valid_rollout = jax.tree.map(lambda x: x[num_train:], steps)
    if first_states is not None:
      before = lambda rows: jax.tree.map(rows, first_states)
      fresh = fresh.replace(states=before(lambda x: x[:-1, None]))
      valid_rollout = valid_rollout.replace(states=before(lambda x: x[-1:]))
    log = {
      **self._count_rewards(fresh.rewards),
      **{name: getattr(finished, name) for name in EPISODE_LOG},
      **self._actor.task_facts(state.actor)._asdict(),
    }
    fresh = jax.vmap(replay.to_stored)(fresh)
    buffer, batches = self._next_batches(
      state.buffer, fresh, jax.random.fold_in(rng, _REPLAY)
    )
    valid_rollout = replay.from_stored(replay.to_stored(valid_rollout))
    state = state._replace(buffer=buffer, episodes=episodes)
    return state, batches, valid_rollout, log

  def differentiate(
    self,
    update_rule_params: types.MetaParams,
    state: AgentState,
    train_rollouts: types.ActorRollout,
    valid_rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> MetaGradient:
    """Differentiates the meta-loss after N inner updates in η.

    Args:
      update_rule_params: η.
      state: the state before the inner updates.
      train_rollouts: leaves [N, L, B, ...].
      valid_rollout: leaves [2L, B', ...].
      rng: the `update_rng` of `meta_gradient`.

    Returns:
      The meta-gradient, and the state after.
    """
    with self._agent.boundary('a meta-update'):
      grads, (state, log, inner_log) = jax.grad(self._meta_loss, has_aux=True)(
        update_rule_params, state, train_rollouts, valid_rollout, rng
      )
    grads, log = parallel.mean((grads, log), self._axis_name)
    return MetaGradient(grads, state, log, inner_log)

  def _meta_loss(
    self,
    eta: types.MetaParams,
    state: AgentState,
    train_rollouts: types.ActorRollout,
    valid_rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[jax.Array, Any]:
    train_rng, _ = jax.random.split(rng)
    num_updates = train_rollouts.rewards.shape[0]
    inputs = (train_rollouts, jax.random.split(train_rng, num_updates))
    learner = state.learner
    parts = []
    for first, last, rematerialize in self._config.rematerialization_plan(
      num_updates
    ):
      step = self._inner_step(eta, rematerialize)
      own = jax.tree.map(lambda x: x[first:last], inputs)  # noqa: B023
      if last - first == 1:
        learner, out = step(learner, jax.tree.map(lambda x: x[0], own))
        out = jax.tree.map(lambda x: x[None], out)
      else:
        learner, out = jax.lax.scan(step, learner, own)
      parts.append(out)
    terms, inner_log = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
    agent_out, valid_actions = self._agent.learner.unroll_for_loss(
      learner.params, valid_rollout.first_state(time_axis=0), valid_rollout
    )
    assert learner.critic is not None
    value_outs, *_ = self._critic.get_value_outs(
      learner.critic, valid_rollout, jax.lax.stop_gradient(agent_out['logits'])
    )
    terms = {
      **jax.tree.map(jnp.mean, terms),  # Over the inner updates.
      **self._agent.update_rule.validation_terms(
        agent_out,
        valid_rollout.actions,
        valid_actions,
        value_outs.normalized_adv,
      ),
    }
    weighted = meta_loss.weigh(terms, self._config.weights)
    loss = sum(weighted.values())
    pg_loss = weighted.get('policy_gradient', jnp.zeros([]))
    log = dict(
      **terms,
      meta_loss=loss,
      pg_loss=pg_loss,
      reg_loss=loss - pg_loss,
      adv=jnp.mean(value_outs.adv),
      normalized_adv=jnp.mean(value_outs.normalized_adv),
      value=jnp.mean(value_outs.value),
      val_importance_weight=jnp.mean(jnp.minimum(value_outs.rho, 1.0)),
    )
    return loss, (state._replace(learner=learner), log, inner_log)

  def _inner_step(self, eta: types.MetaParams, rematerialize: bool) -> Any:
    """Makes the body of a scan from `_inner_update`."""
    agent = self._agent
    if self._config.uses_mixed_mode(rematerialize):
      agent = agent.in_mixed_mode()
    update: Any = functools.partial(self._inner_update, agent)
    if rematerialize:
      # With the optimiser's slope saved, the inner gradient need not be
      # recomputed (in mixed mode). Inside a scan, CSE cannot undo the
      # rematerialisation.
      update = jax.checkpoint(
        update,
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(optimizers.SLOPE),
      )

    def step(learner: agent_lib.LearnerState, inputs: Any) -> Any:
      return update(eta, learner, *inputs)

    return step

  def _inner_update(
    self,
    agent: agent_lib.Agent,
    eta: types.MetaParams,
    learner: agent_lib.LearnerState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[agent_lib.LearnerState, Any]:
    """Updates agent and critic once, and computes the terms of the targets."""
    learner, out = agent.learner.update(
      eta,
      learner,
      rollout,
      rng,
      whole_outputs=self._regularizer is not None,
    )
    assert out.meta_out is not None and out.agent_out is not None
    terms = agent.update_rule.target_terms(out.meta_out, self._axis_name)
    if self._regularizer is not None:
      own_term = self._regularizer(eta, out.meta_out, out.agent_out)
      terms = {**terms, meta_loss.REGULARIZER: own_term}
    return learner, (terms, out.log)

  def _next_batches(
    self,
    buffer: replay.ReplayState | None,
    fresh: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[replay.ReplayState | None, types.ActorRollout]:
    """Stores N fresh rollouts, and makes a batch for every inner update."""
    if buffer is not None:
      store: Any = lambda buffer, rollout: (replay.add(buffer, rollout), None)
      buffer, _ = jax.lax.scan(store, buffer, fresh)
    keys = jax.random.split(rng, self._config.num_inner_updates)
    batches = jax.vmap(
      lambda own, key: replay.next_batch(
        buffer, own, parallel.shard_key(key, self._axis_name), self._batching
      )
    )(fresh, keys)
    return buffer, batches

  def _count_rewards(self, rewards: types.Array) -> types.LogDict:
    """Averages and counts the rewards of the new rollouts, [N, L, B']."""
    log = dict(
      rewards=jnp.mean(rewards),
      pos_rewards=jnp.sum(rewards > 0).astype(jnp.float32),
      neg_rewards=jnp.sum(rewards < 0).astype(jnp.float32),
    )
    if self._axis_name is not None:
      log = jax.lax.psum(log, self._axis_name)
      log['rewards'] /= compat.axis_size(self._axis_name)
    return log
