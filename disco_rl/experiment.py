"""One agent's training by a rule that stays as it is, as pure functions.

One iteration acts for one rollout, stores it, samples a batch and takes one
learner step. `population.Population` compiles these functions, for many seeds
and many devices; `evaluation.evaluate` is the whole experiment in one call.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import acting
from disco_rl import agent as agent_lib
from disco_rl import checks
from disco_rl import episode_returns
from disco_rl import replay
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base


@dataclasses.dataclass(frozen=True)
class Config:
  """Sizes of an experiment; the defaults are the reference setting on Catch.

  Attributes:
    batch_size: trajectories per learner step.
    rollout_length: steps of a trajectory, T+1.
    replay_ratio: how often a trajectory is learned from, on average. That many
      times fewer environments than `batch_size` act. With 1 there is no replay:
      each batch is the rollout just made.
    replay_fraction: how much of each batch is replayed, instead of
      `replay_ratio`: the rest is the rollout just made, and that many
      environments act. None to replay all of it.
    replay_capacity: trajectories kept.
    min_replay_size: trajectories needed before learning begins; None for one
      batch.
    overlap_acting: whether environments on the host act while the learner
      learns, with parameters that are one update old (but for the first
      iteration of a chunk). Of no consequence to environments on the device.
  """

  batch_size: int = 64
  rollout_length: int = 29
  replay_ratio: int = 32
  replay_fraction: float | None = None
  replay_capacity: int = 1024
  min_replay_size: int | None = None
  overlap_acting: bool = False

  def __post_init__(self) -> None:
    checks.check_at_least(
      self, batch_size=1, rollout_length=2, replay_ratio=1, replay_capacity=1
    )
    if self.replay_fraction is not None:
      replay.split_batch(self.batch_size, self.replay_fraction)
    elif self.batch_size % self.replay_ratio:
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

  def per_device(self, num_devices: int) -> 'Config':
    """The share of one of `num_devices` devices.

    Args:
      num_devices: D; must divide the number of environments.

    Returns:
      Sizes D times smaller.
    """
    if not self.fits_devices(num_devices):
      raise ValueError(
        f'{self.num_envs} environments (for a batch_size of {self.batch_size}, '
        f'of which most is replayed) cannot be spread over {num_devices} '
        'devices: both must be multiples of the number of devices. Use fewer '
        'devices, a larger batch_size or less replay'
      )
    return dataclasses.replace(
      self,
      batch_size=self.batch_size // num_devices,
      replay_capacity=self.replay_capacity // num_devices,
      min_replay_size=-(-self.first_fill // num_devices),
    )

  def fits_devices(self, num_devices: int) -> bool:
    """Whether environments and batch can be spread evenly."""
    sizes = (self.num_envs, self.batch_size)
    return num_devices >= 1 and not any(n % num_devices for n in sizes)

  @property
  def num_envs(self) -> int:
    """How many environments act."""
    return num_environments(
      self.batch_size, self.replay_ratio, self.replay_fraction
    )

  @property
  def num_replayed(self) -> int:
    """How many trajectories of a batch come from the replay."""
    if self.replay_fraction is None:
      return self.batch_size
    return self.batch_size - self.num_envs

  @property
  def env_steps(self) -> int:
    """Steps of all environments in one iteration."""
    return self.num_envs * self.rollout_length

  @property
  def num_warm_up(self) -> int:
    """Iterations before the first that learns."""
    if self.on_policy:
      return 0
    return -(-self.first_fill // self.num_envs) - 1

  @property
  def on_policy(self) -> bool:
    """Whether there is no replay."""
    if self.replay_fraction is not None:
      return self.num_replayed == 0
    return self.replay_ratio == 1

  @property
  def first_fill(self) -> int:
    """Trajectories needed before learning begins."""
    if self.min_replay_size is None:
      return self.batch_size
    return self.min_replay_size


def num_environments(
  batch_size: int, replay_ratio: int, replay_fraction: float | None
) -> int:
  """How many environments act; arguments as of `Config`."""
  if replay_fraction is None:
    return batch_size // replay_ratio
  return replay.split_batch(batch_size, replay_fraction)[0]


class ExperimentState(NamedTuple):
  """All that an experiment carries from one iteration to the next."""

  iteration: jax.Array  # [], int32, iterations done.
  rng: chex.PRNGKey
  learner: agent_lib.LearnerState
  actor: Any  # An `acting.ActorState`.
  episodes: episode_returns.RunningEpisodes
  buffer: replay.ReplayState | None  # None without replay.


class Experiment:
  """A bundle of pure functions around one agent and one environment."""

  def __init__(
    self,
    agent: agent_lib.Agent,
    env: base.Environment | None,
    config: Config,
    batch_axis_name: Any | None = None,
  ):
    """Bundles them.

    Args:
      agent: who acts and learns.
      env: with `config.num_envs` streams; None if the acting is done
        elsewhere, so that only `learn` is called.
      config: the sizes; with a batch axis, those of one device.
      batch_axis_name: the axis over which the batch is spread, or None; the
        same that the agent was given.
    """
    if env is not None and env.batch_size != config.num_envs:
      raise ValueError(
        f'the environment has {env.batch_size} streams, but the sizes want '
        f'{config.num_envs}'
      )
    self._agent = agent
    self._env = env
    self._config = config
    self._axis_name = batch_axis_name

  def init(
    self, rng: chex.PRNGKey, actor: acting.ActorState | None = None
  ) -> ExperimentState:
    """A fresh agent before its first iteration.

    Args:
      rng: split in three: learner, actor, and all that comes later.
      actor: where it stands in an environment on the host; None to begin in
        the environment of this object.

    Returns:
      The state.
    """
    learner_rng, actor_rng, rng = jax.random.split(rng, 3)
    learner = self._agent.initial_learner_state(learner_rng)
    # The target network starts as the network itself. Donated memory must not
    # be shared.
    learner = jax.tree.map(lambda x: jnp.array(x, copy=True), learner)
    if actor is None:
      assert self._env is not None, 'an experiment without environment'
      actor = acting.initial_actor_state(
        self._agent, self._env, self._own(actor_rng)
      )
    buffer = None
    if not self._config.on_policy:
      rollout = jax.eval_shape(self._unroll_spec, learner.params, actor)
      buffer = replay.init(rollout, self._config.replay_capacity)
    return ExperimentState(
      iteration=jnp.zeros([], jnp.int32),
      rng=rng,
      learner=learner,
      actor=actor,
      episodes=episode_returns.init(self._config.num_envs),
      buffer=buffer,
    )

  def run(
    self,
    update_rule_params: types.MetaParams,
    state: ExperimentState,
    num_iterations: int,
  ) -> tuple[ExperimentState, dict[str, jax.Array]]:
    """Runs some iterations, in an environment in JAX.

    Args:
      update_rule_params: η.
      state: from `init` or the last `run`.
      num_iterations: N, static.

    Returns:
      The state after, and metrics, name to [N]; see `learn`.
    """
    env = self._env
    assert env is not None, 'an experiment without environment'

    def iteration(
      state: ExperimentState, _: None
    ) -> tuple[ExperimentState, dict[str, jax.Array]]:
      rng, act_rng, learn_rng = jax.random.split(state.rng, 3)
      actor, rollout = acting.unroll_jittable(
        self._agent,
        env,
        state.learner.params,
        state.actor,
        self._own(act_rng),
        self._config.rollout_length,
      )
      state = state._replace(rng=rng, actor=actor)
      return self.learn(update_rule_params, state, rollout, learn_rng)

    return jax.lax.scan(iteration, state, None, length=num_iterations)

  def learn(
    self,
    update_rule_params: types.MetaParams,
    state: ExperimentState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[ExperimentState, dict[str, jax.Array]]:
    """Everything of an iteration but the acting.

    A step that leads to numbers that are not finite is not taken: the learner
    stays as it was, and the metric `first_bad` tells.

    Args:
      update_rule_params: η.
      state: before.
      rollout: what was done, leaves [T+1, B, ...].
      rng: split in two, for the replay and for the learner.

    Returns:
      The state after, and scalars: the learner's log (NaN before the replay is
      full enough to learn), those of `episode_returns.FinishedEpisodes`, and
      `first_bad`, which tells `name_of_bad` what was not finite, or -1.
    """
    sample_rng, learn_rng = jax.random.split(rng)
    episodes, finished = episode_returns.update(
      state.episodes, rollout.rewards, rollout.discounts
    )
    if self._axis_name is not None:
      finished = jax.lax.psum(finished, self._axis_name)

    def learn(
      learner: agent_lib.LearnerState, batch: types.ActorRollout
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      new_learner, _, log = self._agent.learner_step(
        learn_rng,
        batch,
        learner,
        batch.first_state(time_axis=0),
        update_rule_params,
        is_meta_training=False,
      )
      first_bad = _first_not_finite((log, new_learner))
      new_learner = jax.tree.map(
        lambda new, old: jnp.where(first_bad < 0, new, old),
        new_learner,
        learner,
      )
      return new_learner, {**log, 'first_bad': first_bad}

    rollout = replay.keep_first_state(rollout)
    buffer = state.buffer
    if buffer is None:
      learner, log = learn(state.learner, rollout)
    else:
      buffer = replay.add(buffer, rollout)
      learner, log = self._learn_from_replay(
        learn, state, rollout, buffer, self._own(sample_rng)
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
    learn: Callable[..., tuple[agent_lib.LearnerState, types.LogDict]],
    state: ExperimentState,
    fresh: types.ActorRollout,
    buffer: replay.ReplayState,
    rng: chex.PRNGKey,
  ) -> tuple[agent_lib.LearnerState, types.LogDict]:
    """Learns from a sampled batch, once there is enough to sample from."""
    num_replayed = self._config.num_replayed

    def learn_from_sample(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      batch = replay.sample(buffer, rng, num_replayed)
      if num_replayed < self._config.batch_size:
        batch = jax.tree.map(
          lambda *xs: jnp.concatenate(xs, axis=1), fresh, batch
        )
      return learn(learner, batch)

    def wait(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      _, log = jax.eval_shape(learn_from_sample, learner)
      # Nothing was learned: its log is not a number.
      log = {
        name: jnp.full(x.shape, jnp.nan, x.dtype)
        for name, x in log.items()
        if name != 'first_bad'
      }
      return learner, {**log, 'first_bad': jnp.full([], -1, jnp.int32)}

    # The count of iterations is the same for all seeds, so that this stays one
    # branch when seeds are mapped over.
    is_ready = state.iteration >= self._config.num_warm_up
    return jax.lax.cond(is_ready, learn_from_sample, wait, state.learner)

  def _own(self, rng: chex.PRNGKey) -> chex.PRNGKey:
    """A key of this device's own, where there are several."""
    if self._axis_name is None:
      return rng
    return jax.random.fold_in(rng, jax.lax.axis_index(self._axis_name))

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
    return replay.keep_first_state(types.ActorRollout.from_timestep(stacked))


def name_of_bad(
  first_bad: int,
  metrics: Mapping[str, Any],
  learner: agent_lib.LearnerState,
) -> str:
  """What was not finite in a learner step.

  Args:
    first_bad: the metric of that name.
    metrics: all metrics; only their names are read.
    learner: any learner state of the experiment; only its names are read.

  Returns:
    The name of a quantity of the log, or the path of a leaf of the learner.
  """
  not_logs = {'first_bad', *episode_returns.FinishedEpisodes._fields}
  log = {name: 0 for name in metrics if name not in not_logs}
  leaves = jax.tree_util.tree_leaves_with_path((log, learner))
  path, _ = leaves[first_bad]
  return jax.tree_util.keystr(path[1:], simple=True, separator='/')


def _first_not_finite(tree: Any) -> jax.Array:
  """The index of the first leaf that has a NaN or an infinity, or -1."""
  is_bad = jnp.stack(
    [jnp.logical_not(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(tree)]
  )
  first = jnp.argmax(is_bad).astype(jnp.int32)
  return jnp.where(jnp.any(is_bad), first, -1)
