"""Batches of tasks, whose parameters are data.

An agent's task is drawn from its key when its environments are reset, and stays
the same until they are reset again: over all episodes, and in all streams,
which differ by their random numbers only. It consists of

- the family and its parameters;
- the meanings of actions: which of the task's n actions each of the agent's A
  actions is. All n occur, in random order, and some twice if n < A;
- the scale of rewards, between 1/s and s with the setting s, log-uniform.

The families of an environment are branches of one conditional, so that one
compiled program plays all of them.
"""

from collections.abc import Mapping
import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments.tasks import family as family_lib
from disco_rl.environments.tasks import packing


class Task(NamedTuple):
  """A task; the same in all rows of a batch, leaves [B, ...] in states.

  Every stream has a copy, so that a batch can be sharded like any other.
  """

  family: jax.Array  # [], int32, index in `TaskEnvironment.families`.
  params: jax.Array  # [P], float32, see `packing`.
  horizon: jax.Array  # [], int32, steps after which an episode ends.
  meanings: jax.Array  # [A], int32, the task's own action of each action.
  scale: jax.Array  # [], factor of rewards.


class TaskState(NamedTuple):
  """The state of every stream."""

  task: Task  # Leaves [B, ...].
  stream: jax.Array  # [B, Q], float32, see `packing`.
  time: jax.Array  # [B], int32, steps in the episode.
  rng: chex.PRNGKey  # [B, ...].


class TaskEnvironment(base.Environment):
  """B streams of one task, which is drawn by `reset`.

  Attributes:
    families: names of the families that tasks are drawn from.
  """

  is_jittable = True

  def __init__(
    self,
    families: Mapping[str, family_lib.Family],
    batch_size: int,
    *,
    num_actions: int,
    reward_scale: float,
  ):
    """Builds the environment.

    Args:
      families: the families by name, equally likely.
      batch_size: B, the number of streams.
      num_actions: A, the actions of the agent.
      reward_scale: s, the largest factor of rewards, at least 1.
    """
    super().__init__(batch_size)
    self.families = tuple(families)
    self._num_actions = num_actions
    self._log_scale = math.log(reward_scale)
    self._branches = branches = [
      _Branch(x, num_actions) for x in families.values()
    ]
    self._params_size = max(x.params.size for x in branches)
    self._stream_size = max(x.stream.size for x in branches)
    self._observation_size = max(x.family.observation_size for x in branches)
    self._num_draws = max(x.num_draws for x in branches)
    self._draws = [self._draw_branch(x) for x in branches]
    self._starts = [self._start_branch(x) for x in branches]
    self._steps = [self._step_branch(x) for x in branches]
    # Traced once, also where they are called outside of compiled programs.
    self._reset = jax.jit(self._reset_streams)
    self._step = jax.jit(self._step_streams)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns `{'observation': spec}`; timesteps have the bare array."""
    size = self._observation_size
    return {'observation': types.ArraySpec((size,), np.dtype(np.float32))}

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..A-1."""
    return types.ActionSpec((), np.int32, 0, self._num_actions - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[TaskState, types.EnvironmentTimestep]:
    """Draws a task, and resets every stream."""
    return self._reset(rng_key, rng_key)

  def reset_shard(
    self, rng_key: chex.PRNGKey, shard_key: chex.PRNGKey
  ) -> tuple[TaskState, types.EnvironmentTimestep]:
    """Draws the task with the first key, and resets streams with the second."""
    return self._reset(rng_key, shard_key)

  def step(
    self, states: TaskState, actions: types.Array
  ) -> tuple[TaskState, types.EnvironmentTimestep]:
    """Advances every stream, starting a new episode where one ends."""
    return self._step(states, actions)

  def task_facts(self, states: TaskState) -> base.TaskFacts:
    """Returns the family of the task, and its scale of rewards."""
    return base.TaskFacts(states.task.family[0], states.task.scale[0])

  def inspect(self, states: TaskState) -> tuple[str, Any, Any]:
    """Unpacks states, outside of compiled programs.

    Args:
      states: from `reset` or `step`.

    Returns:
      Name of the task's family, the family's parameters, and the states of its
      streams, leaves [B, ...].
    """
    index = int(states.task.family[0])
    branch = self._branches[index]
    return (
      self.families[index],
      branch.params.unpack(states.task.params[0]),
      jax.vmap(branch.stream.unpack)(states.stream),
    )

  def draw_task(self, rng: chex.PRNGKey) -> Task:
    """Draws a task.

    Args:
      rng: key; `reset` calls this with its own.

    Returns:
      The task, without a batch axis.
    """
    # Not split as in `_reset_streams`, whose keys must be others.
    rng = jax.random.fold_in(rng, _TASK)
    family_rng, own_rng, order_rng, scale_rng = jax.random.split(rng, 4)
    index = jax.random.randint(family_rng, (), 0, len(self.families))
    params, num_actions, horizon = jax.lax.switch(index, self._draws, own_rng)
    meanings = jnp.arange(self._num_actions, dtype=jnp.int32) % num_actions
    scale = jax.random.uniform(scale_rng, minval=-1.0, maxval=1.0)
    return Task(
      family=index,
      params=params,
      horizon=horizon,
      meanings=jax.random.permutation(order_rng, meanings),
      scale=jnp.exp(self._log_scale * scale),
    )

  def _reset_streams(
    self, rng_key: chex.PRNGKey, shard_key: chex.PRNGKey
  ) -> tuple[TaskState, types.EnvironmentTimestep]:
    task = self.draw_task(rng_key)
    rngs, noise = self._noise(jax.random.split(shard_key, self.batch_size))
    stream, observation = jax.lax.switch(
      task.family, self._starts, task.params, noise
    )
    states = TaskState(
      task=jax.tree.map(
        lambda x: jnp.broadcast_to(x, (self.batch_size, *x.shape)), task
      ),
      stream=stream,
      time=jnp.zeros(self.batch_size, jnp.int32),
      rng=rngs,
    )
    return states, types.EnvironmentTimestep(
      observation=observation,
      step_type=types.mid_or_last(jnp.zeros(self.batch_size, bool)),
      reward=jnp.zeros(self.batch_size, jnp.float32),
    )

  def _step_streams(
    self, states: TaskState, actions: types.Array
  ) -> tuple[TaskState, types.EnvironmentTimestep]:
    # One row, so that the conditional is computed once for all streams, and
    # only the branch of the task's family.
    task = jax.tree.map(lambda x: x[0], states.task)
    rngs, noise = self._noise(states.rng)
    time = states.time + 1
    stream, observation, reward, is_last = jax.lax.switch(
      task.family,
      self._steps,
      task.params,
      states.stream,
      task.meanings[actions],
      time >= task.horizon,
      noise,
    )
    new_states = TaskState(
      task=states.task,
      stream=stream,
      time=jnp.where(is_last, 0, time),
      rng=rngs,
    )
    return new_states, types.EnvironmentTimestep(
      observation=observation,
      step_type=types.mid_or_last(is_last),
      reward=task.scale * reward,
    )

  def _noise(self, rngs: chex.PRNGKey) -> tuple[chex.PRNGKey, jax.Array]:
    """Draws the random numbers of one step of every stream.

    Args:
      rngs: [B, ...], keys.

    Returns:
      The next keys, and numbers in [0, 1), [B, num_draws].
    """

    def draw(rng: chex.PRNGKey) -> tuple[chex.PRNGKey, jax.Array]:
      rng, rng_now = jax.random.split(rng)
      return rng, jax.random.uniform(rng_now, (self._num_draws,))

    return jax.vmap(draw)(rngs)

  def _draw_branch(self, branch: '_Branch') -> Any:
    """Makes the function that draws the parameters of one family."""

    def draw(rng: chex.PRNGKey) -> tuple[jax.Array, jax.Array, jax.Array]:
      drawn = branch.family.draw(rng, self._num_actions)
      params = branch.params.pack(drawn.params, self._params_size)
      return params, drawn.num_actions, drawn.horizon

    return draw

  def _start_branch(self, branch: '_Branch') -> Any:
    """Makes the function that starts the streams of one family."""

    def start_stream(params: Any, noise: jax.Array) -> tuple[Any, jax.Array]:
      state = branch.start(params, noise)
      return self._pack(branch, params, state)

    def start(vector: jax.Array, noise: jax.Array) -> tuple[Any, jax.Array]:
      params = branch.params.unpack(vector)
      return jax.vmap(start_stream, in_axes=(None, 0))(params, noise)

    return start

  def _step_branch(self, branch: '_Branch') -> Any:
    """Makes the function that steps the streams of one family."""

    def step_stream(
      params: Any,
      stream: jax.Array,
      action: jax.Array,
      is_late: jax.Array,
      noise: jax.Array,
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
      state, reward, is_over = branch.step(
        params, branch.stream.unpack(stream), action, noise
      )
      is_last = is_over | is_late
      first = branch.start(params, noise)
      state = jax.tree.map(
        lambda new, old: jnp.where(is_last, new, old), first, state
      )
      return *self._pack(branch, params, state), reward, is_last

    def step(vector: jax.Array, *by_stream: jax.Array) -> Any:
      params = branch.params.unpack(vector)
      axes = (None, *(0 for _ in by_stream))
      return jax.vmap(step_stream, in_axes=axes)(params, *by_stream)

    return step

  def _pack(
    self, branch: '_Branch', params: Any, state: Any
  ) -> tuple[jax.Array, jax.Array]:
    """Returns a state and its observation in the sizes of all families."""
    observation = branch.family.observe(params, state)
    padding = self._observation_size - branch.family.observation_size
    return (
      branch.stream.pack(state, self._stream_size),
      jnp.pad(observation, (0, padding)),
    )


# Folded into a key to draw the task. Large, since folding in small numbers
# gives the keys that splitting gives, too.
_TASK = 2**31 + 4


class _Branch:
  """A family, with the packing of its parameters and states.

  Attributes:
    family: the family.
    params: the packing of its parameters.
    stream: the packing of the state of a stream.
    num_draws: random numbers of one step, with those of a new episode.
  """

  def __init__(self, family: family_lib.Family, num_actions: int):
    """Finds out the shapes of parameters and states."""
    self.family = family
    self.num_draws = family.num_start_draws + family.num_step_draws

    def draw(rng: chex.PRNGKey, noise: jax.Array) -> tuple[Any, Any]:
      params = family.draw(rng, num_actions).params
      return params, self.start(params, noise)

    noise = types.ArraySpec((self.num_draws,), np.dtype(np.float32))
    params, state = jax.eval_shape(draw, jax.random.PRNGKey(0), noise)
    self.params = packing.Packing(params)
    self.stream = packing.Packing(state)

  def start(self, params: Any, noise: jax.Array) -> Any:
    """Starts a stream, with the first part of the numbers of a step."""
    return self.family.start(params, noise[: self.family.num_start_draws])

  def step(
    self, params: Any, state: Any, action: jax.Array, noise: jax.Array
  ) -> tuple[Any, jax.Array, jax.Array]:
    """Steps a stream, with the second part of the numbers of a step."""
    own = noise[self.family.num_start_draws : self.num_draws]
    return self.family.step(params, state, action, own)
