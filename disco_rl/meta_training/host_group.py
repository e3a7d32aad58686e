"""Acts for a group of agents whose environments run on the host."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
from typing import Any

import chex
import jax
import numpy as np

from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import timesteps
from disco_rl.learning import actors
from disco_rl.learning import host_actors
from disco_rl.meta_training import footprint
from disco_rl.meta_training import trajectories

# For every own agent, θ and the keys of all steps.
Prepared = list[tuple[types.AgentParams, np.ndarray]]


class HostGroup:
  """The environments of a group's agents, one each, and their actors.

  Each of several processes has those of the agents on its devices, its own.
  """

  def __init__(
    self,
    actor: actors.HostActor,
    env: base.Environment,
    make_env: Callable[[int], base.Environment],
    seeds: Sequence[int],
    lanes: range,
    config: config_lib.Config,
    placement: parallel.Placement,
    acting_device: jax.Device | None,
    numbers: Sequence[int] | None = None,
  ):
    """Initialises the group; makes no further environments yet.

    Args:
      actor: an actor in `env`, whose programs all agents share.
      env: the environment of the first own agent; closed by this object.
      make_env: makes an environment of this process's streams from a seed.
      seeds: the seeds of the agents' environments, [n].
      lanes: which of the agents are this process's own.
      config: the sizes, over all devices.
      placement: the devices.
      acting_device: device of the networks that act; None for the agents' own.
      numbers: how messages number the agents, [n]; None for 0..n-1.
    """
    self._num_agents = len(seeds)
    self._num_envs = config.batching.num_envs
    self._lanes = lanes
    self._numbers = range(len(seeds)) if numbers is None else numbers
    self._config = config
    self._observation_spec = env.single_observation_spec()
    self._actor = actor
    self._host = host_actors.HostActors(
      actor, env, make_env, [seeds[k] for k in lanes]
    )
    self._placement = placement
    self._acting_device = acting_device
    self._starts = trajectories.starts(config)
    self._make_step_keys = jax.jit(
      jax.vmap(lambda rng: trajectories.step_keys(rng, config))
    )
    self._num_steps = self._starts[-1] + config.validation_length
    # What was reset last, with the keys, until it is acted from.
    self._fresh: tuple[np.ndarray, host_actors.States] | None = None
    self._visible_spec: Any = None

  def check_memory(self) -> None:
    """Raises a `ValueError` if observations of a meta-update do not fit."""
    footprint.check_observations(
      self._observation_spec,
      self._config,
      self._num_agents,
      self._placement.num_processes,
    )

  def reset(self, keys: chex.PRNGKey) -> host_actors.States:
    """Makes new environments and resets them.

    Args:
      keys: [n, ...], one per agent, see `MetaAgent.init`.

    Returns:
      The states of the own actors.
    """
    keys = np.asarray(keys)
    if self._fresh is None or not np.array_equal(self._fresh[0], keys):
      self._fresh = None
      states = self._host.reset(
        [trajectories.actor_keys(keys[k]) for k in self._lanes]
      )
      self._fresh = (keys, states)
      sizes = (self._num_agents, self._num_envs)
      self._visible_spec = jax.tree.map(
        lambda x: types.ArraySpec((*sizes, *x.shape[2:]), x.dtype),
        host_actors.stack_visible(states),
      )
    return self._fresh[1]

  def visible(self, states: host_actors.States) -> Any:
    """Returns what all agents see of their environments, leaves [n, B, ...].

    Args:
      states: the states of the own actors.
    """
    visible = host_actors.stack_visible(states)
    if self._placement.num_processes > 1:
      visible = self._placement.put_own(visible, parallel.BY_BATCH)
    return visible

  def visible_spec(self) -> Any:
    """Returns the specs of `visible`; resets if need be."""
    if self._visible_spec is None:
      self.reset(jax.random.split(jax.random.PRNGKey(0), self._num_agents))
    return self._visible_spec

  def rollouts_spec(self, params: types.AgentParams) -> types.ActorRollout:
    """Returns the specs of the rollouts of `act`.

    Args:
      params: specs of θ, leaves [n, ...].
    """
    own_params, own_state = jax.tree.map(
      lambda x: types.ArraySpec(x.shape[1:], x.dtype),
      (params, self.visible_spec()),
    )
    rollout = self._actor.rollout_spec(
      own_params, own_state, self._num_steps, self._starts
    )
    return jax.tree.map(
      lambda x: types.ArraySpec((self._num_agents, *x.shape), x.dtype),
      rollout,
    )

  def reset_agents(
    self,
    states: host_actors.States,
    is_over: np.ndarray,
    keys: chex.PRNGKey,
    meta_update: int,
  ) -> host_actors.States:
    """Resets the environments of some agents, which are not made again.

    Args:
      states: the states of the own actors.
      is_over: [own agents], bool, which of them are reset.
      keys: [n, ...], see `MetaAgent.init`.
      meta_update: number of the meta-update, for messages.

    Returns:
      The new states.
    """
    self._fresh = None
    new_states = list(states)
    for i in map(int, np.flatnonzero(is_over)):
      k = self._lanes[i]
      with self._naming(meta_update, k, 'reset'):
        new_states[i] = self._host.actors[i].init(
          *trajectories.actor_keys(keys[k])
        )
    return tuple(new_states)

  def prepare(self, params: types.AgentParams, keys: chex.PRNGKey) -> Prepared:
    """Copies what agents act with.

    To be called before a program is dispatched whose end `act` shall not wait
    for: what is computed on the same device must.

    Args:
      params: θ of all agents, leaves [n, ...].
      keys: [n, ...], the `act_rng` of `MetaAgent.meta_gradient`.

    Returns:
      θ and the keys of all steps, for every own agent.
    """
    step_keys = np.asarray(self._make_step_keys(keys))
    own_keys = [step_keys[k] for k in self._lanes]
    own_params = [self._placement.lane(params, k) for k in self._lanes]
    if self._acting_device is not None:
      own_params = jax.device_put(own_params, self._acting_device)
    return list(zip(own_params, own_keys, strict=True))

  def act(
    self, prepared: Prepared, states: host_actors.States, meta_update: int
  ) -> tuple[host_actors.States, types.ActorRollout]:
    """Acts for all trajectories of one meta-update.

    Args:
      prepared: from `prepare`.
      states: the states of the own actors.
      meta_update: number of the meta-update, for messages.

    Returns:
      The states after, and the steps for `MetaAgent.receive` on the devices,
      leaves [n, N·L + 2L, B, ...].
    """
    self._fresh = None
    new_states, rollouts = [], []
    for i, (params, step_keys) in enumerate(prepared):
      place = self._naming(meta_update, self._lanes[i])
      with place, self._on_acting_device():
        state, rollout = self._host.actors[i].unroll(
          params, states[i], step_keys, self._starts
        )
      new_states.append(state)
      rollouts.append(rollout)
    return tuple(new_states), self._placement.stack_rollouts(rollouts)

  def to_checkpoint(self, states: host_actors.States) -> host_actors.States:
    """Returns the states with snapshots of the environments that make them."""
    return self._host.to_checkpoint(states)

  def from_checkpoint(
    self, saved: host_actors.States
  ) -> tuple[host_actors.States, np.ndarray]:
    """Restores saved states; called by all processes.

    Args:
      saved: from `to_checkpoint`.

    Returns:
      The states, and for all agents, also those of other processes, whether
      their environments go on, [n], see `HostActors.from_checkpoint`.
    """
    self._fresh = None
    states, own_goes_on = self._host.from_checkpoint(saved)
    goes_on = self._placement.put_own(own_goes_on, parallel.BY_LANE)
    return states, self._placement.fetch(goes_on)

  def close(self) -> None:
    """Closes all environments."""
    self._host.close()

  def _on_acting_device(self) -> contextlib.AbstractContextManager[Any]:
    """Puts what is computed in a block on the acting device, if any."""
    if self._acting_device is None:
      return contextlib.nullcontext()
    return jax.default_device(self._acting_device)

  @contextlib.contextmanager
  def _naming(
    self, meta_update: int, agent: int, when: str = ''
  ) -> Iterator[None]:
    """Names meta-update and agent in errors of an environment."""
    place = f'meta-update {meta_update}, agent {self._numbers[agent]}'
    try:
      yield
    except timesteps.NonFiniteError as error:
      raise error.at(f'{place}, {when}' if when else place) from None
    except foreign.ForeignCodeError as error:
      raise type(error)(f'{error} ({place})') from error.__cause__
