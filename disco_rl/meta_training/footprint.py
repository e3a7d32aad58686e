"""Checks that meta-training fits into memory, before it is allocated."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import meta_training as config_lib
from disco_rl.learning import footprint
from disco_rl.meta_training import train_state

# Maps each part of the memory to the settings that its size depends on.
_SIZES = {
  'replay': 'batching.replay_capacity, batching.rollout_length or num_agents',
  'agents': 'the sizes of networks, or num_agents',
  'environments': 'batching.num_envs or num_agents',
  'the rule': 'the sizes of the meta-network, or num_agents',
  'observations of one meta-update': 'batching.num_envs, '
  'batching.rollout_length, num_agents, or the size of observations',
  'a meta-update': 'meta.num_inner_updates, batching.batch_size, '
  'batching.rollout_length, batching.num_envs, or the sizes of networks',
}


def check_observations(
  spec: types.SpecsTree,
  config: config_lib.Config,
  num_agents: int,
  num_processes: int = 1,
) -> None:
  """Raises a `ValueError` if what agents observe on the host does not fit.

  Args:
    spec: specs of one observation.
    config: the sizes.
    num_agents: number of agents of the group.
    num_processes: number of processes over which the run is sharded.
  """
  batching = config.batching
  num_steps = config.num_inner_updates * batching.rollout_length
  num_steps += config.validation_length
  total = memory.of_arrays(spec) * num_steps * batching.num_envs * num_agents
  parts = {'observations of one meta-update': total}
  memory.check(memory.per_process(parts, num_processes), _SIZES)


def check_state(
  spec: Any, on_host: Any = (), num_processes: int = 1
) -> memory.Estimate:
  """Raises a `ValueError` if a state does not fit into memory.

  Args:
    spec: specs of a `trainer.TrainState`.
    on_host: specs of what actors on the host have, leaves of any shape.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  agents = [group.agents for group in spec.groups]
  parts = {
    'replay': memory.of_arrays([agent.buffer for agent in agents]),
    'agents': memory.of_arrays([agent.learner for agent in agents]),
    'environments': memory.of_arrays(
      ([agent.actor for agent in agents], on_host)
    ),
    'the rule': memory.of_arrays(
      (spec.eta, spec.opt_state, [group.opt_states for group in spec.groups])
    ),
  }
  return memory.check(memory.per_process(parts, num_processes), _SIZES)


class Stage(NamedTuple):
  """A program of a meta-update, and what was acted on the host for it."""

  traced: Any
  rollouts: Any = None  # Specs.


def check_update(
  state: memory.Estimate,
  stages: Sequence[Stage],
  overlap: bool = False,
  num_processes: int = 1,
) -> memory.Estimate:
  """Raises a `ValueError` if a state and a meta-update do not fit into memory.

  Args:
    state: from `check_state`.
    stages: the programs of a meta-update, in their order.
    overlap: whether the rollouts of a stage are acted during the one before.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  rollouts = [
    memory.of_arrays(stage.rollouts) // num_processes for stage in stages
  ] + [0]
  step = max(
    memory.of_program(stage.traced) // num_processes
    + rollouts[i]
    + overlap * rollouts[i + 1]
    for i, stage in enumerate(stages)
  )
  return memory.check({**state.parts, 'a meta-update': step}, _SIZES)


def per_device(
  placement: parallel.Placement,
  spec: train_state.TrainState,
  shards: train_state.TrainState,
  stages: Sequence[Stage],
) -> dict[str, int]:
  """Returns the memory that each device needs.

  Args:
    placement: the devices.
    spec: specs of the state.
    shards: how it is sharded, a prefix of `spec`.
    stages: the programs of a meta-update.

  Returns:
    Bytes by part. Those of `'a meta-update'` are a lower bound, see `memory`;
    rollouts that are acted on the host are among its arguments.
  """
  size = lambda *args: memory.of_arrays(placement.shards(*args))
  eta = (spec.eta, spec.opt_state)
  found = {'the rule': size(eta, (shards.eta, shards.opt_state))}

  def add(name: str, part: Any, shard: Any) -> None:
    found[name] = found.get(name, 0) + size(part, shard)

  for group, own in zip(spec.groups, shards.groups, strict=True):
    for name, part in footprint.parts(group.agents.learner).items():
      add(name, part, own.agents.learner)
    add('replay', group.agents.buffer, own.agents.buffer)
    add(
      'environments',
      (group.agents.actor, group.agents.episodes),
      (own.agents.actor, own.agents.episodes),
    )
    add('the rule', group.opt_states, own.opt_states)
  num_devices = len(placement.devices)
  found['a meta-update'] = max(
    (memory.of_program(stage.traced) + memory.of_arrays(stage.rollouts))
    // num_devices
    for stage in stages
  )
  return found
