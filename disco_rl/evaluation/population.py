"""Trains a population of agents, with each agent's batch sharded over devices.

K seeds are K independent agents in one program. Each of D devices acts in its
shard of every agent's environments and learns from its shard of the agent's
replay; gradients and statistics are averaged over devices.

  env_fn = registry.environment_fn('catch')
  population = Population(env_fn, settings, batching.Batching(), seeds=(0, 1))
  state = population.init()
  state, metrics = population.run(eta, state, num_iterations=100)
"""

from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.config import checks
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import footprint
from disco_rl.learning import actors
from disco_rl.learning import episodes as episodes_lib
from disco_rl.learning import replay


class Population:
  """Compiles and runs `AgentLoop` for several seeds and devices.

  Attributes:
    agent: the agent, the same for all seeds.
    batching: the sizes of one agent's batches, over all devices.
    seeds: the seeds, one per agent.
    placement: the devices, over which each batch is sharded.
  """

  def __init__(
    self,
    env_fn: registry.EnvironmentFn,
    agent_settings: config_dict.ConfigDict,
    batching: batching_lib.Batching,
    *,
    seeds: Sequence[int] = (0,),
    devices: Sequence[jax.Device] | None = None,
    lanes_at_once: int | None = None,
    overlap_acting: bool = False,
  ):
    """Builds everything; compiles nothing yet.

    Args:
      env_fn: makes an environment from a batch size and a seed, see
        `registry.environment_fn`. An environment in JAX is made once; on the
        host, each agent has its own.
      agent_settings: see `agent.get_settings_disco`.
      batching: the sizes.
      seeds: K different seeds; an agent does not depend on the other seeds.
      devices: D devices; by default as many of this process as the environments
        can be sharded over.
      lanes_at_once: how many seeds are vmapped, see `parallel.Placement`.
      overlap_acting: whether acting on the host overlaps with learning. Actors
        then use parameters that are one update old, except in the first
        iteration of a chunk. No effect on environments in JAX.
    """
    self._env_fn = registry.as_environment_fn(env_fn)
    self.batching = batching
    self.seeds = checks.check_seeds(seeds)
    if devices is None:
      devices = parallel.most_devices(batching.fits_shards)
    self.placement = parallel.Placement(devices, lanes_at_once=lanes_at_once)
    shard = batching.per_shard(self.placement.num_batch_shards)
    self._overlap_acting = overlap_acting
    env = self._env_fn(batching.num_envs, self.seeds[0])
    axis_name = self.placement.batch_axis
    self.agent = agent_lib.Agent.for_environment(env, agent_settings, axis_name)
    footprint.check_observations(
      self.agent.single_observation_spec, batching, len(self.seeds)
    )
    if env.is_jittable:
      # Every device acts in its own shard of the environments.
      env = self._env_fn(shard.num_envs, self.seeds[0])
    actor = actors.make(self.agent, env)
    self._loop = agent_loop.AgentLoop(self.agent, actor, shard, axis_name)
    self._is_pure = actor.is_pure
    # Environments on the host have one actor per seed. The one above was made
    # for its specs, and becomes that of the first seed.
    self._host_actor: Any = actor
    self._unused_env: base.Environment | None = None if self._is_pure else env
    self._host_actors: list[actors.Actor] = []
    self._compile()

  def init(
    self,
    eta: types.MetaParams | None = None,
    num_iterations: int = 1,
  ) -> agent_loop.LoopState:
    """Makes fresh agents, leaves [K, ...] except for the two counters.

    Environments on the host that were used before are made again, so that the
    same seeds give the same initial state.

    Args:
      eta: the rule's parameters η, to check that there is enough memory for
        `run`, too; None to check the state only.
      num_iterations: that of the first `run`, whose program is traced.

    Returns:
      The state. `rng`, `learner` and the counters are replicated; the rest is
      sharded over devices along its batch axis, 1.
    """
    keys = self._keys()
    if self._is_pure:
      return self._init_checked(keys, None, eta, num_iterations)
    self._make_host_actors()
    states = tuple(
      actor.init(*jax.random.split(agent_loop.actor_rng(key)))
      for actor, key in zip(self._host_actors, keys, strict=True)
    )
    # The states of environments may be any objects, and are not stacked.
    visible = [state._replace(env_state=None) for state in states]
    stacked = jax.tree.map(lambda *xs: np.stack(xs), *visible)
    fresh = self._init_checked(keys, stacked, eta, num_iterations)
    return fresh._replace(actor=states)

  def check_memory(self) -> None:
    """Raises a `ValueError` if the agents do not fit; in JAX only."""
    if self._is_pure:
      footprint.check_state(jax.eval_shape(self._init, self._keys(), None))

  def run(
    self,
    eta: types.MetaParams,
    state: agent_loop.LoopState,
    num_iterations: int,
  ) -> tuple[agent_loop.LoopState, dict[str, np.ndarray]]:
    """Runs some iterations; `state` is donated.

    Args:
      eta: the rule's parameters η.
      state: from `init` or the last `run`.
      num_iterations: N; each number compiles a program.

    Returns:
      The state after, and metrics on the host, name to [N, K].
    """
    if num_iterations < 1:
      raise ValueError(f'num_iterations must be >= 1, got {num_iterations}')
    if self._is_pure:
      state, metrics = self._run(eta, state, num_iterations)
      metrics = self.placement.fetch(metrics)
      return state, {name: x.T for name, x in metrics.items()}
    return self._run_on_host(eta, state, num_iterations)

  def to_checkpoint(self, state: agent_loop.LoopState) -> agent_loop.LoopState:
    """Returns the state in a form that can be saved.

    Args:
      state: from `init` or `run`; not donated.

    Returns:
      The state, with snapshots of the environments on the host that make them.
    """
    if self._is_pure:
      return state
    states = tuple(
      actor.to_checkpoint(own)
      for actor, own in zip(self._host_actors, state.actor, strict=True)
    )
    return state._replace(actor=states)

  def from_checkpoint(
    self, saved: agent_loop.LoopState
  ) -> agent_loop.LoopState:
    """Returns the state to resume from.

    Args:
      saved: from `to_checkpoint`, with leaves on the host or on devices.

    Returns:
      The state. Environments on the host without snapshots are reset.
    """
    if self._is_pure:
      return self.placement.put(saved, self._state_specs)
    if not self._host_actors:
      self._make_host_actors()
    restored = [
      actor.from_checkpoint(own)
      for actor, own in zip(self._host_actors, saved.actor, strict=True)
    ]
    # Returns of episodes that were cut off are not continued.
    goes_on = np.asarray([go_on for _, go_on in restored])[:, None]
    episodes = jax.tree.map(
      lambda old, new: np.where(goes_on, old, new),
      saved.episodes,
      episodes_lib.init(self.batching.num_envs),
    )
    learning = self.placement.put(
      saved._replace(actor=None, episodes=episodes), self._state_specs
    )
    return learning._replace(actor=tuple(state for state, _ in restored))

  def close(self) -> None:
    """Closes environments on the host."""
    for actor in self._host_actors:
      actor.close()
    if self._unused_env is not None:
      self._unused_env.close()

  def _keys(self) -> chex.PRNGKey:
    return jax.vmap(jax.random.PRNGKey)(np.asarray(self.seeds, np.uint32))

  def _make_host_actors(self) -> None:
    """Makes one new environment and actor per seed."""
    for actor in self._host_actors:
      actor.close()
    self._host_actors = []
    for seed in self.seeds:
      env, self._unused_env = self._unused_env, None
      if env is None:
        env = self._env_fn(self.batching.num_envs, seed)
      self._host_actors.append(self._host_actor.with_env(env))

  def _init_checked(
    self,
    keys: chex.PRNGKey,
    actor_states: Any,
    eta: types.MetaParams | None,
    num_iterations: int,
  ) -> agent_loop.LoopState:
    """Makes fresh agents, if they and a step fit into memory."""
    spec = jax.eval_shape(self._init, keys, actor_states)
    parts = footprint.check_state(spec)
    if eta is not None:
      footprint.check_step(parts, *self._trace(eta, spec, num_iterations))
    # Programs run on the devices of their arguments.
    return self._init(
      self.placement.put(keys, parallel.REPLICATED), actor_states
    )

  def _trace(
    self, eta: types.MetaParams, spec: agent_loop.LoopState, num_iterations: int
  ) -> tuple[Any, Any]:
    """Traces `run` for its first call; returns host rollouts and the trace."""
    if self._is_pure:
      return None, self._run.trace(eta, spec, num_iterations)
    steps = self.batching.rollout_length
    rollout = footprint.host_rollout(self._host_actor, spec, steps)
    rollouts = (rollout,) * len(self.seeds)
    state = spec._replace(actor=None)
    return rollouts, self._learn.trace(eta, state, rollouts, spec.rng)

  def _run_on_host(
    self, eta: types.MetaParams, state: Any, num_iterations: int
  ) -> tuple[agent_loop.LoopState, dict[str, np.ndarray]]:
    """Implements `run` for environments on the host."""
    keys = _split_keys(state.rng)
    actor_states, rollouts = self._act_on_host(
      state.learner.params, state.actor, keys.act
    )
    all_metrics = []
    for i in range(num_iterations):
      is_last = i == num_iterations - 1
      params = None
      if self._overlap_acting and not is_last:
        # Copied, since the state is donated.
        params = parallel.copy(state.learner.params)
      # The environments stay on the host.
      state, metrics = self._learn(
        eta,
        state._replace(rng=keys.carry, actor=None),
        rollouts,
        keys.learn,
      )
      state = state._replace(actor=actor_states)
      all_metrics.append(metrics)
      if not is_last:
        # Dispatch is asynchronous: with old parameters, acting overlaps with
        # the learner step.
        keys = _split_keys(keys.carry)
        actor_states, rollouts = self._act_on_host(
          state.learner.params if params is None else params,
          actor_states,
          keys.act,
        )
    return state, jax.tree.map(
      lambda *xs: np.stack(xs), *self.placement.fetch(all_metrics)
    )

  def _act_on_host(
    self, params: types.AgentParams, states: Any, keys: np.ndarray
  ) -> tuple[tuple[actors.ActorState, ...], tuple[types.ActorRollout, ...]]:
    """Acts for one rollout of every agent, with leaves [T+1, B, ...]."""
    new_states, rollouts = [], []
    for k, actor in enumerate(self._host_actors):
      own = jax.tree.map(lambda x, k=k: x[k], params)
      step_keys = jax.random.split(keys[k], self.batching.rollout_length)
      state, rollout = actor.unroll(own, states[k], step_keys)
      new_states.append(state)
      rollouts.append(rollout)
    if len(self.placement.devices) > 1:
      rollouts = self.placement.put(rollouts, parallel.ROLLOUT)
    return tuple(new_states), tuple(rollouts)

  def _compile(self) -> None:
    """Maps the functions of `AgentLoop` over seeds, and shards them."""
    placement, loop = self.placement, self._loop
    whole: Any = parallel.REPLICATED
    by_lane: Any = parallel.BY_LANE
    by_batch: Any = parallel.BY_BATCH
    buffer = None
    if not self.batching.on_policy:
      buffer = replay.ReplayState(data=by_batch, num_added=whole)
    specs = agent_loop.LoopState(
      iteration=whole,
      rng=by_lane,
      learner=by_lane,
      actor=by_batch,
      episodes=by_batch,
      buffer=buffer,
    )
    self._state_specs = specs

    def init(keys: chex.PRNGKey, actor_states: Any) -> Any:
      counters, rest = placement.map_lanes(
        lambda key, state: _split_counters(loop.init(key, state)),
        keys,
        actor_states,
      )
      return _join_counters(_first(counters), rest)

    def advance(function: Any, state: Any, *args: Any) -> Any:
      """Maps a function from (state, *args) to (state, metrics)."""
      counters, rest = _split_counters(state)

      def advance_one(rest: Any, *args: Any) -> Any:
        new_state, metrics = function(_join_counters(counters, rest), *args)
        return _split_counters(new_state), metrics

      # The counters are the same for all seeds. They are not mapped over, so
      # that conditions and indices that depend on them stay scalars.
      (counters, rest), metrics = placement.map_lanes(advance_one, rest, *args)
      return _join_counters(_first(counters), rest), metrics

    def run(eta: types.MetaParams, state: Any, num_iterations: int) -> Any:
      return advance(lambda own: loop.run(eta, own, num_iterations), state)

    def learn(
      eta: types.MetaParams, state: Any, rollouts: Any, keys: Any
    ) -> Any:
      stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *rollouts)
      return advance(
        lambda own, *args: loop.learn(eta, own, *args), state, stacked, keys
      )

    self._init = placement.compile(init, (by_lane, by_batch), specs)
    self._run = placement.compile(
      run, (whole, specs), (specs, by_lane), donate=[1], num_static=1
    )
    self._learn = placement.compile(
      learn,
      (whole, specs, parallel.ROLLOUT, by_lane),
      (specs, by_lane),
      donate=[1],
    )


def _split_keys(rng: types.Array) -> agent_loop.Keys:
  """Splits the keys of all agents, [K, ...], on the host."""
  return jax.tree.map(np.asarray, jax.vmap(agent_loop.Keys.split)(rng))


def _split_counters(state: Any) -> tuple[Any, Any]:
  """Separates the counters, which are the same for all seeds, from the rest."""
  buffer, num_added = state.buffer, None
  if buffer is not None:
    num_added = buffer.num_added
    buffer = buffer._replace(num_added=None)
  rest = state._replace(iteration=None, buffer=buffer)
  return (state.iteration, num_added), rest


def _join_counters(counters: Any, rest: Any) -> agent_loop.LoopState:
  """Undoes `_split_counters`."""
  iteration, num_added = counters
  buffer = rest.buffer
  if buffer is not None:
    buffer = buffer._replace(num_added=num_added)
  return rest._replace(iteration=iteration, buffer=buffer)


def _first(tree: Any) -> Any:
  return jax.tree.map(lambda x: x[0], tree)
