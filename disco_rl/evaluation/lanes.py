"""Runs the iterations of all agents, with environments in JAX or on the host.

The agents of a population are lanes. `DeviceLanes` act in JAX, so that whole
iterations are one compiled program. `HostLanes` have one environment on the
host per agent, and call a compiled program after acting. Both have the same
methods, which `population.Population` calls.
"""

from collections.abc import Callable, Sequence
import functools
from typing import Any

import chex
import jax
import numpy as np

from disco_rl import parallel
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.environments import base
from disco_rl.environments import callbacks
from disco_rl.environments import timesteps
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import footprint
from disco_rl.learning import actors
from disco_rl.learning import episodes as episodes_lib
from disco_rl.learning import host_actors

# Puts a state, whose `actor` may be None, on the devices.
_Put = Callable[[agent_loop.LoopState], agent_loop.LoopState]


class DeviceLanes:
  """Runs agents in environments in JAX, inside one compiled program."""

  def __init__(self, run: Any, placement: parallel.Placement, env_name: str):
    """Initialises the lanes.

    Args:
      run: `(eta, state, num_iterations) -> state, metrics`, from `jax.jit`.
      placement: the devices.
      env_name: name of the environment, for messages.
    """
    self._run = run
    self._placement = placement
    self._env_name = env_name

  def reset(self, keys: chex.PRNGKey) -> tuple[None, None]:
    """Returns (None, None): the compiled initialisation resets environments."""
    del keys
    return None, None

  def trace(
    self,
    eta: types.MetaParams,
    spec: agent_loop.LoopState,
    num_iterations: int,
  ) -> tuple[None, Any]:
    """Traces the program of `run` for its first call.

    Args:
      eta: the rule's parameters η.
      spec: specs of the state of all agents.
      num_iterations: the argument of the first `run`.

    Returns:
      None, since rollouts are inside the program; and the traced program.
    """
    return None, self._run.trace(eta, spec, num_iterations)

  def run(
    self,
    eta: types.MetaParams,
    state: agent_loop.LoopState,
    num_iterations: int,
  ) -> tuple[agent_loop.LoopState, dict[str, np.ndarray]]:
    """Runs some iterations, see `population.Population.run`."""
    with callbacks.boundary(self._env_name):
      state, metrics = self._run(eta, state, num_iterations)
      metrics = self._placement.fetch(metrics)
    return state, {name: x.T for name, x in metrics.items()}

  def to_checkpoint(self, state: agent_loop.LoopState) -> agent_loop.LoopState:
    """Returns the state unchanged, since all of it can be saved."""
    return state

  def from_checkpoint(
    self, saved: agent_loop.LoopState, put: _Put
  ) -> agent_loop.LoopState:
    """Returns the state to resume from, on the devices."""
    return put(saved)

  def close(self) -> None:
    """Does nothing: environments in JAX have no resources."""


class HostLanes:
  """Runs agents with one environment on the host each."""

  def __init__(
    self,
    learn: Any,
    placement: parallel.Placement,
    actor: actors.HostActor,
    env: base.Environment,
    make_env: Callable[[int], base.Environment],
    seeds: Sequence[int],
    batching: batching_lib.Batching,
    *,
    overlap_acting: bool = False,
  ):
    """Initialises the lanes; makes no further environments yet.

    Args:
      learn: `(eta, state, rollouts, keys) -> state, metrics`, from `jax.jit`.
      placement: the devices.
      actor: an actor in `env`, whose programs all lanes share.
      env: the environment of the first seed; closed by this object.
      make_env: makes an environment from a seed.
      seeds: the K seeds.
      batching: the sizes of one agent's batches, over all devices.
      overlap_acting: whether acting overlaps with learning, see
        `population.Population`.
    """
    self._learn = learn
    self._placement = placement
    self._actor = actor
    self._host = host_actors.HostActors(actor, env, make_env, seeds)
    self._batching = batching
    self._overlap_acting = overlap_acting

  def reset(self, keys: chex.PRNGKey) -> tuple[Any, host_actors.States]:
    """Makes new environments and resets them.

    Args:
      keys: [K, ...], one per agent, see `agent_loop.actor_rng`.

    Returns:
      The states of all actors, stacked, leaves [K, ...], without those of their
      environments, which may be any objects; and the state of each actor.
    """
    states = self._host.reset(
      [jax.random.split(agent_loop.actor_rng(key)) for key in keys]
    )
    return host_actors.stack_visible(states), states

  def trace(
    self,
    eta: types.MetaParams,
    spec: agent_loop.LoopState,
    num_iterations: int,
  ) -> tuple[Any, Any]:
    """Traces the program that `run` calls after acting.

    Args:
      eta: the rule's parameters η.
      spec: specs of the state of all agents.
      num_iterations: not used; an iteration is one call.

    Returns:
      Specs of the rollouts of all agents, and the traced program.
    """
    del num_iterations
    rollout = footprint.host_rollout(
      self._actor, spec, self._batching.rollout_length
    )
    rollouts = (rollout,) * len(self._host.seeds)
    state = spec._replace(actor=None)
    return rollouts, self._learn.trace(eta, state, rollouts, spec.rng)

  def run(
    self, eta: types.MetaParams, state: Any, num_iterations: int
  ) -> tuple[agent_loop.LoopState, dict[str, np.ndarray]]:
    """Runs some iterations, see `population.Population.run`."""
    keys = self._split_keys(state.rng)
    done = int(state.iteration)
    actor_states, rollouts = self._act(
      self._params_by_agent(state), state.actor, keys.act, done + 1
    )
    all_metrics = []
    for i in range(num_iterations):
      is_last = i == num_iterations - 1
      params = None
      if self._overlap_acting and not is_last:
        params = self._params_by_agent(state)
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
        keys = self._split_keys(keys.carry)
        actor_states, rollouts = self._act(
          self._params_by_agent(state) if params is None else params,
          actor_states,
          keys.act,
          done + i + 2,
        )
    return state, jax.tree.map(
      lambda *xs: np.stack(xs), *self._placement.fetch(all_metrics)
    )

  def to_checkpoint(self, state: agent_loop.LoopState) -> agent_loop.LoopState:
    """Returns the state with snapshots of the environments that make them."""
    return state._replace(actor=self._host.to_checkpoint(state.actor))

  def from_checkpoint(
    self, saved: agent_loop.LoopState, put: _Put
  ) -> agent_loop.LoopState:
    """Returns the state to resume from; environments may be reset."""
    states, goes_on = self._host.from_checkpoint(saved.actor)
    episodes = episodes_lib.keep(saved.episodes, goes_on)
    learning = put(saved._replace(actor=None, episodes=episodes))
    return learning._replace(actor=states)

  def close(self) -> None:
    """Closes all environments."""
    self._host.close()

  def _split_keys(self, rng: types.Array) -> agent_loop.Keys:
    """Splits the keys of all agents, for the host.

    Args:
      rng: [K, ...].

    Returns:
      Keys [K, ...]; those of `act` for all steps, [K, T+1, ...].
    """
    return agent_loop.Keys(
      *jax.device_get(_split_keys(rng, self._batching.rollout_length))
    )

  def _params_by_agent(
    self, state: agent_loop.LoopState
  ) -> list[types.AgentParams]:
    """Copies every agent's parameters, since the state will be donated."""
    return _unstack(
      self._placement.own(state.learner.params), len(self._host.seeds)
    )

  def _act(
    self,
    params: Sequence[types.AgentParams],
    states: Any,
    keys: np.ndarray,
    iteration: int,
  ) -> tuple[host_actors.States, tuple[types.ActorRollout, ...]]:
    """Acts for one rollout of every agent, with leaves [T+1, B, ...]."""
    new_states, rollouts = [], []
    for k, actor in enumerate(self._host.actors):
      try:
        state, rollout = actor.unroll(params[k], states[k], keys[k])
      except timesteps.NonFiniteError as error:
        place = f'iteration {iteration}, seed {self._host.seeds[k]}'
        raise error.at(place) from None
      new_states.append(state)
      rollouts.append(rollout)
    if len(self._placement.devices) > 1:
      rollouts = self._placement.put_own(rollouts, parallel.ROLLOUT)
    return tuple(new_states), tuple(rollouts)


Lanes = DeviceLanes | HostLanes


@functools.partial(jax.jit, static_argnums=1)
def _split_keys(rng: types.Array, num_steps: int) -> agent_loop.Keys:
  """Splits keys [K, ...]; those of `act` into one per step."""
  keys = jax.vmap(agent_loop.Keys.split)(rng)
  step_keys = jax.vmap(lambda key: jax.random.split(key, num_steps))(keys.act)
  return keys._replace(act=step_keys)


@functools.partial(jax.jit, static_argnums=1)
def _unstack(tree: Any, number: int) -> list[Any]:
  """Divides leaves [K, ...] into K trees, in one program."""
  return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(number)]
