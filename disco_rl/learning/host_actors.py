"""Actors on the host, one per agent, each with its own environment.

host = HostActors(actor, env, make_env, seeds)
states = host.reset(keys)
state, rollout = host.actors[k].unroll(params, states[k], step_keys)
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from disco_rl.environments import base
from disco_rl.learning import actors

States = tuple[actors.ActorState, ...]  # One per agent.


class HostActors:
  """Makes, resets, saves and closes the environments of several agents.

  Attributes:
    actors: one per agent; empty before the first reset.
    seeds: the seeds of their environments.
  """

  def __init__(
    self,
    actor: actors.HostActor,
    env: base.Environment,
    make_env: Callable[[int], base.Environment],
    seeds: Sequence[int],
  ):
    """Stores its arguments; makes no further environments yet.

    Args:
      actor: an actor in `env`, whose programs all agents share.
      env: the environment of the first seed; closed by this object.
      make_env: makes an environment from a seed.
      seeds: the seeds of the agents' environments.
    """
    self.actors: list[actors.HostActor] = []
    self.seeds = tuple(seeds)
    self._actor = actor
    self._unused_env: base.Environment | None = env
    self._make_env = make_env

  def reset(self, keys: Sequence[Any]) -> States:
    """Makes new environments and resets them.

    Args:
      keys: for every agent a pair of keys, of its environment and of the state
        of its network, see `actors.HostActor.init`.

    Returns:
      The states of all actors.
    """
    self._make_actors()
    return tuple(
      actor.init(*own) for actor, own in zip(self.actors, keys, strict=True)
    )

  def to_checkpoint(self, states: States) -> States:
    """Returns the states with snapshots of the environments that make them."""
    return tuple(
      actor.to_checkpoint(own)
      for actor, own in zip(self.actors, states, strict=True)
    )

  def from_checkpoint(self, saved: States) -> tuple[States, np.ndarray]:
    """Restores the saved states.

    Args:
      saved: from `to_checkpoint`.

    Returns:
      The states, and which environments go on, [agents], bool; all others were
      reset.
    """
    if not self.actors:
      self._make_actors()
    restored = [
      # Those of another number of processes are not restored at all.
      actor.from_checkpoint(
        own if jax.tree.leaves(own) else own._replace(env_state=None)
      )
      for actor, own in zip(self.actors, saved, strict=True)
    ]
    goes_on = np.asarray([go_on for _, go_on in restored])
    return tuple(state for state, _ in restored), goes_on

  def close(self) -> None:
    """Closes all environments."""
    for actor in self.actors:
      actor.close()
    if self._unused_env is not None:
      self._unused_env.close()

  def _make_actors(self) -> None:
    """Makes one new environment and actor per seed."""
    for actor in self.actors:
      actor.close()
    self.actors = []
    for seed in self.seeds:
      env, self._unused_env = self._unused_env, None
      if env is None:
        env = self._make_env(seed)
      self.actors.append(self._actor.with_env(env))


def stack_visible(states: States) -> Any:
  """Stacks the parts of actors' states that agents see.

  Args:
    states: one per agent.

  Returns:
    An `ActorState` with leaves [agents, ...], without the states of
    environments, which may be any objects.
  """
  visible = [state._replace(env_state=None) for state in states]
  return jax.tree.map(lambda *xs: np.stack(xs), *visible)
