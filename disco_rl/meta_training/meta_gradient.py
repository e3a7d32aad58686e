"""One agent in meta-training: it acts, learns, and says how η could be better.

All is pure functions of explicit states, to be mapped over many agents.
"""

import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl.learning import actors as acting
from disco_rl import agent as agent_lib
from disco_rl import compat
from disco_rl.learning import episodes as episode_returns
from disco_rl import optimizers
from disco_rl.learning import replay
from disco_rl import types
from disco_rl.environments import base
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import meta_loss
from disco_rl.value_fns import value_fn

# Folded into a key for the draws of the replay. Large, since small numbers give
# the keys that splitting gives too.
_REPLAY = 2**31


# What a meta-gradient's log says of episodes: sums, not averages.
EPISODE_LOG = ('num_episodes', 'total_return')


class AgentState(NamedTuple):
  """What an agent carries from one meta-update to the next."""

  learner: agent_lib.LearnerState
  critic: types.ValueState
  actor: acting.ActorState
  buffer: replay.ReplayState | None  # None without replay.
  episodes: episode_returns.RunningEpisodes | None = None


class MetaGradient(NamedTuple):
  """What one agent has to say about η."""

  grads: types.MetaParams  # Like η.
  state: AgentState  # After the inner updates.
  log: types.LogDict  # Scalars.
  inner_log: types.LogDict  # Of the inner updates, leaves [N].


class MetaAgent:
  """An agent, its critic and its environment."""

  def __init__(
    self,
    agent: agent_lib.Agent,
    critic: value_fn.ValueFunction,
    env: base.Environment,
    config: config_lib.Config,
    batch_axis_name: Any | None = None,
    regularizer: meta_loss.Regularizer | None = None,
  ):
    """Bundles them.

    Args:
      agent: who learns.
      critic: who measures it.
      env: in JAX, with `config.num_envs` streams.
      config: sizes, those of one device if there is a batch axis.
      batch_axis_name: over which batches are spread, or None; the same that
        agent and critic were given.
      regularizer: one more term of the meta-loss, see `trainer.Trainer`.
    """
    self._agent = agent
    self._critic = critic
    self._env = env
    self._config = config
    self._axis_name = batch_axis_name
    self._regularizer = regularizer

  def init(self, rng: chex.PRNGKey) -> AgentState:
    """A newborn agent.

    Args:
      rng: resets the environment, and is split in three: learner, actor,
        critic.

    Returns:
      Its state.
    """
    learner_rng, actor_rng, critic_rng = jax.random.split(rng, 3)
    env_state, timestep = self._env.reset(self._own(rng))
    actor = acting.ActorState(
      env_state,
      timestep,
      self._agent.initial_actor_state(actor_rng, self._env.batch_size),
    )
    learner = self._agent.initial_learner_state(learner_rng)
    buffer = None
    if self._config.num_replayed:
      step_keys = jax.random.split(rng, self._config.rollout_length)
      _, rollout = jax.eval_shape(
        lambda: acting.unroll_with_keys(
          self._agent, self._env, learner.params, actor, step_keys
        )
      )
      buffer = replay.init(
        jax.eval_shape(replay.keep_first_state, rollout),
        self._config.replay_capacity,
      )
    return AgentState(
      learner=learner,
      critic=self._critic.initial_state(critic_rng, timestep.observation),
      actor=actor,
      buffer=buffer,
      episodes=episode_returns.init(self._env.batch_size),
    )

  def meta_gradient(
    self,
    update_rule_params: types.MetaParams,
    state: AgentState,
    act_rng: chex.PRNGKey,
    update_rng: chex.PRNGKey,
  ) -> MetaGradient:
    """Acts, learns N times, and differentiates what came of it in η.

    Args:
      update_rule_params: η.
      state: before.
      act_rng: split per inner trajectory; the validation trajectory uses the
        key itself.
      update_rng: split in (train, validation), the former per inner update.

    Returns:
      The meta-gradient, and the state after.
    """
    state, train_rollouts, valid_rollout = self.act(state, act_rng)
    result = self.differentiate(
      update_rule_params, state, train_rollouts, valid_rollout, update_rng
    )
    num_fresh = self._config.num_envs
    fresh_rewards = train_rollouts.rewards[:, :, :num_fresh]
    fresh_discounts = train_rollouts.discounts[:, :, :num_fresh]
    # In the order in which they were acted.
    join = lambda train, valid: jnp.concatenate(
      [train.reshape(-1, num_fresh), valid]
    )
    assert state.episodes is not None
    episodes, finished = episode_returns.update(
      state.episodes,
      join(fresh_rewards, valid_rollout.rewards),
      join(fresh_discounts, valid_rollout.discounts),
    )
    if self._axis_name is not None:
      finished = jax.lax.psum(finished, self._axis_name)
    log = {
      **result.log,
      **self._count_rewards(fresh_rewards),
      **{name: getattr(finished, name) for name in EPISODE_LOG},
    }
    return result._replace(
      log=log, state=result.state._replace(episodes=episodes)
    )

  def act(
    self, state: AgentState, rng: chex.PRNGKey
  ) -> tuple[AgentState, types.ActorRollout, types.ActorRollout]:
    """Makes the experience of one meta-update, before any update of θ.

    Args:
      state: before.
      rng: see `meta_gradient`.

    Returns:
      The state after; batches to learn from, leaves [N, L, B, ...]; and the
      validation trajectory, leaves [2L, B', ...] with B' environments.
    """
    config = self._config
    num_updates, length = config.num_inner_updates, config.rollout_length
    train_keys = jax.vmap(lambda key: jax.random.split(self._own(key), length))(
      jax.random.split(rng, num_updates)
    )  # [N, L, ...]
    valid_keys = jax.random.split(self._own(rng), config.validation_length)
    num_train = num_updates * length
    step_keys = jnp.concatenate(
      [train_keys.reshape(num_train, *valid_keys.shape[1:]), valid_keys]
    )
    # One loop for all trajectories: a second one would be compiled again.
    actor, steps = acting.unroll_with_keys(
      self._agent, self._env, state.learner.params, state.actor, step_keys
    )
    train_rollouts = jax.tree.map(
      lambda x: x[:num_train].reshape(num_updates, length, *x.shape[1:]), steps
    )
    valid_rollout = jax.tree.map(lambda x: x[num_train:], steps)
    train_rollouts = jax.vmap(replay.keep_first_state)(train_rollouts)
    valid_rollout = replay.keep_first_state(valid_rollout)
    buffer = state.buffer
    if buffer is not None:
      buffer, train_rollouts = self._mix_with_replay(
        buffer, train_rollouts, jax.random.fold_in(rng, _REPLAY)
      )
    return (
      state._replace(actor=actor, buffer=buffer),
      train_rollouts,
      valid_rollout,
    )

  def differentiate(
    self,
    update_rule_params: types.MetaParams,
    state: AgentState,
    train_rollouts: types.ActorRollout,
    valid_rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> MetaGradient:
    """The gradient in η of the meta-loss after N inner updates.

    Args:
      update_rule_params: η.
      state: before the inner updates.
      train_rollouts: leaves [N, L, B, ...].
      valid_rollout: leaves [2L, B', ...].
      rng: see `meta_gradient`.

    Returns:
      The meta-gradient, and the state after.
    """
    grads, (state, log, inner_log) = jax.grad(self._meta_loss, has_aux=True)(
      update_rule_params, state, train_rollouts, valid_rollout, rng
    )
    if self._axis_name is not None:
      grads, log = jax.lax.pmean((grads, log), self._axis_name)
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
    carry: Any = (state.learner, state.critic)
    parts = []
    for first, last, rematerialize in self._config.segments(num_updates):
      step = self._inner_step(eta, rematerialize)
      own = jax.tree.map(lambda x: x[first:last], inputs)  # noqa: B023
      if last - first == 1:
        carry, out = step(carry, jax.tree.map(lambda x: x[0], own))
        out = jax.tree.map(lambda x: x[None], out)
      else:
        carry, out = jax.lax.scan(step, carry, own)
      parts.append(out)
    terms, inner_log = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
    learner, critic = carry
    agent_out, valid_actions = self._agent.unroll_for_loss(
      learner.params, valid_rollout.first_state(time_axis=0), valid_rollout
    )
    value_outs, *_ = self._critic.get_value_outs(
      critic, valid_rollout, jax.lax.stop_gradient(agent_out['logits'])
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
    state = state._replace(learner=learner, critic=critic)
    return loss, (state, log, inner_log)

  def _inner_step(self, eta: types.MetaParams, rematerialize: bool) -> Any:
    """`_inner_update` as the body of a scan."""
    agent = self._agent
    if self._config.uses_mixed_mode(rematerialize):
      agent = agent.in_mixed_mode()
    update: Any = functools.partial(self._inner_update, agent)
    if rematerialize:
      # With the optimiser's slope saved, the inner gradient need not be made
      # again (in mixed mode). The scan keeps the compiler from undoing it all.
      update = jax.checkpoint(
        update,
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(optimizers.SLOPE),
      )

    def step(carry: Any, inputs: Any) -> tuple[Any, Any]:
      learner, critic = carry
      rollout, step_rng = inputs
      return update(eta, learner, critic, rollout, step_rng)

    return step

  def _inner_update(
    self,
    agent: agent_lib.Agent,
    eta: types.MetaParams,
    learner: agent_lib.LearnerState,
    critic: types.ValueState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[Any, Any]:
    """One update of the agent, and one of the critic on the same trajectory."""
    net_state = rollout.first_state(time_axis=0)
    agent_out, _ = agent.unroll_net(learner.params, net_state, rollout)
    # The meta-loss sees the critic through advantages that are constants.
    new_critic, _, critic_log = self._critic.update(
      critic, rollout, jax.lax.stop_gradient(agent_out['logits'])
    )
    new_learner, _, log = agent.learner_step(
      rng, rollout, learner, net_state, eta, is_meta_training=True
    )
    meta_out = log.pop('meta_out')
    terms = agent.update_rule.target_terms(meta_out, self._axis_name)
    if self._regularizer is not None:
      own_term = self._regularizer(eta, meta_out, agent_out)
      terms = {**terms, meta_loss.REGULARIZER: own_term}
    log['value_loss'] = critic_log['value_loss']
    return (new_learner, new_critic), (terms, log)

  def _count_rewards(self, rewards: types.Array) -> types.LogDict:
    """Of all fresh trajectories to learn from, [N, L, B']."""
    log = dict(
      rewards=jnp.mean(rewards),
      pos_rewards=jnp.sum(rewards > 0).astype(jnp.float32),
      neg_rewards=jnp.sum(rewards < 0).astype(jnp.float32),
    )
    if self._axis_name is not None:
      log = jax.lax.psum(log, self._axis_name)
      log['rewards'] /= compat.axis_size(self._axis_name)
    return log

  def _mix_with_replay(
    self,
    buffer: replay.ReplayState,
    fresh: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[replay.ReplayState, types.ActorRollout]:
    """Stores fresh trajectories, and adds replayed ones to every batch."""

    def store(
      buffer: replay.ReplayState, rollout: types.ActorRollout
    ) -> tuple[replay.ReplayState, None]:
      return replay.add(buffer, rollout), None

    buffer, _ = jax.lax.scan(store, buffer, fresh)
    keys = jax.random.split(rng, self._config.num_inner_updates)
    replayed = jax.vmap(
      lambda key: replay.sample(buffer, key, self._config.num_replayed)
    )(self._own_all(keys))
    batches = jax.tree.map(
      lambda new, old: jnp.concatenate([new, old], axis=2), fresh, replayed
    )
    return buffer, batches

  def _own(self, rng: chex.PRNGKey) -> chex.PRNGKey:
    """A key of this device's own, where there are several."""
    if self._axis_name is None:
      return rng
    return jax.random.fold_in(rng, jax.lax.axis_index(self._axis_name))

  def _own_all(self, keys: chex.PRNGKey) -> chex.PRNGKey:
    return jax.vmap(self._own)(keys)
