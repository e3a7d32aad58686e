"""The state of meta-training, and how it is sharded."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.learning import replay
from disco_rl.meta_training import meta_gradient


class GroupState(NamedTuple):
  """The agents of a group, leaves [n, ...].

  In environments on the host, `agents.actor` is a tuple of the states of the
  group's actors, which stay on the host; None in compiled programs.
  """

  agents: meta_gradient.AgentState
  updates_left: jax.Array  # [n], int32, inner updates until an agent's reset.
  age: jax.Array  # [n], int32, inner updates since an agent's reset.
  opt_states: Any  # States of one optimiser of η per agent; or None.


class TrainState(NamedTuple):
  """The state of meta-training, carried from one meta-update to the next."""

  step: jax.Array  # [], int32, meta-updates done.
  num_skipped: jax.Array  # [], int32, successive updates without finite grads.
  num_over: jax.Array  # [], int32, agents to reset before the next update.
  eta: types.MetaParams
  opt_state: Any  # State of the one optimiser of η; or None.
  groups: tuple[GroupState, ...]


def specs(config: config_lib.Config, on_host: Sequence[bool]) -> TrainState:
  """Returns how a state is sharded, see `parallel.Placement`.

  Args:
    config: sizes and weights.
    on_host: for each group, whether its environments are on the host.

  Returns:
    A state with the spec of each part in its place.
  """
  whole: Any = parallel.REPLICATED
  by_lane: Any = parallel.BY_LANE
  by_batch: Any = parallel.BY_BATCH
  buffer = None
  if not config.batching.on_policy:
    buffer = replay.ReplayState(data=by_batch, num_added=by_lane)
  per_agent = config.adam_per_agent
  groups = [
    GroupState(
      agents=meta_gradient.AgentState(
        learner=by_lane,
        actor=None if is_on_host else by_batch,
        buffer=buffer,
        episodes=by_batch,
      ),
      updates_left=by_lane,
      age=by_lane,
      opt_states=by_lane if per_agent else None,
    )
    for is_on_host in on_host
  ]
  return TrainState(
    step=whole,
    num_skipped=whole,
    num_over=whole,
    eta=whole,
    opt_state=None if per_agent else whole,
    groups=tuple(groups),
  )


def with_actors(state: TrainState, actors: Mapping[int, Any]) -> TrainState:
  """Replaces the states of the actors of some groups.

  Args:
    state: the state.
    actors: index of a group to the new states of its actors, or None.

  Returns:
    The new state.
  """
  return with_agents(state, {i: dict(actor=x) for i, x in actors.items()})


def with_agents(
  state: TrainState, changes: Mapping[int, Mapping[str, Any]]
) -> TrainState:
  """Replaces parts of the agents of some groups.

  Args:
    state: the state.
    changes: index of a group to new fields of its `AgentState`.

  Returns:
    The new state.
  """
  groups = list(state.groups)
  for i, own in changes.items():
    agents = groups[i].agents._replace(**own)
    groups[i] = groups[i]._replace(agents=agents)
  return state._replace(groups=tuple(groups))
