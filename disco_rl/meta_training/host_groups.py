"""All groups of agents whose environments run on the host."""

from collections.abc import Mapping, Sequence
from typing import Any

import chex
import numpy as np

from disco_rl import parallel
from disco_rl.learning import episodes as episodes_lib
from disco_rl.learning import host_actors
from disco_rl.meta_training import host_group
from disco_rl.meta_training import nonfinite
from disco_rl.meta_training import train_state

States = dict[int, host_actors.States]  # By index of the group.


class HostGroups:
  """Resets, saves and closes the groups on the host of a population.

  Of several processes, each has the actors of the agents on its own devices.

  Attributes:
    groups: the groups, by their index in the population.
  """

  def __init__(
    self,
    groups: Mapping[int, host_group.HostGroup],
    placement: parallel.Placement,
  ):
    """Stores the groups, and the devices of their agents."""
    self.groups = dict(groups)
    self._placement = placement

  def check_memory(self) -> None:
    """Raises a `ValueError` if what a group observes does not fit."""
    for group in self.groups.values():
      group.check_memory()

  def reset(self, keys: Sequence[chex.PRNGKey]) -> States:
    """Makes new environments and resets them.

    Args:
      keys: those of the agents of each group of the population, [n, ...].

    Returns:
      The states of all actors on the host.
    """
    return {i: group.reset(keys[i]) for i, group in self.groups.items()}

  def reset_over(
    self, state: train_state.TrainState, keys: Sequence[chex.PRNGKey]
  ) -> States:
    """Resets the environments of agents whose lifetime ended.

    Args:
      state: the state.
      keys: see `reset`.

    Returns:
      The states of all actors on the host.
    """
    return {
      i: group.reset_agents(
        state.groups[i].agents.actor,
        self._is_over(state.groups[i]),
        keys[i],
        int(state.step) + 1,
      )
      for i, group in self.groups.items()
    }

  def visible(self, states: States) -> list[Any]:
    """Returns what agents see of their environments, by group on the host."""
    return [self.groups[i].visible(own) for i, own in states.items()]

  def visible_specs(self) -> list[Any]:
    """Returns the specs of `visible`."""
    return [group.visible_spec() for group in self.groups.values()]

  def without_actors(
    self, state: train_state.TrainState
  ) -> train_state.TrainState:
    """Returns the part of a state that is on the devices."""
    return train_state.with_actors(state, dict.fromkeys(self.groups))

  def actors(self, state: train_state.TrainState) -> States:
    """Returns the part of a state that is on the host."""
    return {i: state.groups[i].agents.actor for i in self.groups}

  def snapshots(self, states: States) -> States:
    """Returns states with snapshots of the environments that make them."""
    return {i: self.groups[i].to_checkpoint(own) for i, own in states.items()}

  def to_checkpoint(self, state: train_state.TrainState) -> States:
    """Returns the states of actors in a form that can be saved.

    Args:
      state: the state.

    Returns:
      The states, with snapshots of the environments that make them, and without
      the non-finite numbers of agents that are about to be reset.
    """
    return self.snapshots(
      {
        i: nonfinite.clean_actors(own, self._is_over(state.groups[i]))
        for i, own in self.actors(state).items()
      }
    )

  def from_checkpoint(
    self, saved: train_state.TrainState
  ) -> train_state.TrainState:
    """Restores the states of actors.

    Args:
      saved: the saved state.

    Returns:
      The state, with actors, and with new episodes where environments were
      reset, since they make no snapshots.
    """
    for i, group in self.groups.items():
      agents = saved.groups[i].agents
      states, goes_on = group.from_checkpoint(agents.actor)
      episodes = episodes_lib.keep(agents.episodes, goes_on)
      changes = dict(actor=states, episodes=episodes)
      saved = train_state.with_agents(saved, {i: changes})
    return saved

  def close(self) -> None:
    """Closes all environments."""
    for group in self.groups.values():
      group.close()

  def _is_over(self, group: train_state.GroupState) -> np.ndarray:
    """Returns which agents of this process are about to be reset, bool."""
    return np.asarray(self._placement.fetch_own(group.updates_left)) <= 0
