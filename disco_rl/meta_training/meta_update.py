"""Meta-updates of η as pure functions, which `trainer.Trainer` compiles."""

from collections.abc import Sequence
import functools
from typing import Any

import chex
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

from disco_rl import compat
from disco_rl import parallel
from disco_rl import types
from disco_rl import utils
from disco_rl.config import meta_training as config_lib
from disco_rl.meta_training import lifetimes
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import meta_optimizer as meta_optimizer_lib
from disco_rl.meta_training import nonfinite
from disco_rl.meta_training import train_state

GroupState = train_state.GroupState
TrainState = train_state.TrainState


class MetaUpdate:
  """The functions of a meta-update, of one shard of the agents.

  In these functions, agents on the host have no actor: what they acted, and
  what they see of their environments (`host_actors.stack_visible`), are
  arguments.
  """

  def __init__(
    self,
    config: config_lib.Config,
    agents: Sequence[meta_gradient.MetaAgent],
    group_sizes: Sequence[int],
    on_host: Sequence[int],
    optimizer: meta_optimizer_lib.MetaOptimizer,
    placement: parallel.Placement,
  ):
    """Stores its arguments.

    Args:
      config: sizes and weights.
      agents: the agent of each group.
      group_sizes: number of agents of each group.
      on_host: indices of the groups on the host.
      optimizer: the optimiser of η.
      placement: the devices.
    """
    self._config = config
    self._agents = tuple(agents)
    self._group_sizes = tuple(group_sizes)
    self._on_host = tuple(on_host)
    self._optimizer = optimizer
    self._placement = placement

  def init_state(
    self, rng: chex.PRNGKey, eta: types.MetaParams, *visible: Any
  ) -> TrainState:
    """Makes the state before the first meta-update.

    Args:
      rng: split into one key per agent.
      eta: the initial η.
      *visible: what agents see of actors on the host, by group on the host.

    Returns:
      The state.
    """
    config = self._config
    groups = []
    for i, keys in enumerate(self._split_keys(rng)):
      # Copied, since target parameters may share buffers with parameters.
      agents = utils.copy_tree(self._fresh_agents(i, keys, visible))
      opt_states = None
      if config.adam_per_agent:
        opt_states = jax.vmap(lambda _: self._optimizer.init(eta))(keys)
      groups.append(
        GroupState(
          agents=agents,
          updates_left=jax.vmap(
            lambda key: lifetimes.sample_first(key, config.lifetimes)
          )(keys),
          age=jnp.zeros(len(keys), jnp.int32),
          opt_states=opt_states,
        )
      )
    return TrainState(
      step=jnp.zeros([], jnp.int32),
      num_skipped=jnp.zeros([], jnp.int32),
      num_over=jnp.zeros([], jnp.int32),
      eta=utils.copy_tree(eta),
      opt_state=None if config.adam_per_agent else self._optimizer.init(eta),
      groups=tuple(groups),
    )

  def update(
    self, state: TrainState, rng: chex.PRNGKey
  ) -> tuple[TrainState, types.LogDict, tuple[types.LogDict, ...]]:
    """Runs a whole meta-update of agents in JAX.

    Args:
      state: the state before.
      rng: split in (act, update), each split per agent.

    Returns:
      The state after, averages over agents, and the logs of every group's
      agents, leaves [n].
    """
    act_rng, update_rng = jax.random.split(rng)
    groups, sums, logs = [], [], []
    for i, (group, act_keys, update_keys) in enumerate(
      zip(
        state.groups,
        self._split_keys(act_rng),
        self._split_keys(update_rng),
        strict=True,
      )
    ):
      new_group, own_sums, log = self._contribute(
        i, state.eta, group, act_keys, update_keys
      )
      groups.append(new_group)
      logs.append(log)
      sums.append(own_sums)
    totals = jax.tree.map(lambda *xs: sum(xs), *sums)
    totals = self._placement.sum_lane_shards(totals)
    state, log = self._apply(state._replace(groups=()), totals)
    return state._replace(groups=tuple(groups)), log, tuple(logs)

  def contribute_alone(
    self, i: int, *args: Any
  ) -> tuple[GroupState, dict[str, Any], types.LogDict]:
    """Does the same as `_contribute`, and sums over all shards."""
    group, sums, log = self._contribute(i, *args)
    return group, self._placement.sum_lane_shards(sums), log

  def apply_all(
    self, state: TrainState, totals: Sequence[dict[str, Any]]
  ) -> tuple[TrainState, types.LogDict]:
    """Does the same as `_apply`, given a list with the sums of each group."""
    return self._apply(state, jax.tree.map(lambda *xs: sum(xs), *totals))

  def reset_agents(
    self, state: TrainState, rng: chex.PRNGKey, *visible: Any
  ) -> TrainState:
    """Resets agents whose lifetime ended, but not their optimisers of η.

    Args:
      state: the state before.
      rng: split into one key per agent.
      *visible: what agents see of actors on the host, by group on the host;
        those of the agents that are reset were reset, too.

    Returns:
      The state after.
    """
    groups = []
    for i, (group, keys) in enumerate(
      zip(state.groups, self._split_keys(rng), strict=True)
    ):
      is_over = group.updates_left <= 0

      def choose(new: Any, old: Any, is_over: Any = is_over) -> jax.Array:
        shape = is_over.shape + (1,) * (new.ndim - is_over.ndim)
        return jnp.where(is_over.reshape(shape), new, old)

      fresh = self._fresh_agents(i, keys, visible)
      new_lifetimes = jax.vmap(
        lambda key: lifetimes.sample(key, self._config.lifetimes)
      )(keys)
      groups.append(
        group._replace(
          agents=jax.tree.map(choose, fresh, group.agents),
          updates_left=choose(new_lifetimes, group.updates_left),
          age=jnp.where(is_over, 0, group.age),
        )
      )
    return state._replace(
      groups=tuple(groups), num_over=jnp.zeros([], jnp.int32)
    )

  def keys_by_group(self, rng: chex.PRNGKey) -> list[chex.PRNGKey]:
    """Returns one key per agent, by group."""
    keys = jax.random.split(rng, sum(self._group_sizes))
    return jnp.split(keys, np.cumsum(self._group_sizes)[:-1])

  def _contribute(
    self, i: int, eta: types.MetaParams, *args: Any
  ) -> tuple[GroupState, dict[str, Any], types.LogDict]:
    """Runs the agents of one group, and sums up their contributions.

    Args:
      i: index of the group.
      eta: η.
      *args: further arguments of `_one_agent`, leaves [n, ...].

    Returns:
      The group after, the sums over this shard's agents, and their logs.
    """
    group, contributions, log = self._placement.map_lanes(
      functools.partial(self._one_agent, self._agents[i], eta), *args
    )
    sums = jax.tree.map(lambda x: jnp.sum(x, axis=0), contributions)
    return group, sums, log

  def _apply(
    self, state: TrainState, totals: dict[str, Any]
  ) -> tuple[TrainState, types.LogDict]:
    """Updates η by the contributions of all agents.

    Args:
      state: the state before, without groups.
      totals: sums of the contributions of `_one_agent`.

    Returns:
      The state after, without groups, and the averages.
    """
    num_finite = totals.pop('num_finite')
    num_over = totals.pop('num_over')
    averages = jax.tree.map(lambda x: x / jnp.maximum(num_finite, 1.0), totals)
    grads = averages['grads']
    if self._config.adam_per_agent:
      updates, opt_state = averages['updates'], None
    else:
      updates, opt_state = self._optimizer.update(
        grads, state.opt_state, state.eta
      )
    any_finite = num_finite > 0
    keep = lambda new, old: jnp.where(any_finite, new, old)
    _, unravel = jax.flatten_util.ravel_pytree(state.eta)
    eta_updates = unravel(jnp.where(any_finite, updates, 0.0))
    new_state = TrainState(
      step=state.step + 1,
      num_skipped=jnp.where(any_finite, 0, state.num_skipped + 1),
      num_over=num_over.astype(jnp.int32),
      eta=optax.apply_updates(state.eta, eta_updates),
      opt_state=jax.tree.map(keep, opt_state, state.opt_state),
      groups=(),
    )
    log = dict(
      **averages['log'],
      meta_grad_norm=compat.tree_norm(grads),
      meta_up_norm=compat.tree_norm(updates),
      num_nonfinite_agents=sum(self._group_sizes) - num_finite,
    )
    return new_state, log

  def _one_agent(
    self,
    an_agent: meta_gradient.MetaAgent,
    eta: types.MetaParams,
    group: GroupState,
    act_rng: chex.PRNGKey,
    update_rng: chex.PRNGKey,
    steps: types.ActorRollout | None = None,
  ) -> tuple[GroupState, dict[str, Any], types.LogDict]:
    """Computes one agent's contribution, zeros if it is non-finite."""
    result = an_agent.meta_gradient(
      eta, group.agents, act_rng, update_rng, steps
    )
    # Norms are non-finite if any parameter is. η is one long vector here, since
    # operations per tensor would take long to compile.
    grads, _ = jax.flatten_util.ravel_pytree(result.grads)
    norms = (result.inner_log['global_update_norm'], result.log['meta_loss'])
    is_finite = nonfinite.all_finite((jnp.sum(jnp.square(grads)), norms))
    only_finite = lambda tree: jax.tree.map(
      lambda x: jnp.where(is_finite, x, jnp.zeros_like(x)), tree
    )
    contribution = dict(
      num_finite=is_finite.astype(jnp.float32),
      grads=only_finite(grads),
      log=only_finite(
        {
          name: x
          for name, x in result.log.items()
          if name not in meta_gradient.NOT_AVERAGED
        }
      ),
    )
    opt_state = group.opt_states
    if self._config.adam_per_agent:
      updates, opt_state = self._optimizer.update(
        contribution['grads'], group.opt_states, eta
      )
      contribution['updates'] = only_finite(updates)
      opt_state = jax.tree.map(
        lambda new, old: jnp.where(is_finite, new, old),
        opt_state,
        group.opt_states,
      )
    left = group.updates_left
    if self._config.lifetimes:
      left = left - self._config.num_inner_updates
    # Agents that diverged are reset.
    left = jnp.where(is_finite, left, 0)
    contribution['num_over'] = (left <= 0).astype(jnp.float32)
    age = group.age + self._config.num_inner_updates
    log = dict(result.log, age=age, is_last=is_finite & (left <= 0))
    return GroupState(result.state, left, age, opt_state), contribution, log

  def _fresh_agents(
    self, i: int, keys: chex.PRNGKey, visible: Sequence[Any]
  ) -> meta_gradient.AgentState:
    """Makes the initial states of the agents of group `i` from their keys."""
    own = [x for j, x in zip(self._on_host, visible, strict=True) if j == i]
    return self._placement.map_lanes(self._agents[i].init, keys, *own)

  def _split_keys(self, rng: chex.PRNGKey) -> list[chex.PRNGKey]:
    """Returns one key per agent of this shard, by group, inside a program."""
    return [self._placement.own_lanes(x) for x in self.keys_by_group(rng)]
