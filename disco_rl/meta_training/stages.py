"""Meta-updates in stages: one compiled program per group, and one for η.

Groups on the host act before their program, while the devices run those of the
groups before.
"""

from collections.abc import Sequence
import functools
from typing import Any

import chex
import jax

from disco_rl import parallel
from disco_rl import types
from disco_rl.meta_training import footprint
from disco_rl.meta_training import host_groups
from disco_rl.meta_training import meta_update
from disco_rl.meta_training import train_state

TrainState = train_state.TrainState


class StagedUpdate:
  """Runs the meta-updates of a population with groups on the host."""

  def __init__(
    self,
    functions: meta_update.MetaUpdate,
    hosts: host_groups.HostGroups,
    placement: parallel.Placement,
    specs: TrainState,
    overlap_acting: bool,
    same_as: Sequence[int],
  ):
    """Maps the functions over devices; compiles nothing yet.

    Args:
      functions: the functions of a meta-update.
      hosts: the groups on the host.
      placement: the devices.
      specs: how a state is sharded.
      overlap_acting: see `trainer.Trainer`.
      same_as: for each group, the first one that runs the same program.
    """
    self._functions = functions
    self._hosts = hosts
    self._placement = placement
    self._overlap_acting = overlap_acting
    whole: Any = parallel.REPLICATED
    by_lane: Any = parallel.BY_LANE
    # Those in JAX first, during whose programs the first on the host acts.
    self._order = sorted(
      range(len(specs.groups)), key=lambda i: (i in hosts.groups, i)
    )
    own = {
      i: placement.compile(
        functools.partial(functions.contribute_alone, i),
        (whole, specs.groups[i], by_lane, by_lane)
        + (parallel.ROLLOUTS,) * (i in hosts.groups),
        (specs.groups[i], whole, by_lane),
        donate=[1],
      )
      for i in set(same_as)
    }
    self._contribute = [own[i] for i in same_as]
    self._apply = placement.compile(
      functions.apply_all, (whole, whole), (whole, whole), donate=[0]
    )

  def __call__(
    self, state: TrainState, rng: chex.PRNGKey
  ) -> tuple[TrainState, types.LogDict, tuple[types.LogDict, ...]]:
    """Does the same as `MetaUpdate.update`.

    Agents act with their θ from before this meta-update.

    Args:
      state: the state before; donated.
      rng: split in (act, update), each split per agent.

    Returns:
      The state after, averages over agents, and the logs of every group's
      agents, leaves [n], all on the devices.
    """
    act_keys, update_keys = map(
      self._functions.keys_by_group, jax.random.split(rng)
    )
    own_keys = act_keys
    if self._placement.num_processes > 1:
      act_keys, update_keys = self._placement.put(
        (act_keys, update_keys), parallel.BY_LANE
      )
    number = int(state.step) + 1
    on_devices = self._hosts.without_actors(state)
    groups: list[Any] = list(state.groups)
    logs: list[Any] = [None] * len(groups)
    totals: list[Any] = []
    actor_states: host_groups.States = {}
    prepared = {
      i: host.prepare(state.groups[i].agents.learner.params, own_keys[i])
      for i, host in self._hosts.groups.items()
    }
    for i in self._order:
      acted: tuple[Any, ...] = ()
      if i in self._hosts.groups:
        # Dispatch is asynchronous: the devices run the programs before.
        actor_states[i], steps = self._hosts.groups[i].act(
          prepared.pop(i), state.groups[i].agents.actor, number
        )
        acted = (steps,)
      groups[i], own_totals, logs[i] = self._contribute[i](
        state.eta, on_devices.groups[i], act_keys[i], update_keys[i], *acted
      )
      totals.append(own_totals)
      if not self._overlap_acting:
        jax.block_until_ready(own_totals)
    rest, log = self._apply(state._replace(groups=()), totals)
    new_state = rest._replace(groups=tuple(groups))
    return (
      train_state.with_actors(new_state, actor_states),
      log,
      tuple(logs),
    )

  def trace(
    self, spec: TrainState, key: types.ArraySpec
  ) -> list[footprint.Stage]:
    """Traces the programs, for their first calls.

    Args:
      spec: specs of a state, without actors on the host.
      key: spec of a key.

    Returns:
      The programs in their order.
    """
    stages, totals = [], []
    for i in self._order:
      group = spec.groups[i]
      num_agents = group.updates_left.shape[0]
      keys = types.ArraySpec((num_agents, *key.shape), key.dtype)
      acted: tuple[Any, ...] = ()
      if i in self._hosts.groups:
        params = group.agents.learner.params
        acted = (self._hosts.groups[i].rollouts_spec(params),)
      traced = self._contribute[i].trace(spec.eta, group, keys, keys, *acted)
      stages.append(footprint.Stage(traced, acted, i))
      totals.append(jax.tree.map(_as_spec, traced.out_info[1]))
    last = self._apply.trace(spec._replace(groups=()), totals)
    return [*stages, footprint.Stage(last)]


def _as_spec(x: Any) -> types.ArraySpec:
  return types.ArraySpec(x.shape, x.dtype)
