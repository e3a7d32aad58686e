"""Meta-evaluation: a fresh agent is trained by a rule that stays as it is.

One iteration acts for one rollout, stores it, samples a batch and takes one
learner step. In environments written in JAX a whole chunk of iterations is one
compiled program; only scalars leave the device.

  env = registry.get_environment('catch', config.num_envs)
  experiment = evaluation.Experiment(agent, env, config)
  state = experiment.init(rng)
  state, metrics = experiment.run(eta, state, num_iterations=100)
"""

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import acting
from disco_rl import agent as agent_lib
from disco_rl import episode_returns
from disco_rl import replay
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.wrappers import batched_jittable_env


@dataclasses.dataclass(frozen=True)
class Config:
  """Sizes of an experiment; the defaults are the reference setting on Catch.

  Attributes:
    batch_size: trajectories per learner step.
    rollout_length: steps of a trajectory, T+1.
    replay_ratio: how often a trajectory is learned from, on average. That many
      times fewer environments than `batch_size` act. With 1 there is no replay:
      each batch is the rollout just made.
    replay_capacity: trajectories kept.
    min_replay_size: trajectories needed before learning begins; None for one
      batch.
  """

  batch_size: int = 64
  rollout_length: int = 29
  replay_ratio: int = 32
  replay_capacity: int = 1024
  min_replay_size: int | None = None

  def __post_init__(self) -> None:
    for name, least in dict(
      batch_size=1, rollout_length=2, replay_ratio=1, replay_capacity=1
    ).items():
      if getattr(self, name) < least:
        raise ValueError(
          f'{name} must be at least {least}, got {getattr(self, name)}'
        )
    if self.batch_size % self.replay_ratio:
      raise ValueError(
        f'batch_size ({self.batch_size}) must be a multiple of replay_ratio '
        f'({self.replay_ratio}): their quotient is the number of environments'
      )
    if self.on_policy:
      return
    if self.replay_capacity % self.num_envs:
      raise ValueError(
        f'replay_capacity ({self.replay_capacity}) must be a multiple of the '
        f'number of environments ({self.num_envs})'
      )
    if not 1 <= self.first_fill <= self.replay_capacity:
      raise ValueError(
        f'min_replay_size ({self.first_fill}) must be between 1 and '
        f'replay_capacity ({self.replay_capacity})'
      )

  @property
  def num_envs(self) -> int:
    """How many environments act."""
    return self.batch_size // self.replay_ratio

  @property
  def on_policy(self) -> bool:
    """Whether there is no replay."""
    return self.replay_ratio == 1

  @property
  def first_fill(self) -> int:
    """Trajectories needed before learning begins."""
    if self.min_replay_size is None:
      return self.batch_size
    return self.min_replay_size


class ExperimentState(NamedTuple):
  """All that an experiment carries from one iteration to the next."""

  iteration: jax.Array  # [], int32, iterations done.
  rng: chex.PRNGKey
  learner: agent_lib.LearnerState
  actor: Any  # An `acting.ActorState`.
  episodes: episode_returns.RunningEpisodes
  buffer: replay.ReplayState | None  # None without replay.


class Experiment:
  """Trains agents; a bundle of pure functions around one agent and one env."""

  def __init__(
    self, agent: agent_lib.Agent, env: base.Environment, config: Config
  ):
    """Bundles them.

    Args:
      agent: who acts and learns.
      env: with `config.num_envs` streams.
      config: the sizes.
    """
    if env.batch_size != config.num_envs:
      raise ValueError(
        f'the environment has {env.batch_size} streams, but batch_size / '
        f'replay_ratio is {config.num_envs}'
      )
    self._agent = agent
    self._env = env
    self._config = config
    self.is_jittable = isinstance(
      env, batched_jittable_env.BatchedJittableEnvironment
    )
    self._host_unroll = acting.HostUnroll(agent, env, config.rollout_length)
    # η is not donated: it outlives the state.
    self._chunk = jax.jit(self.run_traced, static_argnums=2, donate_argnums=1)
    self._learn = jax.jit(self._store_and_learn, donate_argnums=1)

  def init(self, rng: chex.PRNGKey) -> ExperimentState:
    """A fresh agent before its first iteration.

    Args:
      rng: split in three: learner, actor, and all that comes later.

    Returns:
      The state.
    """
    learner_rng, actor_rng, rng = jax.random.split(rng, 3)
    learner = self._agent.initial_learner_state(learner_rng)
    actor = acting.initial_actor_state(self._agent, self._env, actor_rng)
    buffer = None
    if not self._config.on_policy:
      rollout = jax.eval_shape(self._unroll_spec, learner.params, actor)
      buffer = replay.init(rollout, self._config.replay_capacity)
    return ExperimentState(
      iteration=jnp.zeros([], jnp.int32),
      rng=rng,
      learner=learner,
      actor=actor,
      episodes=episode_returns.init(self._env.batch_size),
      buffer=buffer,
    )

  def run(
    self,
    update_rule_params: types.MetaParams,
    state: ExperimentState,
    num_iterations: int,
  ) -> tuple[ExperimentState, dict[str, np.ndarray]]:
    """Runs some iterations; `state` is used up.

    Args:
      update_rule_params: η.
      state: from `init` or the last `run`.
      num_iterations: N; another number compiles another program.

    Returns:
      The state after, and metrics on the host, name to [N].
    """
    if self.is_jittable:
      state, metrics = self._chunk(update_rule_params, state, num_iterations)
      return state, jax.device_get(metrics)
    all_metrics = []
    for _ in range(num_iterations):
      rng, act_rng, learn_rng = jax.random.split(state.rng, 3)
      actor, rollout = self._host_unroll(
        state.learner.params, state.actor, act_rng
      )
      # Acting is on the host; what goes to the device does not include it.
      state, metrics = self._learn(
        update_rule_params,
        state._replace(rng=rng, actor=None),
        rollout,
        learn_rng,
      )
      state = state._replace(actor=actor)
      all_metrics.append(metrics)
    stacked = jax.tree.map(
      lambda *xs: np.stack(xs), *jax.device_get(all_metrics)
    )
    return state, stacked

  def run_traced(
    self,
    update_rule_params: types.MetaParams,
    state: ExperimentState,
    num_iterations: int,
  ) -> tuple[ExperimentState, dict[str, jax.Array]]:
    """`run` as a pure function, for environments in JAX: compile it, vmap it.

    Args:
      update_rule_params: η.
      state: from `init` or the last call.
      num_iterations: N, static.

    Returns:
      The state after, and metrics, name to [N].
    """

    def iteration(
      state: ExperimentState, _: None
    ) -> tuple[ExperimentState, dict[str, jax.Array]]:
      rng, act_rng, learn_rng = jax.random.split(state.rng, 3)
      actor, rollout = acting.unroll_jittable(
        self._agent,
        self._env,
        state.learner.params,
        state.actor,
        act_rng,
        self._config.rollout_length,
      )
      return self._store_and_learn(
        update_rule_params,
        state._replace(rng=rng, actor=actor),
        rollout,
        learn_rng,
      )

    return jax.lax.scan(iteration, state, None, length=num_iterations)

  def _store_and_learn(
    self,
    update_rule_params: types.MetaParams,
    state: ExperimentState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[ExperimentState, dict[str, jax.Array]]:
    """Everything of an iteration but the acting."""
    sample_rng, learn_rng = jax.random.split(rng)
    episodes, finished = episode_returns.update(
      state.episodes, rollout.rewards, rollout.discounts
    )

    def learn(
      learner: agent_lib.LearnerState, batch: types.ActorRollout
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      learner, _, log = self._agent.learner_step(
        learn_rng,
        batch,
        learner,
        batch.first_state(time_axis=0),
        update_rule_params,
        is_meta_training=False,
      )
      return learner, log

    buffer = state.buffer
    if buffer is None:
      learner, log = learn(state.learner, rollout)
    else:
      buffer = replay.add(buffer, rollout)
      learner, log = self._learn_from_replay(
        learn, state.learner, buffer, sample_rng
      )

    new_state = state._replace(
      iteration=state.iteration + 1,
      learner=learner,
      episodes=episodes,
      buffer=buffer,
    )
    return new_state, {**log, **finished._asdict()}

  def _learn_from_replay(
    self,
    learn: Any,
    learner: agent_lib.LearnerState,
    buffer: replay.ReplayState,
    rng: chex.PRNGKey,
  ) -> tuple[agent_lib.LearnerState, types.LogDict]:
    """Learns from a sampled batch, once there is enough to sample from."""

    def learn_from_sample(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      return learn(learner, replay.sample(buffer, rng, self._config.batch_size))

    def wait(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      _, log = jax.eval_shape(learn_from_sample, learner)
      # Nothing was learned: its log is not a number.
      return learner, jax.tree.map(
        lambda x: jnp.full(x.shape, jnp.nan, x.dtype), log
      )

    is_ready = replay.size(buffer) >= self._config.first_fill
    return jax.lax.cond(is_ready, learn_from_sample, wait, learner)

  def _unroll_spec(
    self, params: types.AgentParams, actor: acting.ActorState
  ) -> types.ActorRollout:
    """A rollout, for its shapes, whatever the environment."""
    step, _ = acting.step_agent(
      self._agent,
      params,
      jax.random.PRNGKey(0),
      actor.timestep,
      actor.net_state,
    )
    stacked = utils.tree_stack([step] * self._config.rollout_length)
    return types.ActorRollout.from_timestep(stacked)
