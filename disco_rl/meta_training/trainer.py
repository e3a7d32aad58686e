"""Runs meta-updates of η with many agents.

Agents are grouped by environment and network. The agents of a group are mapped
over as lanes, and all groups train the same η. If all environments are in JAX,
a meta-update is one compiled program. Otherwise every group has a program of
its own, which differentiates after the group has acted, and one updates η.

```python
trainer = Trainer([Group(env_fn, settings)], config_lib.Config())
state = trainer.init(init_rng, trainer.init_params(eta_rng))
for step in range(800):
  state, log = trainer.update(state, jax.random.fold_in(step_rng, step))
```
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import callbacks
from disco_rl.meta_training import alike
from disco_rl.meta_training import footprint
from disco_rl.meta_training import groups as groups_lib
from disco_rl.meta_training import host_groups
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import meta_optimizer as meta_optimizer_lib
from disco_rl.meta_training import meta_update
from disco_rl.meta_training import nonfinite
from disco_rl.meta_training import returns
from disco_rl.meta_training import stages
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

  # Averages over agents, norms of gradient and update, and those of `returns`.
  averages: dict[str, float]
  per_agent: dict[str, np.ndarray]  # [n], agents of the first group first.


class Trainer:
  """Compiles and runs meta-updates.

  Attributes:
    config: sizes and weights.
    num_agents: number of agents of all groups.
    eta_spec: specs of η.
    group_names: names of the groups, all different.
    hosts: the groups on the host, which act outside of compiled programs.
    placement: the devices.
    state_specs: how a state is sharded over them, a tree of specs.
    overlap_acting: whether groups act on the host while the devices work.
  """

  def __init__(
    self,
    groups: Sequence[Group],
    config: config_lib.Config,
    *,
    placement: parallel.Placement | None = None,
    regularizer: meta_loss.Regularizer | None = None,
    meta_optimizer: optax.GradientTransformation | None = None,
    env_seed: int = 0,
    overlap_acting: bool = True,
    acting_device: jax.Device | None = None,
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
      env_seed: seed of the first agent's environment on the host; the i-th
        agent of all groups has `env_seed + i`.
      overlap_acting: whether a group acts on the host while the devices
        differentiate the group before. The results do not depend on it.
      acting_device: device of the networks that act in environments on the
        host; None for the agents' own devices. An accelerator runs one program
        after the other, so that nothing overlaps there.
    """
    self.config = config
    self._groups = tuple(groups)
    self.placement = placement or parallel.Placement()
    self.group_names = groups_lib.check(groups, self.placement)
    self._env_names = ', '.join(self.group_names)
    self.overlap_acting = overlap_acting
    self.num_agents = sum(group.num_agents for group in groups)
    built = self._build(env_seed, regularizer, acting_device)
    self._meta_agents = [own.agent for own in built]
    self._rules = [own.rule for own in built]
    self._same_as = alike.first_of_each(groups, built)
    self._sources = groups_lib.sources(groups, self.group_names, built)
    self.hosts = host_groups.HostGroups(
      {i: own.host for i, own in enumerate(built) if own.host is not None},
      self.placement,
    )
    try:
      self.eta_spec = groups_lib.eta_spec(self._rules)
      optimizer = meta_optimizer_lib.MetaOptimizer(config, meta_optimizer)
    except BaseException:
      self.close()  # Environments on the host may have processes.
      raise
    self._functions = meta_update.MetaUpdate(
      config,
      self._meta_agents,
      [group.num_agents for group in groups],
      list(self.hosts.groups),
      optimizer,
      self.placement,
    )
    self._compile()

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
    self.hosts.check_memory()
    actor_states = self.hosts.reset(self._functions.keys_by_group(rng))
    specs = self.hosts.visible_specs()
    spec = jax.eval_shape(self._init, rng, eta, *specs)
    self.placement.check_same('the state', spec)
    footprint.check_state(spec, specs, self.placement.num_processes)
    visible = self.hosts.visible(actor_states)
    # Programs run on the devices of their arguments.
    arguments = self.placement.put((jnp.asarray(rng), eta), parallel.REPLICATED)
    with callbacks.boundary(self._env_names):
      state = jax.block_until_ready(self._init(*arguments, *visible))
    return train_state.with_actors(state, actor_states)

  def check_memory(self, rng: chex.PRNGKey | None = None) -> memory.Estimate:
    """Estimates the memory of `update`, whose programs are traced.

    Args:
      rng: the key for `init`, so that environments on the host, which are reset
        here, need not be reset again there; None for any.

    Raises:
      ValueError: if there is not enough.
    """
    rng = jax.random.PRNGKey(0) if rng is None else rng
    self.hosts.check_memory()
    self.hosts.reset(self._functions.keys_by_group(rng))
    spec, _ = self._update_specs()
    num_processes = self.placement.num_processes
    state = footprint.check_state(
      spec, self.hosts.visible_specs(), num_processes
    )
    return footprint.check_update(
      state, self._trace(), self.overlap_acting, num_processes
    )

  def trace_all(
    self,
  ) -> tuple[TrainState, list[Any], list[footprint.Stage]]:
    """Traces the programs of `update`, without a state.

    Returns:
      Specs of a state without actors on the host; specs of what agents see of
      those, by group on the host; and the programs in their order.
    """
    spec, _ = self._update_specs()
    return spec, self.hosts.visible_specs(), self._trace()

  def average_names(self) -> tuple[str, ...]:
    """Returns the names of `UpdateLog.averages`; `update` is traced."""
    _, log, *_ = self._trace()[-1].traced.out_info
    own = returns.names(self._sources, self.config.lifetimes)
    return (*log, *own, 'num_resets')

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
        state = self._reset_over(state, jax.random.fold_in(rng, _RESET))
      state, log, group_logs = self._update(state, rng)
      log, group_logs = self.placement.fetch((log, group_logs))
    group_logs = nonfinite.check_environments(
      self.group_names, state, group_logs, self.config.batching.num_envs
    )
    per_agent = jax.tree.map(lambda *xs: np.concatenate(xs), *group_logs)
    averages = {name: float(x) for name, x in log.items()}
    averages['num_resets'] = float(num_resets)
    logs = groups_lib.by_part(self._groups, group_logs)
    lifetimes = self.config.lifetimes
    averages |= returns.averages(self._sources, logs, lifetimes)
    return state, UpdateLog(averages, per_agent)

  def trace(self, state: TrainState, rng: chex.PRNGKey) -> jax.stages.Traced:
    """Traces the program of `update`, for inspection, without compiling it.

    Raises:
      ValueError: if there are environments on the host, since `update` then
        consists of several programs.
    """
    if self.hosts.groups:
      raise ValueError(
        'a meta-update with environments on the host is not one program'
      )
    return self._update.trace(state, rng)

  def to_checkpoint(self, state: TrainState) -> TrainState:
    """Returns the state in a form that can be saved.

    Args:
      state: from `init` or `update`.

    Returns:
      The state with snapshots of the environments on the host that make them,
      and without the non-finite numbers of agents that are about to be reset.
    """
    actor_states = self.hosts.to_checkpoint(state)
    state = nonfinite.clean(self.hosts.without_actors(state))
    return train_state.with_actors(state, actor_states)

  def checkpoint_like(
    self, rng: chex.PRNGKey, eta: types.MetaParams
  ) -> TrainState:
    """Returns a tree like that of `to_checkpoint`, of specs where possible.

    Args:
      rng: see `init`. Environments on the host are made and reset, since the
        structure of their snapshots depends on them.
      eta: the initial η.
    """
    actor_states = self.hosts.reset(self._functions.keys_by_group(rng))
    state = jax.eval_shape(self._init, rng, eta, *self.hosts.visible_specs())
    state = self.placement.with_shardings(state, self.state_specs)
    return train_state.with_actors(state, self.hosts.snapshots(actor_states))

  def from_checkpoint(self, saved: TrainState) -> TrainState:
    """Puts a saved state on the devices, and restores environments on the host.

    Args:
      saved: from `to_checkpoint`.

    Returns:
      The state. Environments on the host without snapshots are reset.
    """
    saved = self.hosts.from_checkpoint(saved)
    state = self.placement.put(
      self.hosts.without_actors(saved), self.state_specs
    )
    return train_state.with_actors(state, self.hosts.actors(saved))

  def names_without_snapshots(self, saved: TrainState) -> list[str]:
    """Returns the names of the groups whose environments cannot be restored.

    Args:
      saved: from `to_checkpoint`.
    """
    return [
      self.group_names[i]
      for i, states in self.hosts.actors(saved).items()
      if any(own.env_state is None for own in states)
    ]

  def close(self) -> None:
    """Closes environments on the host."""
    self.hosts.close()

  def _build(
    self,
    env_seed: int,
    regularizer: meta_loss.Regularizer | None,
    acting_device: jax.Device | None,
  ) -> list[groups_lib.Built]:
    """Builds the agents of all groups."""
    built: list[groups_lib.Built] = []
    try:
      for group in self._groups:
        built.append(
          groups_lib.build(
            group,
            self.config,
            self.placement,
            regularizer,
            env_seed,
            acting_device,
          )
        )
        env_seed += group.num_agents
    except BaseException:
      for own in built:
        if own.host is not None:
          own.host.close()
      raise
    return built

  def _compile(self) -> None:
    """Maps the functions of a meta-update over devices."""
    functions, hosts = self._functions, self.hosts
    whole: Any = parallel.REPLICATED
    specs = self.state_specs = train_state.specs(
      self.config, [i in hosts.groups for i in range(len(self._groups))]
    )
    visible = (parallel.BY_BATCH,) * len(hosts.groups)
    self._init = self.placement.compile(
      functions.init_state, (whole, whole, *visible), specs
    )
    self._reset = self.placement.compile(
      functions.reset_agents, (specs, whole, *visible), specs, donate=[0]
    )
    self._update: Any
    if hosts.groups:
      self._update = stages.StagedUpdate(
        functions,
        hosts,
        self.placement,
        specs,
        self.overlap_acting,
        self._same_as,
      )
    else:
      self._update = self.placement.compile(
        functions.update,
        (specs, whole),
        (specs, whole, parallel.BY_LANE),
        donate=[0],
      )

  def _update_specs(self) -> tuple[TrainState, Any]:
    """Returns the specs of the arguments of `update`, without host actors."""
    key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
    visible = self.hosts.visible_specs()
    return jax.eval_shape(self._init, key, self.eta_spec, *visible), key

  def _trace(self) -> list[footprint.Stage]:
    """Traces the programs of `update`, in their order."""
    traced = self._update.trace(*self._update_specs())
    return traced if self.hosts.groups else [footprint.Stage(traced)]

  def _reset_over(self, state: TrainState, rng: chex.PRNGKey) -> TrainState:
    """Resets agents whose lifetime ended, and their environments."""
    actor_states = self.hosts.reset_over(
      state, self._functions.keys_by_group(rng)
    )
    state = self._reset(
      self.hosts.without_actors(state),
      rng,
      *self.hosts.visible(actor_states),
    )
    return train_state.with_actors(state, actor_states)
