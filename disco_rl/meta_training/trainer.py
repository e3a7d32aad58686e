"""Runs meta-updates of η with many agents.

Agents are grouped by environment and network. The agents of a group are mapped
over as lanes, and all groups train the same η.

  group = Group(registry.environment_fn('catch', rows=5, columns=5), settings)
  trainer = Trainer([group], config_lib.Config())
  init_rng, eta_rng, step_rng = training.keys(seed=0)
  state = trainer.init(init_rng, trainer.init_params(eta_rng))
  for step in range(800):
    state, log = trainer.update(state, jax.random.fold_in(step_rng, step))
"""

from collections.abc import Sequence
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

from disco_rl import compat
from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl import utils
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import callbacks
from disco_rl.meta_training import footprint
from disco_rl.meta_training import groups as groups_lib
from disco_rl.meta_training import lifetimes
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import meta_optimizer as meta_optimizer_lib
from disco_rl.meta_training import nonfinite
from disco_rl.meta_training import train_state
from disco_rl.rule_zoo import file_format

# Folded into a key for the keys of agents that are reset. Large, since folding
# in small numbers gives the keys that splitting gives, too.
_RESET = 2**31 + 1

Group = groups_lib.Group  # An argument of `Trainer`.
GroupState = train_state.GroupState
TrainState = train_state.TrainState


class UpdateLog(NamedTuple):
  """The metrics of a meta-update."""

  # Averages over agents; norms of the meta-gradient and of the update of η; and
  # for every group the number of episodes that ended (`episodes/NAME`) and
  # their average return (`return/NAME`).
  averages: dict[str, float]
  per_agent: dict[str, np.ndarray]  # [n], agents of the first group first.


class Trainer:
  """Compiles and runs meta-updates.

  Attributes:
    config: sizes and weights.
    num_agents: number of agents of all groups.
    eta_spec: specs of η.
    group_names: names of the groups, all different.
  """

  def __init__(
    self,
    groups: Sequence[Group],
    config: config_lib.Config,
    *,
    placement: parallel.Placement | None = None,
    regularizer: meta_loss.Regularizer | None = None,
    meta_optimizer: optax.GradientTransformation | None = None,
  ):
    """Builds everything; compiles nothing yet.

    Args:
      groups: the agents that train η.
      config: sizes and weights.
      placement: the devices; agents are its lanes. By default the first device
        of this process.
      regularizer: a further term of the meta-loss, logged as `regularizer`: a
        function of η, of the rule's targets in an inner update (the result of
        `unroll_meta_net`) and of the agent's outputs before that update, leaves
        [L, B, ...], to a scalar. It is averaged over inner updates (and
        devices), and gradients pass through all its arguments.
      meta_optimizer: optimiser of η, instead of the Adam of `config`, whose
        `learning_rate`, `max_grad_norm` and `max_abs_update` must then be the
        defaults. It takes gradients and parameters as trees like η, so that it
        can treat parts of η differently; with `config.adam_per_agent`, every
        agent has a state of it.
    """
    self.config = config
    self._groups = tuple(groups)
    self._placement = placement or parallel.Placement()
    self.group_names = groups_lib.check(groups, self._placement)
    self._env_names = ', '.join(self.group_names)
    self.num_agents = sum(group.num_agents for group in groups)
    shard_config = config.per_shard(self._placement.num_batch_shards)
    built = [
      groups_lib.build(
        group, shard_config, self._placement.batch_axis, regularizer
      )
      for group in groups
    ]
    self._meta_agents = [an_agent for an_agent, _ in built]
    self._rules = [rule for _, rule in built]
    self.eta_spec = groups_lib.eta_spec(self._rules)
    self._optimizer = meta_optimizer_lib.MetaOptimizer(config, meta_optimizer)
    specs = self._state_specs = train_state.specs(config, len(self._groups))
    whole, by_lane = parallel.REPLICATED, parallel.BY_LANE
    self._init = self._placement.compile(
      self._init_state, (whole, whole), specs
    )
    self._update = self._placement.compile(
      self._meta_update, (specs, whole), (specs, whole, by_lane), donate=[0]
    )
    self._reset = self._placement.compile(
      self._reset_agents, (specs, whole), specs, donate=[0]
    )

  def init_params(self, rng: chex.PRNGKey) -> types.MetaParams:
    """Draws random η."""
    eta, _ = jax.jit(self._rules[0].init_params)(rng)
    return eta

  def init(self, rng: chex.PRNGKey, eta: types.MetaParams) -> TrainState:
    """Makes fresh agents.

    Args:
      rng: split into one key per agent, those of the first group first.
      eta: the initial η.

    Returns:
      The state.

    Raises:
      ValueError: if η is not like `eta_spec`, or if there is not enough memory.
    """
    file_format.check_like(eta, self.eta_spec, 'the initial η')
    eta = jax.tree.map(jnp.asarray, eta)
    spec = jax.eval_shape(self._init, rng, eta)
    self._placement.check_same('the state', spec)
    footprint.check_state(spec, self._placement.num_processes)
    # Programs run on the devices of their arguments.
    arguments = self._placement.put(
      (jnp.asarray(rng), eta), parallel.REPLICATED
    )
    with callbacks.boundary(self._env_names):
      return jax.block_until_ready(self._init(*arguments))

  def check_memory(self) -> memory.Estimate:
    """Estimates the memory of `update`, whose program is traced.

    Raises:
      ValueError: if there is not enough.
    """
    spec, key = self._update_specs()
    num_processes = self._placement.num_processes
    state = footprint.check_state(spec, num_processes)
    traced = self._update.trace(spec, key)
    return footprint.check_update(state, traced, num_processes)

  def average_names(self) -> tuple[str, ...]:
    """Returns the names of `UpdateLog.averages`; `update` is traced."""
    _, log, _ = self._update.trace(*self._update_specs()).out_info
    return (*log, *groups_lib.average_names(self.group_names), 'num_resets')

  def update(
    self, state: TrainState, rng: chex.PRNGKey
  ) -> tuple[TrainState, UpdateLog]:
    """Runs one meta-update, first resetting agents whose lifetime ended.

    Args:
      state: from `init` or the last update; donated.
      rng: split in (act, update), each split per agent.

    Returns:
      The state after, and the metrics.
    """
    # Computed with the log of the last meta-update, so this does not block.
    num_resets = int(state.num_over)
    with callbacks.boundary(self._env_names):
      if num_resets:
        state = self._reset(state, jax.random.fold_in(rng, _RESET))
      state, log, group_logs = self._update(state, rng)
      log, group_logs = self._placement.fetch((log, group_logs))
    group_logs = nonfinite.check_environments(
      self.group_names, state, group_logs, self.config.batching.num_envs
    )
    per_agent = jax.tree.map(lambda *xs: np.concatenate(xs), *group_logs)
    averages = {name: float(x) for name, x in log.items()}
    averages['num_resets'] = float(num_resets)
    averages |= groups_lib.average_returns(self.group_names, group_logs)
    return state, UpdateLog(averages, per_agent)

  def lower(self, state: TrainState, rng: chex.PRNGKey) -> Any:
    """Lowers the program of `update`, for inspection, without compiling it."""
    return self._update.lower(state, rng)

  def state_spec(self) -> TrainState:
    """Returns the specs of a state, with shardings over several processes."""
    spec, _ = self._update_specs()
    return self._placement.with_shardings(spec, self._state_specs)

  def from_checkpoint(self, saved: TrainState) -> TrainState:
    """Puts a saved state on the devices."""
    return self._placement.put(saved, self._state_specs)

  def _update_specs(self) -> tuple[TrainState, Any]:
    """Returns the specs of the arguments of `update`."""
    key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
    return jax.eval_shape(self._init, key, self.eta_spec), key

  def _init_state(self, rng: chex.PRNGKey, eta: types.MetaParams) -> TrainState:
    config = self.config
    groups = []
    for keys, an_agent in zip(
      self._split_keys(rng), self._meta_agents, strict=True
    ):
      # Copied, since target parameters may share buffers with parameters.
      agents = utils.copy_tree(self._placement.map_lanes(an_agent.init, keys))
      opt_states = None
      if config.adam_per_agent:
        opt_states = jax.vmap(lambda _: self._optimizer.init(eta))(keys)
      groups.append(
        GroupState(
          agents=agents,
          updates_left=jax.vmap(
            lambda key: lifetimes.sample_first(key, config.lifetimes)
          )(keys),
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

  def _meta_update(
    self, state: TrainState, rng: chex.PRNGKey
  ) -> tuple[TrainState, types.LogDict, tuple[types.LogDict, ...]]:
    act_rng, update_rng = jax.random.split(rng)
    groups, sums, logs = [], [], []
    for group, an_agent, act_keys, update_keys in zip(
      state.groups,
      self._meta_agents,
      self._split_keys(act_rng),
      self._split_keys(update_rng),
      strict=True,
    ):
      new_group, contributions, log = self._placement.map_lanes(
        functools.partial(self._one_agent, an_agent, state.eta),
        group,
        act_keys,
        update_keys,
      )
      groups.append(new_group)
      logs.append(log)
      sums.append(jax.tree.map(lambda x: jnp.sum(x, axis=0), contributions))
    totals = jax.tree.map(lambda *xs: sum(xs), *sums)
    totals = self._placement.sum_lane_shards(totals)
    num_finite = totals.pop('num_finite')
    num_over = totals.pop('num_over')
    averages = jax.tree.map(lambda x: x / jnp.maximum(num_finite, 1.0), totals)
    grads = averages['grads']
    if self.config.adam_per_agent:
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
      groups=tuple(groups),
    )
    log = dict(
      **averages['log'],
      meta_grad_norm=compat.tree_norm(grads),
      meta_up_norm=compat.tree_norm(updates),
      num_nonfinite_agents=self.num_agents - num_finite,
    )
    return new_state, log, tuple(logs)

  def _one_agent(
    self,
    an_agent: meta_gradient.MetaAgent,
    eta: types.MetaParams,
    group: GroupState,
    act_rng: chex.PRNGKey,
    update_rng: chex.PRNGKey,
  ) -> tuple[GroupState, dict[str, Any], types.LogDict]:
    """Computes one agent's contribution, zeros if it is non-finite."""
    result = an_agent.meta_gradient(eta, group.agents, act_rng, update_rng)
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
    if self.config.adam_per_agent:
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
    if self.config.lifetimes:
      left = left - self.config.num_inner_updates
    # Agents that diverged are reset.
    left = jnp.where(is_finite, left, 0)
    contribution['num_over'] = (left <= 0).astype(jnp.float32)
    return GroupState(result.state, left, opt_state), contribution, result.log

  def _reset_agents(self, state: TrainState, rng: chex.PRNGKey) -> TrainState:
    """Resets agents whose lifetime ended, but not their optimisers of η."""
    groups = []
    for group, an_agent, keys in zip(
      state.groups, self._meta_agents, self._split_keys(rng), strict=True
    ):
      is_over = group.updates_left <= 0

      def choose(new: Any, old: Any, is_over: Any = is_over) -> jax.Array:
        shape = is_over.shape + (1,) * (new.ndim - is_over.ndim)
        return jnp.where(is_over.reshape(shape), new, old)

      fresh = self._placement.map_lanes(an_agent.init, keys)
      new_lifetimes = jax.vmap(
        lambda key: lifetimes.sample(key, self.config.lifetimes)
      )(keys)
      groups.append(
        group._replace(
          agents=jax.tree.map(choose, fresh, group.agents),
          updates_left=choose(new_lifetimes, group.updates_left),
        )
      )
    return state._replace(
      groups=tuple(groups), num_over=jnp.zeros([], jnp.int32)
    )

  def _split_keys(self, rng: chex.PRNGKey) -> list[chex.PRNGKey]:
    """Returns one key per agent of this shard, by group."""
    keys = jax.random.split(rng, self.num_agents)
    ends = np.cumsum([group.num_agents for group in self._groups])
    return [self._placement.own_lanes(x) for x in jnp.split(keys, ends[:-1])]
