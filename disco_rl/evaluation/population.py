"""Trains a population of agents, with each agent's batch sharded over devices.

K seeds are K independent agents in one program. Each of D devices acts in its
shard of every agent's environments and learns from its shard of the agent's
replay; gradients and statistics are averaged over devices.

```python
env_fn = registry.environment_fn('catch')
population = Population(env_fn, settings, batching.Batching(), seeds=(0, 1))
state = population.init()
state, metrics = population.run(eta, state, num_iterations=100)
```
"""

from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import device_choice
from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.config import checks
from disco_rl.environments import callbacks
from disco_rl.environments import registry
from disco_rl.environments import streams
from disco_rl.environments import timesteps
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import footprint
from disco_rl.evaluation import lanes
from disco_rl.learning import actors
from disco_rl.learning import replay


class Population:
  """Compiles and runs `AgentLoop` for several seeds and devices.

  Attributes:
    agent: the agent, the same for all seeds.
    batching: the sizes of one agent's batches, over all devices.
    seeds: the seeds, one per agent.
    env_name: name of the environment, for messages.
    placement: the devices, over which each batch is sharded.
    metric_names: names of the metrics of `run`; empty until `init` with η or
      `check_memory` has traced it.
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
      batching: the sizes of one agent's batches, over all devices.
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
      devices = device_choice.most_devices(batching.fits_shards)
    self.placement = parallel.Placement(devices, lanes_at_once=lanes_at_once)
    shard = batching.per_shard(self.placement.num_batch_shards)
    share = self._share()
    env = streams.make(self._env_fn, self.seeds[0], share)
    axis_name = self.placement.batch_axis
    try:
      self.agent = agent_lib.Agent.for_environment(
        env, agent_settings, axis_name
      )
      footprint.check_observations(
        self.agent.single_observation_spec,
        batching,
        len(self.seeds),
        self.placement.num_processes,
      )
    except BaseException:
      env.close()  # On the host, it may have processes.
      raise
    if env.is_jittable:
      # Every device acts in its own shard of the environments.
      env = self._env_fn(shard.num_envs, self.seeds[0])
    is_whole = self.placement.num_processes == 1
    actor = actors.make(self.agent, env, share=None if is_whole else share)
    self.env_name = actor.env_name
    self._loop = agent_loop.AgentLoop(self.agent, actor, shard, axis_name)
    self.metric_names: tuple[str, ...] = ()
    self._compile()
    self._lanes: lanes.Lanes
    if isinstance(actor, actors.DeviceActor):
      self._lanes = lanes.DeviceLanes(self._run, self.placement, self.env_name)
    else:
      self._lanes = lanes.HostLanes(
        self._learn,
        self.placement,
        actor,
        env,
        lambda seed: streams.make(self._env_fn, seed, self._share()),
        self.seeds,
        batching,
        overlap_acting=overlap_acting,
      )

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
      num_iterations: the argument of the first `run`, whose program is traced.

    Returns:
      The state. `rng`, `learner` and the counters are replicated; the rest is
      sharded over devices along its batch axis, 1.

    Raises:
      ValueError: if there is not enough memory.
      NonFiniteError: if an environment's first timestep is non-finite.
    """
    keys = self._keys()
    stacked, actor_states = self._reset(keys)
    self._check_memory(keys, stacked, eta, num_iterations)
    # Programs run on the devices of their arguments.
    keys = self.placement.put(keys, parallel.REPLICATED)
    with callbacks.boundary(self.env_name):
      state = self._init(keys, stacked)
      if actor_states is not None:
        return state._replace(actor=actor_states)
      self._check_first_timesteps(state.actor.timestep)
    return state

  def check_memory(
    self, eta: types.MetaParams, num_iterations: int
  ) -> memory.Estimate:
    """Raises a `ValueError` if there is not enough memory for `run`.

    Environments on the host are made and reset.

    Args:
      eta: the rule's parameters η, arrays or specs.
      num_iterations: that of the first `run`, which uses the trace made here.

    Returns:
      The estimate.
    """
    keys = self._keys()
    stacked, _ = self._reset(keys)
    return self._check_memory(keys, stacked, eta, num_iterations)

  def memory_per_device(
    self, eta: types.MetaParams, num_iterations: int
  ) -> dict[str, int]:
    """Returns the memory that each device needs for `run`, by part.

    Args:
      eta: see `check_memory`; no device's memory is checked here.
      num_iterations: see `check_memory`.

    Returns:
      Bytes, without what is acted on the host.
    """
    keys = self._keys()
    stacked, _ = self._reset(keys)
    spec = jax.eval_shape(self._init, keys, stacked)
    _, traced = self._lanes.trace(eta, spec, num_iterations)
    if stacked is not None:
      spec = spec._replace(actor=None)
    return footprint.per_device(self.placement, spec, self._state_specs, traced)

  def run(
    self,
    eta: types.MetaParams,
    state: agent_loop.LoopState,
    num_iterations: int,
  ) -> tuple[agent_loop.LoopState, dict[str, np.ndarray]]:
    """Runs several iterations; `state` is donated.

    Args:
      eta: the rule's parameters η.
      state: from `init` or the last `run`.
      num_iterations: N; each number compiles a program.

    Returns:
      The state after, and metrics on the host, name to [N, K].
    """
    if num_iterations < 1:
      raise ValueError(f'num_iterations must be >= 1, got {num_iterations}')
    return self._lanes.run(eta, state, num_iterations)

  def to_checkpoint(self, state: agent_loop.LoopState) -> agent_loop.LoopState:
    """Returns the state in a form that can be saved.

    Args:
      state: from `init` or `run`; not donated.

    Returns:
      The state, with snapshots of the environments on the host that make them.
    """
    return self._lanes.to_checkpoint(state)

  def from_checkpoint(
    self, saved: agent_loop.LoopState
  ) -> agent_loop.LoopState:
    """Returns the state to resume from.

    Args:
      saved: from `to_checkpoint`, with leaves on the host or on devices.

    Returns:
      The state. Environments on the host without snapshots are reset.
    """
    return self._lanes.from_checkpoint(
      saved, lambda state: self.placement.put(state, self._state_specs)
    )

  def close(self) -> None:
    """Closes environments on the host."""
    self._lanes.close()

  def _check_memory(
    self,
    keys: chex.PRNGKey,
    actor_states: Any,
    eta: types.MetaParams | None,
    num_iterations: int,
  ) -> memory.Estimate:
    """Checks the state, and unless η is None the program of `run`."""
    spec = jax.eval_shape(self._init, keys, actor_states)
    self.placement.check_same('the state', spec)
    state = footprint.check_state(spec, self.placement.num_processes)
    if eta is None:
      return state
    rollouts, traced = self._lanes.trace(eta, spec, num_iterations)
    _, metrics = traced.out_info
    self.metric_names = tuple(metrics)
    return footprint.check_step(
      state, rollouts, traced, self.placement.num_processes
    )

  def _reset(self, keys: chex.PRNGKey) -> tuple[Any, Any]:
    """Resets environments on the host, see `lanes.HostLanes.reset`."""
    stacked, actor_states = self._lanes.reset(keys)
    if self.placement.num_processes > 1:  # Each has its own streams.
      stacked = self.placement.put_own(stacked, parallel.BY_BATCH)
    return stacked, actor_states

  def _share(self) -> streams.Share:
    """Returns the streams that this process steps on the host."""
    placement = self.placement
    return streams.Share.of_process(
      self.batching.num_envs, placement.process_id, placement.num_processes
    )

  def _keys(self) -> chex.PRNGKey:
    return jax.vmap(jax.random.PRNGKey)(np.asarray(self.seeds, np.uint32))

  def _check_first_timesteps(self, timestep: types.EnvironmentTimestep) -> None:
    """Checks that the first timesteps of environments in JAX are finite.

    Args:
      timestep: leaves [K, B, ...].
    """
    timestep = self.placement.fetch(timestep)
    for k, seed in enumerate(self.seeds):
      own = jax.tree.map(lambda x, k=k: x[k], timestep)
      timesteps.check_finite(own, self.env_name, f'reset, seed {seed}')

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
