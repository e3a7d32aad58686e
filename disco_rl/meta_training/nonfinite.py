"""Keeps non-finite numbers out of meta-training and its checkpoints."""

from collections.abc import Mapping, Sequence
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.learning import actors
from disco_rl.learning import faults


def check_environments(
  names: Sequence[str],
  state: Any,
  logs: Sequence[Mapping[str, np.ndarray]],
  num_streams: int,
) -> list[dict[str, np.ndarray]]:
  """Raises an error if an environment returned NaN or an unknown step type.

  Agents that diverge by learning are reset instead, see `trainer.Trainer`.

  Args:
    names: names of the groups.
    state: the `trainer.TrainState` after a meta-update.
    logs: the log of every group, with `faults.METRIC` of its agents, [n]. It is
      missing for environments on the host, which raise such errors themselves.
    num_streams: number of environments of one agent.

  Returns:
    The logs without `faults.METRIC`.
  """
  for name, group, log in zip(names, state.groups, logs, strict=True):
    indices = np.asarray(log.get(faults.METRIC, ()))
    found = np.flatnonzero(indices >= 0)
    if found.size:
      raise faults.error(
        indices[found[0]],
        group.agents.actor.timestep,
        num_streams,
        name,
        f'meta-update {int(state.step)}, agent {found[0]}',
      )
  return [
    {name: x for name, x in log.items() if name != faults.METRIC}
    for log in logs
  ]


def clean(state: Any) -> Any:
  """Zeroes the non-finite numbers of agents that are about to be reset.

  These agents, which may have diverged, are reset before the next meta-update,
  so the numbers are not used any more.

  Args:
    state: a `trainer.TrainState`.

  Returns:
    A state from which training continues bit-exactly in the same way.
  """
  if not int(state.num_over):
    return state
  groups = [
    group._replace(
      agents=jax.tree.map(
        functools.partial(_to_finite, group.updates_left <= 0), group.agents
      )
    )
    for group in state.groups
  ]
  return state._replace(groups=tuple(groups))


def clean_actors(
  states: Sequence[actors.ActorState], is_over: np.ndarray
) -> tuple[actors.ActorState, ...]:
  """Does the same as `clean`, for actors on the host.

  Args:
    states: the state of the actor of each agent.
    is_over: [n], which agents are about to be reset.

  Returns:
    The states, in which those of networks are finite for these agents. Those of
    environments are private, and their timesteps finite.
  """
  return tuple(
    own._replace(
      net_state=jax.tree.map(
        functools.partial(_to_finite, jnp.asarray(over)), own.net_state
      )
    )
    for own, over in zip(states, is_over, strict=True)
  )


def _to_finite(is_over: jax.Array, x: jax.Array) -> jax.Array:
  """Zeroes the non-finite numbers of `x` where `is_over`, its first axes."""
  if not jnp.issubdtype(x.dtype, jnp.floating):
    return x
  is_over = is_over.reshape(is_over.shape + (1,) * (x.ndim - is_over.ndim))
  return jnp.where(is_over & ~jnp.isfinite(x), jnp.zeros_like(x), x)


def all_finite(tree: Any) -> jax.Array:
  """Returns whether all numbers of a tree are finite, [], bool."""
  leaves = [jnp.ravel(x) for x in jax.tree.leaves(tree)]
  return jnp.all(jnp.isfinite(jnp.concatenate(leaves)))
