"""The training loop of one agent with a fixed rule, as pure functions.

One iteration acts for one rollout, stores it, samples a batch and takes one
learner step. `population.Population` compiles these functions, for many seeds
and many devices; `disco_rl.evaluate` runs the whole experiment.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import agent as agent_lib
from disco_rl import parallel
from disco_rl import types
from disco_rl import utils
from disco_rl.config import batching as batching_lib
from disco_rl.learning import actors
from disco_rl.learning import episodes as episodes_lib
from disco_rl.learning import faults
from disco_rl.learning import replay


class LoopState(NamedTuple):
  """The state of the loop, carried from one iteration to the next."""

  iteration: jax.Array  # [], int32, iterations done.
  rng: chex.PRNGKey
  learner: agent_lib.LearnerState
  actor: Any  # An `actors.ActorState`.
  episodes: episodes_lib.RunningEpisodes
  buffer: replay.ReplayState | None  # None without replay.


class Keys(NamedTuple):
  """The keys of one iteration."""

  carry: chex.PRNGKey  # For later iterations.
  act: chex.PRNGKey
  learn: chex.PRNGKey

  @classmethod
  def split(cls, rng: chex.PRNGKey) -> 'Keys':
    """Splits the key of `LoopState`."""
    return cls(*jax.random.split(rng, 3))


class AgentLoop:
  """The training loop of one agent and its actor, as pure functions."""

  def __init__(
    self,
    agent: agent_lib.Agent,
    actor: actors.Actor,
    batching: batching_lib.Batching,
    batch_axis_name: Any | None = None,
  ):
    """Initialises the loop.

    Args:
      agent: the agent.
      actor: its actor; `run` needs one in JAX.
      batching: sizes of batch, rollout and replay; with a batch axis, those of
        one shard.
      batch_axis_name: axis over which the batch is sharded, or None; the same
        as that of the agent.

    Raises:
      ValueError: if the actor has another number of environments.
    """
    if actor.is_pure and actor.num_envs != batching.num_envs:
      raise ValueError(
        f'the environment has {actor.num_envs} streams, but batching.num_envs '
        f'is {batching.num_envs}'
      )
    self._agent = agent
    self._actor = actor
    self._batching = batching
    self._axis_name = batch_axis_name

  def init(
    self, rng: chex.PRNGKey, actor_state: actors.ActorState | None = None
  ) -> LoopState:
    """Makes the state before the first iteration.

    Args:
      rng: split in three, for the learner, the actor and the iterations.
      actor_state: the state of an actor on the host, see `actor_rng`; None to
        reset the environment here.

    Returns:
      The state.
    """
    learner_rng, actor_rng, rng = jax.random.split(rng, 3)
    with self._agent.boundary('its first state'):
      learner = self._agent.initial_learner_state(learner_rng)
    # Copied, since target parameters may share buffers with parameters.
    learner = utils.copy_tree(learner)
    if actor_state is None:
      shard_rng, net_rng = jax.random.split(
        parallel.shard_key(actor_rng, self._axis_name)
      )
      env_rng, _ = jax.random.split(actor_rng)
      actor_state = self._actor.init(env_rng, net_rng, shard_rng)
    spec = self._actor.rollout_spec(
      learner.params, actor_state, self._batching.rollout_length
    )
    return LoopState(
      iteration=jnp.zeros([], jnp.int32),
      rng=rng,
      learner=learner,
      actor=actor_state,
      episodes=episodes_lib.init(self._batching.num_envs),
      buffer=replay.init_for(spec, self._batching),
    )

  def run(
    self, eta: types.MetaParams, state: LoopState, num_iterations: int
  ) -> tuple[LoopState, dict[str, jax.Array]]:
    """Runs several iterations in an environment in JAX.

    Args:
      eta: the rule's parameters η.
      state: from `init` or the last `run`.
      num_iterations: N, static.

    Returns:
      The state after, and metrics, name to [N]: those of `learn`, and whether
      the environment returned numbers that cannot be learned from
      (`faults.METRIC`).
    """
    num_steps = self._batching.rollout_length
    actor = self._actor
    assert isinstance(actor, actors.DeviceActor)

    def iteration(
      state: LoopState, _: None
    ) -> tuple[LoopState, dict[str, jax.Array]]:
      keys = Keys.split(state.rng)
      step_keys = jax.random.split(
        parallel.shard_key(keys.act, self._axis_name), num_steps
      )
      actor_state, rollout, fault = actor.unroll_and_check(
        state.learner.params, state.actor, step_keys, self._axis_name
      )
      state = state._replace(rng=keys.carry, actor=actor_state)
      state, metrics = self.learn(eta, state, rollout, keys.learn)
      return state, {**metrics, faults.METRIC: fault}

    return jax.lax.scan(iteration, state, None, length=num_iterations)

  def learn(
    self,
    eta: types.MetaParams,
    state: LoopState,
    rollout: types.ActorRollout,
    rng: chex.PRNGKey,
  ) -> tuple[LoopState, dict[str, jax.Array]]:
    """Runs one iteration after acting: stores, samples and learns.

    An update that leads to non-finite numbers is discarded: the learner is
    unchanged, and the metric `first_nonfinite` is set.

    Args:
      eta: the rule's parameters η.
      state: the state before.
      rollout: the new rollout, leaves [T+1, B, ...].
      rng: split in two, for the replay and for the learner.

    Returns:
      The state after, and scalar metrics: the learner's log (NaN before there
      are enough trajectories to learn), those of `episodes.FinishedEpisodes`,
      and `first_nonfinite`, the index of a non-finite quantity (see
      `name_of_nonfinite`), or -1.
    """
    sample_rng, learn_rng = jax.random.split(rng)
    episodes, finished = episodes_lib.update(
      state.episodes, rollout.rewards, rollout.discounts
    )
    finished = parallel.total(finished, self._axis_name)
    fresh = replay.to_stored(rollout)
    buffer = state.buffer
    if buffer is not None:
      buffer = replay.add(buffer, fresh)

    def learn(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      batch = replay.next_batch(
        buffer,
        fresh,
        parallel.shard_key(sample_rng, self._axis_name),
        self._batching,
      )
      with self._agent.boundary('a learner step'):
        new_learner, out = self._agent.learner.update(
          eta, learner, batch, learn_rng, backprop=False
        )
      first = _first_nonfinite((out.log, new_learner))
      new_learner = jax.tree.map(
        lambda new, old: jnp.where(first < 0, new, old), new_learner, learner
      )
      return new_learner, {**out.log, 'first_nonfinite': first}

    def wait(
      learner: agent_lib.LearnerState,
    ) -> tuple[agent_lib.LearnerState, types.LogDict]:
      _, log = jax.eval_shape(learn, learner)
      # Without a learner step, the log is NaN.
      log = {
        name: jnp.full(x.shape, jnp.nan, x.dtype)
        for name, x in log.items()
        if name != 'first_nonfinite'
      }
      return learner, {**log, 'first_nonfinite': jnp.full([], -1, jnp.int32)}

    if buffer is None:
      learner, log = learn(state.learner)
    else:
      # Counts stored trajectories, not iterations, since a resumed run may
      # start with an empty replay. The counter is the same for all seeds and
      # not vmapped, so that this remains a conditional.
      first = (self._batching.num_warm_up + 1) * self._batching.num_envs
      is_ready = buffer.num_added >= first
      learner, log = jax.lax.cond(is_ready, learn, wait, state.learner)
    new_state = state._replace(
      iteration=state.iteration + 1,
      learner=learner,
      episodes=episodes,
      buffer=buffer,
    )
    return new_state, {**log, **finished._asdict()}


def actor_rng(rng: chex.PRNGKey) -> chex.PRNGKey:
  """Returns the key with which `AgentLoop.init` resets an actor.

  Args:
    rng: the key that is passed to `init`.

  Returns:
    A key, to be split in two for `HostActor.init`.
  """
  return jax.random.split(rng, 3)[1]


def task_rng(rng: chex.PRNGKey) -> chex.PRNGKey:
  """Returns the key with which `AgentLoop.init` draws an agent's task.

  Args:
    rng: the key that is passed to `init`.

  Returns:
    The first key of `Environment.reset_shard`.
  """
  return jax.random.split(actor_rng(rng))[0]


def name_of_nonfinite(
  index: int,
  metrics: Mapping[str, Any],
  learner: agent_lib.LearnerState,
) -> str:
  """Returns the name of the first non-finite quantity of a learner step.

  Args:
    index: the metric `first_nonfinite`.
    metrics: all metrics; only their names are used.
    learner: any learner state of the loop; only its structure is used.

  Returns:
    The name of a log entry, or the path of a leaf of the learner state.
  """
  not_logs = {
    'first_nonfinite',
    faults.METRIC,
    *episodes_lib.FinishedEpisodes._fields,
  }
  log = {name: 0 for name in metrics if name not in not_logs}
  leaves = jax.tree_util.tree_leaves_with_path((log, learner))
  path, _ = leaves[index]
  return jax.tree_util.keystr(path[1:], simple=True, separator='/')


def _first_nonfinite(tree: Any) -> jax.Array:
  """Returns the index of the first non-finite leaf, or -1; [], int32."""
  is_nonfinite = jnp.stack(
    [jnp.logical_not(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(tree)]
  )
  first = jnp.argmax(is_nonfinite).astype(jnp.int32)
  return jnp.where(jnp.any(is_nonfinite), first, -1)
