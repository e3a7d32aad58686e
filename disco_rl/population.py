"""Many agents trained side by side, each one's batch spread over devices.

K seeds are K independent agents in one program; D devices each act in their
share of every agent's environments and learn from their share of its
replay, with gradients and statistics averaged.

  env_fn = registry.environment_fn('catch')
  population = Population(env_fn, settings, experiment.Config(), seeds=(0, 1))
  state = population.init()
  state, metrics = population.run(eta, state, num_iterations=100)
"""

from collections.abc import Sequence
from typing import Any

import chex
import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import acting
from disco_rl import agent as agent_lib
from disco_rl import compat
from disco_rl import episode_returns
from disco_rl import experiment as experiment_lib
from disco_rl import replay
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import registry

_AXIS = 'batch'
_P = jax.sharding.PartitionSpec


class Population:
  """Compiles and runs one experiment for several seeds on several devices.

  Attributes:
    agent: the agent they all are copies of.
    config: the sizes of each one's experiment, over all devices.
    seeds: one per agent.
    devices: where the batch is spread.
  """

  def __init__(
    self,
    env_fn: registry.EnvironmentFn,
    agent_settings: config_dict.ConfigDict,
    config: experiment_lib.Config,
    *,
    seeds: Sequence[int] = (0,),
    devices: Sequence[jax.Device] | None = None,
    vectorize: bool | None = None,
  ):
    """Builds everything; compiles nothing yet.

    Args:
      env_fn: makes an environment from a batch size and a seed, see
        `registry.environment_fn`. One in JAX is made once; of those on the
        host each agent has its own.
      agent_settings: see `agent.get_settings_disco` and its siblings.
      config: the sizes.
      seeds: K different numbers; agent k is the same whatever the others are.
      devices: D of them; by default as many of this process's as the
        environments can be spread over.
      vectorize: whether seeds are computed in lockstep (vmap) or in turns
        within the one program; None for the faster, which on CPU is in turns
        and elsewhere in lockstep.
    """
    env_fn = registry.as_environment_fn(env_fn)
    self.config = config
    self.seeds = _check_seeds(seeds)
    self.devices = _choose_devices(devices, config)
    if vectorize is None:
      vectorize = self.devices[0].platform != 'cpu'
    self._vectorize = vectorize
    own_config = config.per_device(len(self.devices))

    env = env_fn(config.num_envs, self.seeds[0])
    self.is_jittable = env.is_jittable
    self._env_fn = env_fn
    self._host_envs: list[base.Environment] = []
    self._are_host_envs_new = True
    if self.is_jittable:
      # Every device acts in its own share of them.
      env = env_fn(own_config.num_envs, self.seeds[0])
    else:
      others = [env_fn(config.num_envs, seed) for seed in self.seeds[1:]]
      self._host_envs = [env, *others]

    axis_name = _AXIS if len(self.devices) > 1 else None
    self.agent = agent_lib.Agent(
      single_observation_spec=env.single_observation_spec(),
      single_action_spec=env.single_action_spec(),
      agent_settings=agent_settings,
      batch_axis_name=axis_name,
    )
    self._experiment = experiment_lib.Experiment(
      self.agent, env if self.is_jittable else None, own_config, axis_name
    )
    self._unroll_on_host = acting.HostUnroll(self.agent, config.rollout_length)
    self._compile()

  def init(self) -> experiment_lib.ExperimentState:
    """Fresh agents, leaves [K, ...] but for the two counters.

    Environments on the host are made anew if they were used before, so that
    the same seeds have the same beginning.

    Returns:
      The state. `rng`, `learner` and the counters are the same on all devices;
      the rest is spread over them along its batch axis, 1.
    """
    keys = jax.numpy.stack([jax.random.PRNGKey(seed) for seed in self.seeds])
    if self.is_jittable:
      return self._init_checked(keys, None)
    if not self._are_host_envs_new:
      self.close()
      self._host_envs = [
        self._env_fn(self.config.num_envs, seed) for seed in self.seeds
      ]
    self._are_host_envs_new = False
    actors = tuple(
      acting.initial_actor_state(self.agent, env, jax.random.split(key, 3)[1])
      for env, key in zip(self._host_envs, keys, strict=True)
    )
    # Only the shapes of what is not the environments' own are looked at.
    shown = [actor._replace(env_state=None) for actor in actors]
    stacked = jax.tree.map(lambda *xs: np.stack(xs), *shown)
    return self._init_checked(keys, stacked)._replace(actor=actors)

  def run(
    self,
    update_rule_params: types.MetaParams,
    state: experiment_lib.ExperimentState,
    num_iterations: int,
  ) -> tuple[experiment_lib.ExperimentState, dict[str, np.ndarray]]:
    """Runs some iterations; `state` is used up.

    Args:
      update_rule_params: η.
      state: from `init` or the last `run`.
      num_iterations: N; another number compiles another program.

    Returns:
      The state after, and metrics on the host, name to [N, K].
    """
    if num_iterations < 1:
      raise ValueError(f'num_iterations must be >= 1, got {num_iterations}')
    if self.is_jittable:
      state, metrics = self._run(update_rule_params, state, num_iterations)
      return state, {k: v.T for k, v in jax.device_get(metrics).items()}

    return self._run_on_host(update_rule_params, state, num_iterations)

  def to_save(
    self, state: experiment_lib.ExperimentState
  ) -> experiment_lib.ExperimentState:
    """The state as a checkpoint keeps it: with that of the environments.

    Args:
      state: from `init` or `run`; not used up.

    Returns:
      The same, where environments on the host show their state if they can.
    """
    if self.is_jittable:
      return state
    actors = tuple(
      actor._replace(env_state=env.snapshot())
      for actor, env in zip(state.actor, self._host_envs, strict=True)
    )
    return state._replace(actor=actors)

  def restored(
    self, saved: experiment_lib.ExperimentState
  ) -> experiment_lib.ExperimentState:
    """A state to go on from, from one that `to_save` made.

    Args:
      saved: with leaves on the host or anywhere.

    Returns:
      The state. Environments on the host that cannot be put back to where they
      were (their `snapshot` is None) begin new episodes.
    """
    if self.is_jittable:
      return self._place(saved)
    self._are_host_envs_new = False
    actors = []
    begin_anew = []
    for actor, env in zip(saved.actor, self._host_envs, strict=True):
      begin_anew.append(actor.env_state is None)
      if actor.env_state is None:
        actor = acting.initial_actor_state(
          self.agent, env, jax.random.PRNGKey(0)
        )
      else:
        actor = actor._replace(env_state=env.restore(actor.env_state))
      actors.append(actor)
    # The episodes that were cut off do not go on in the new ones.
    episodes = jax.tree.map(
      lambda old, new: np.where(np.asarray(begin_anew)[:, None], new, old),
      saved.episodes,
      episode_returns.init(self.config.num_envs),
    )
    learning = self._place(saved._replace(actor=None, episodes=episodes))
    return learning._replace(actor=tuple(actors))

  def close(self) -> None:
    """Frees what environments on the host hold."""
    for env in self._host_envs:
      env.close()

  def _init_checked(
    self, keys: chex.PRNGKey, actors: Any
  ) -> experiment_lib.ExperimentState:
    """Fresh agents, if this machine has room for them."""
    replay.check_fits(jax.eval_shape(self._init, keys, actors).buffer)
    if len(self.devices) == 1 and keys.devices() != set(self.devices):
      # All that follows is computed where its arguments are.
      keys = jax.device_put(keys, self.devices[0])
    return self._init(keys, actors)

  def _run_on_host(
    self, eta: types.MetaParams, state: Any, num_iterations: int
  ) -> tuple[experiment_lib.ExperimentState, dict[str, np.ndarray]]:
    """`run` with environments on the host."""
    keys = _next_keys(state.rng)
    actors, rollouts = self._act_on_host(
      state.learner.params, state.actor, keys[:, 1]
    )
    overlap = self.config.overlap_acting
    all_metrics = []
    for i in range(num_iterations):
      is_last = i == num_iterations - 1
      if overlap and not is_last:
        # Copied, since learning uses up the state.
        params = jax.tree.map(jax.numpy.copy, state.learner.params)
      # What goes to the devices does not include the environments.
      state, metrics = self._learn(
        eta, state._replace(rng=keys[:, 0], actor=None), rollouts, keys[:, 2]
      )
      state = state._replace(actor=actors)
      all_metrics.append(metrics)
      if is_last:
        break
      if not overlap:
        params = state.learner.params
      # Calls return before their work is done: what is acted here with the
      # parameters of before, is acted while the learner learns.
      keys = _next_keys(keys[:, 0])
      actors, rollouts = self._act_on_host(params, actors, keys[:, 1])
    return state, jax.tree.map(
      lambda *xs: np.stack(xs), *jax.device_get(all_metrics)
    )

  def _act_on_host(
    self, params: types.AgentParams, actors: Any, keys: np.ndarray
  ) -> tuple[tuple[acting.ActorState, ...], types.ActorRollout]:
    """One rollout of every agent; rollouts with leaves [K, T+1, B, ...]."""
    new_actors, rollouts = [], []
    for k, env in enumerate(self._host_envs):
      own = jax.tree.map(lambda x, k=k: x[k], params)
      actor, rollout = self._unroll_on_host(env, own, actors[k], keys[k])
      new_actors.append(actor)
      rollouts.append(rollout)
    return tuple(new_actors), jax.tree.map(lambda *xs: np.stack(xs), *rollouts)

  def _compile(self) -> None:
    """Maps the functions of one agent over seeds, and spreads over devices."""
    experiment = self._experiment
    whole: Any = _P()
    by_batch: Any = _P(None, _AXIS)  # Axis 0 is that of the seeds.
    buffer = None
    if not self.config.on_policy:
      buffer = replay.ReplayState(data=by_batch, num_added=whole)
    state_specs = experiment_lib.ExperimentState(
      iteration=whole,
      rng=whole,
      learner=whole,
      actor=by_batch,
      episodes=by_batch,
      buffer=buffer,
    )
    self._state_specs = state_specs

    def init(keys: chex.PRNGKey, actors: Any) -> Any:
      counters, rest = self._over_seeds(
        lambda key, actor: _split_counters(experiment.init(key, actor)),
        keys,
        actors,
      )
      return _join_counters(_first(counters), rest)

    def advance(function: Any, state: Any, *args: Any) -> Any:
      """Maps a function from (state, *args) to (state, metrics)."""
      counters, rest = _split_counters(state)

      def advance_one(rest: Any, *args: Any) -> Any:
        new_state, metrics = function(_join_counters(counters, rest), *args)
        return _split_counters(new_state), metrics

      # The counters are the same for all seeds. Not mapping over them keeps
      # what depends on them (when to learn, where to write) one decision.
      (counters, rest), metrics = self._over_seeds(advance_one, rest, *args)
      return _join_counters(_first(counters), rest), metrics

    def run(eta: types.MetaParams, state: Any, num_iterations: int) -> Any:
      def run_chunk(eta: types.MetaParams, state: Any) -> Any:
        run_one = lambda state: experiment.run(eta, state, num_iterations)
        return advance(run_one, state)

      return self._spread(run_chunk, (_P(), state_specs), (state_specs, _P()))(
        eta, state
      )

    def learn(
      eta: types.MetaParams, state: Any, rollouts: Any, keys: Any
    ) -> Any:
      learn_one = lambda *args: experiment.learn(eta, *args)
      return advance(learn_one, state, rollouts, keys)

    self._init = jax.jit(
      self._spread(init, (_P(), _P(None, _AXIS)), state_specs)
    )
    self._run = jax.jit(run, static_argnums=2, donate_argnums=1)
    self._learn = jax.jit(
      self._spread(
        learn,
        (_P(), state_specs, _P(None, None, _AXIS), _P()),
        (state_specs, _P()),
      ),
      donate_argnums=1,
    )

  def _over_seeds(self, function: Any, *args: Any) -> Any:
    """Maps over axis 0 of all arguments."""
    if self._vectorize:
      return jax.vmap(function)(*args)
    return jax.lax.map(lambda args: function(*args), args)

  def _spread(self, function: Any, in_specs: Any, out_specs: Any) -> Any:
    """`function` on all devices; itself where there is only one."""
    if len(self.devices) == 1:
      return function
    mesh = jax.sharding.Mesh(np.asarray(self.devices), (_AXIS,))
    # Gradients are averaged by hand, in the learner step.
    return compat.shard_map(function, mesh, in_specs, out_specs)

  def _place(self, state: Any) -> Any:
    """Puts a state on the devices, each part as `run` returns it."""
    if len(self.devices) == 1:
      return jax.device_put(state, self.devices[0])
    mesh = jax.sharding.Mesh(np.asarray(self.devices), (_AXIS,))
    shardings = jax.tree.map(
      lambda spec: jax.sharding.NamedSharding(mesh, spec), self._state_specs
    )
    return jax.device_put(state, shardings)


def _next_keys(rng: types.Array) -> np.ndarray:
  """Keys [K, ...] to [K, 3, ...]: to carry on, to act, to learn."""
  return np.asarray(jax.vmap(lambda key: jax.random.split(key, 3))(rng))


def _split_counters(state: Any) -> tuple[Any, Any]:
  """What is the same for all seeds, and the rest."""
  buffer, num_added = state.buffer, None
  if buffer is not None:
    num_added = buffer.num_added
    buffer = buffer._replace(num_added=None)
  rest = state._replace(iteration=None, buffer=buffer)
  return (state.iteration, num_added), rest


def _join_counters(counters: Any, rest: Any) -> experiment_lib.ExperimentState:
  """Undoes `_split_counters`."""
  iteration, num_added = counters
  buffer = rest.buffer
  if buffer is not None:
    buffer = buffer._replace(num_added=num_added)
  return rest._replace(iteration=iteration, buffer=buffer)


def _first(tree: Any) -> Any:
  return jax.tree.map(lambda x: x[0], tree)


def _check_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
  seeds = tuple(int(seed) for seed in seeds)
  if not seeds or len(set(seeds)) != len(seeds):
    raise ValueError(f'seeds must be one or more different numbers: {seeds}')
  if any(not 0 <= seed < 2**31 for seed in seeds):
    raise ValueError(f'seeds must be between 0 and 2**31 - 1, got {seeds}')
  return seeds


def _choose_devices(
  devices: Sequence[jax.Device] | None, config: experiment_lib.Config
) -> tuple[jax.Device, ...]:
  """The devices asked for, or as many as divide environments and batch."""
  if devices is not None:
    if not devices:
      raise ValueError('devices must be one or more, or None for all')
    return tuple(devices)
  available = jax.local_devices()
  fitting = filter(config.fits_devices, range(1, len(available) + 1))
  return tuple(available[: max(fitting)])
