"""Actors: act in environments in JAX or on the host, with one interface.

```python
actor = actors.make(agent, env)
state = actor.init(env_rng, net_rng)
state, rollout = actor.unroll(params, state, step_keys)
```

A `DeviceActor` is pure, so that acting can be compiled together with learning.
A `HostActor` steps an environment on the host; each observation is sent to the
device once, when its action is chosen, and is collected there.
"""

from collections.abc import Sequence
import copy
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import layouts
from disco_rl.environments import streams
from disco_rl.environments import timesteps
from disco_rl.learning import faults

# Fields of `ActorState` that belong to the environment alone.
PRIVATE = frozenset(('env_state',))


class ActorState(NamedTuple):
  """The state of an actor, carried from one rollout to the next."""

  env_state: Any
  timestep: types.EnvironmentTimestep  # Leaves [B, ...].
  net_state: types.HaikuState


class Policy(Protocol):
  """The methods of `agent.Agent` that an actor calls."""

  def initial_actor_state(
    self, rng: chex.PRNGKey, batch_size: int
  ) -> types.HaikuState:
    """Makes the network state before the first step."""

  def actor_step(
    self,
    actor_params: types.AgentParams,
    rng: chex.PRNGKey,
    timestep: types.EnvironmentTimestep,
    actor_state: types.HaikuState,
  ) -> tuple[types.ActorTimestep, types.HaikuState]:
    """Chooses actions for one step of a batch of environments."""


class _Actor:
  """The common base class of both actors."""

  is_pure = False

  def __init__(
    self,
    policy: Policy,
    env: base.Environment,
    outputs: Sequence[str] = ('logits',),
  ):
    """Initialises the actor.

    Args:
      policy: the agent.
      env: its environment.
      outputs: network outputs that a rollout keeps; others are not computed.
    """
    self._policy = policy
    self._env = env
    self._outputs = tuple(outputs)

  @property
  def num_envs(self) -> int:
    """Number of streams of the environment."""
    return self._env.batch_size

  @property
  def env_name(self) -> str:
    """Name of the environment, for messages."""
    return getattr(self._env, 'name', type(self._env).__name__)

  def task_facts(self, state: ActorState | None) -> base.TaskFacts:
    """Returns facts about the agent's task; `state` is None on the host."""
    return self._env.task_facts(state and state.env_state)

  def init(
    self,
    env_rng: chex.PRNGKey,
    net_rng: chex.PRNGKey,
    shard_rng: chex.PRNGKey | None = None,
  ) -> ActorState:
    """Makes the state before the first step.

    Args:
      env_rng: key of the environment, over all shards of the batch.
      net_rng: key of the network's state.
      shard_rng: key of the streams of this shard; None if there is only one.
    """
    env_state, timestep = self._env.reset_shard(
      env_rng, env_rng if shard_rng is None else shard_rng
    )
    net_state = self._policy.initial_actor_state(net_rng, self._env.batch_size)
    return ActorState(env_state, timestep, net_state)

  def rollout_spec(
    self, params: types.AgentParams, state: ActorState, num_steps: int
  ) -> types.ActorRollout:
    """Returns the shapes of a rollout, without acting.

    Args:
      params: θ, arrays or specs.
      state: any state of this actor, arrays or specs.
      num_steps: T+1.

    Returns:
      Specs [T+1, B, ...].
    """
    step, _ = jax.eval_shape(
      self._act, params, jax.random.PRNGKey(0), state.timestep, state.net_state
    )
    return jax.tree.map(
      lambda x: types.ArraySpec((num_steps, *x.shape), x.dtype),
      types.ActorRollout.from_timestep(step),
    )

  def close(self) -> None:
    """Closes the environment."""
    self._env.close()

  def _act(
    self,
    params: types.AgentParams,
    rng: chex.PRNGKey,
    timestep: types.EnvironmentTimestep,
    net_state: types.HaikuState,
  ) -> tuple[types.ActorTimestep, types.HaikuState]:
    """Chooses actions, and drops network outputs that are not kept."""
    step, net_state = self._policy.actor_step(params, rng, timestep, net_state)
    kept = {name: step.agent_outs[name] for name in self._outputs}
    return step.replace(agent_outs=kept), net_state


class DeviceActor(_Actor):
  """Acts in an environment in JAX; `init` and `unroll` are pure."""

  is_pure = True

  def unroll(
    self,
    params: types.AgentParams,
    state: ActorState,
    step_keys: chex.PRNGKey,
  ) -> tuple[ActorState, types.ActorRollout]:
    """Acts for one rollout.

    Args:
      params: θ.
      state: from `init` or the last rollout.
      step_keys: T+1 keys, one per step.

    Returns:
      The state after, and a rollout with leaves [T+1, B, ...].
    """
    state, rollout, _ = self._unroll(params, state, step_keys)
    return state, rollout

  def unroll_and_check(
    self,
    params: types.AgentParams,
    state: ActorState,
    step_keys: chex.PRNGKey,
    axis_name: Any | None = None,
  ) -> tuple[ActorState, types.ActorRollout, jax.Array]:
    """Acts for one rollout, and checks what the environment returned.

    Args:
      params: θ.
      state: from `init` or the last rollout.
      step_keys: T+1 keys, one per step.
      axis_name: axis over which the batch is sharded, or None.

    Returns:
      The same as `unroll`, and the result of `faults.first`.
    """
    state, rollout, step_types = self._unroll(params, state, step_keys)
    fault = faults.first(rollout, step_types, state.timestep, axis_name)
    return state, rollout, fault

  def _unroll(
    self,
    params: types.AgentParams,
    state: ActorState,
    step_keys: chex.PRNGKey,
  ) -> tuple[ActorState, types.ActorRollout, types.Array]:
    """Acts for one rollout; returns its step types [T+1, B], too."""

    def step(
      state: ActorState, rng: chex.PRNGKey
    ) -> tuple[ActorState, tuple[types.ActorTimestep, types.Array]]:
      acted, net_state = self._act(params, rng, state.timestep, state.net_state)
      env_state, timestep = self._env.step(state.env_state, acted.actions)
      new_state = ActorState(env_state, timestep, net_state)
      return new_state, (acted, state.timestep.step_type)

    state, (steps, step_types) = jax.lax.scan(step, state, step_keys)
    return state, types.ActorRollout.from_timestep(steps), step_types


class HostActor(_Actor):
  """Acts in an environment on the host, one step at a time."""

  def __init__(
    self,
    policy: Policy,
    env: base.Environment,
    outputs: Sequence[str] = ('logits',),
    share: streams.Share | None = None,
  ):
    """Initialises the actor; the first rollout compiles.

    Args:
      policy: the agent.
      env: its environment.
      outputs: the network outputs that a rollout keeps.
      share: the streams of `env` among those of all processes; None with one
        process.
    """
    super().__init__(policy, env, outputs)
    self._share = share
    self._step = jax.jit(self._act_and_collect, donate_argnums=4)
    self._make_empty = jax.jit(self._empty, static_argnums=2)
    self._snapshot_layout: Any = None

  def with_env(self, env: base.Environment) -> 'HostActor':
    """Returns an actor in another environment that shares compiled programs."""
    other = copy.copy(self)
    other._env = env
    other._snapshot_layout = None
    return other

  def rollout_spec(
    self,
    params: types.AgentParams,
    state: ActorState,
    num_steps: int,
    starts: Sequence[int] = (0,),
  ) -> types.ActorRollout:
    """Returns the shapes of a rollout of `unroll`, without acting.

    Args:
      params: θ, arrays or specs.
      state: any state of this actor, arrays or specs.
      num_steps: T+1.
      starts: see `unroll`.

    Returns:
      Specs [T+1, B, ...], and of `states` [S, B, ...].
    """
    spec = super().rollout_spec(params, state, num_steps)
    states = jax.tree.map(
      lambda x: types.ArraySpec((len(starts), *x.shape[1:]), x.dtype),
      spec.states,
    )
    return spec.replace(states=states)

  def unroll(
    self,
    params: types.AgentParams,
    state: ActorState,
    step_keys: chex.PRNGKey,
    starts: Sequence[int] = (0,),
  ) -> tuple[ActorState, types.ActorRollout]:
    """Acts for one rollout, with the same keys as a `DeviceActor`.

    Args:
      params: θ.
      state: from `init` or the last rollout.
      step_keys: T+1 keys, one per step.
      starts: the S steps before which the network's state is kept, ascending:
        the first steps of the trajectories that the rollout is divided into.

    Returns:
      The state after, and a rollout on the device with leaves [T+1, B, ...],
      except `states`, which has the network's states at `starts`, [S, B, ...].
    """
    env_state, timestep, net_state = state
    first_states = []
    keys = np.asarray(step_keys)
    visible = state._replace(env_state=None)
    rollout = self._make_empty(params, visible, len(keys))
    for t, rng in enumerate(keys):
      if t in starts:
        first_states.append(net_state)
      rollout, actions, net_state = self._step(
        params, rng, timestep, net_state, rollout, t
      )
      try:
        env_state, timestep = self._env.step(env_state, np.asarray(actions))
      except timesteps.NonFiniteError as error:
        raise error.at(faults.step_of_rollout(t + 1)) from None
    state = ActorState(env_state, timestep, net_state)
    return state, rollout.replace(states=utils.tree_stack(first_states))

  def to_checkpoint(self, state: ActorState) -> ActorState:
    """Returns the state in a form that can be saved.

    Args:
      state: from `init` or the last rollout.

    Returns:
      The state with a snapshot as `env_state`; None if the environment makes
      none.

    Raises:
      InvalidEnvironmentError: if the snapshot has another structure than the
        first one, so that it could not be restored.
    """
    snapshot = self._env.snapshot()
    layout = layouts.of_snapshot(snapshot)
    if self._snapshot_layout is None:
      self._snapshot_layout = layout
    if layout != self._snapshot_layout:
      raise foreign.InvalidEnvironmentError(
        f'{self.env_name}: the arrays of its snapshot have other names, shapes '
        'or types than before, so that the run could not be resumed from it. '
        'They must always be the same, see disco_rl/environments/base.py'
      )
    return state._replace(env_state=snapshot)

  def from_checkpoint(self, saved: ActorState) -> tuple[ActorState, bool]:
    """Restores a saved state.

    Args:
      saved: from `to_checkpoint`.

    Returns:
      The state, and whether its episodes continue. Without a snapshot, the
      environment and the network are reset instead.
    """
    if saved.env_state is None:
      env_rng, net_rng = jax.random.split(jax.random.PRNGKey(0))
      return self.init(env_rng, net_rng), False
    return saved._replace(env_state=self._env.restore(saved.env_state)), True

  def _empty(
    self, params: types.AgentParams, state: ActorState, num_steps: int
  ) -> types.ActorRollout:
    """Makes the arrays that a rollout is collected in."""
    spec = self.rollout_spec(params, state, num_steps).replace(states=None)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), spec)

  def _act_and_collect(
    self,
    params: types.AgentParams,
    rng: chex.PRNGKey,
    timestep: types.EnvironmentTimestep,
    net_state: types.HaikuState,
    collected: types.ActorRollout,
    t: int,
  ) -> tuple[types.ActorRollout, types.Array, types.HaikuState]:
    """Acts once, and writes step `t` of the rollout in place."""
    acted, net_state = self._act(params, rng, timestep, net_state)
    if self._share is not None:
      acted = acted.replace(actions=self._share.sample(rng, acted.logits))
    collected = jax.tree.map(
      lambda steps, x: steps.at[t].set(x),
      collected,
      types.ActorRollout.from_timestep(acted.replace(states=None)),
    )
    return collected, acted.actions, net_state


Actor = DeviceActor | HostActor


def make(
  policy: Policy,
  env: base.Environment,
  outputs: Sequence[str] = ('logits',),
  share: streams.Share | None = None,
) -> Actor:
  """Makes the actor for an environment; arguments as in the actors."""
  if env.is_jittable:
    return DeviceActor(policy, env, outputs)
  return HostActor(policy, env, outputs, share)
