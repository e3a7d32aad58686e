"""The state of meta-training, and how it is sharded."""

from typing import Any, NamedTuple

import jax

from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.learning import replay
from disco_rl.meta_training import meta_gradient


class GroupState(NamedTuple):
  """The agents of a group, leaves [n, ...]."""

  agents: meta_gradient.AgentState
  updates_left: jax.Array  # [n], int32, inner updates until an agent's reset.
  opt_states: Any  # States of one optimiser of η per agent; or None.


class TrainState(NamedTuple):
  """The state of meta-training, carried from one meta-update to the next."""

  step: jax.Array  # [], int32, meta-updates done.
  num_skipped: jax.Array  # [], int32, successive updates without finite grads.
  num_over: jax.Array  # [], int32, agents to reset before the next update.
  eta: types.MetaParams
  opt_state: Any  # State of the one optimiser of η; or None.
  groups: tuple[GroupState, ...]


def specs(config: config_lib.Config, num_groups: int) -> TrainState:
  """Returns how a state is sharded, see `parallel.Placement`.

  Args:
    config: sizes and weights.
    num_groups: number of groups.

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
  group = GroupState(
    agents=meta_gradient.AgentState(
      learner=by_lane, actor=by_batch, buffer=buffer, episodes=by_batch
    ),
    updates_left=by_lane,
    opt_states=by_lane if per_agent else None,
  )
  return TrainState(
    step=whole,
    num_skipped=whole,
    num_over=whole,
    eta=whole,
    opt_state=None if per_agent else whole,
    groups=(group,) * num_groups,
  )
