"""Checks that meta-training fits into memory, before it is allocated."""

from collections.abc import Mapping, Sequence
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


def state_parts(spec: Any, on_host: Any = ()) -> dict[str, int]:
  """Returns the memory of a state, by part.

  Args:
    spec: specs of a `trainer.TrainState`.
    on_host: specs of what actors on the host have, leaves of any shape.

  Returns:
    Name of a part to its bytes.
  """
  agents = [group.agents for group in spec.groups]
  return {
    'replay': memory.of_arrays([agent.buffer for agent in agents]),
    'agents': memory.of_arrays([agent.learner for agent in agents]),
    'environments': memory.of_arrays(
      ([agent.actor for agent in agents], on_host)
    ),
    'the rule': memory.of_arrays(
      (spec.eta, spec.opt_state, [group.opt_states for group in spec.groups])
    ),
  }


def check_state(
  spec: Any, on_host: Any = (), num_processes: int = 1
) -> memory.Estimate:
  """Raises a `ValueError` if a state does not fit into memory.

  Args:
    spec: specs of a `trainer.TrainState`.
    on_host: see `state_parts`.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  parts = state_parts(spec, on_host)
  return check_parts(memory.per_process(parts, num_processes))


def check_parts(parts: Mapping[str, int]) -> memory.Estimate:
  """Raises a `ValueError` if a run does not fit into memory.

  Args:
    parts: name of a part to its bytes, in this process.

  Returns:
    The estimate.
  """
  return memory.check(parts, _SIZES)


class Stage(NamedTuple):
  """A program of a meta-update, and what was acted on the host for it."""

  traced: Any
  rollouts: Any = None  # Specs.
  group: int | None = None  # Index of its group; None for all groups.


def of_update(
  stages: Sequence[Stage],
  overlap: bool = False,
  counts: Sequence[int] | None = None,
  num_processes: int = 1,
) -> int:
  """Returns the memory of a meta-update besides the state, at its peak.

  Args:
    stages: the programs of a meta-update, in their order.
    overlap: whether the rollouts of a stage are acted during the one before.
    counts: how many groups in a row are like each group; None for one each.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The bytes.
  """
  rollouts = [
    memory.of_arrays(stage.rollouts) // num_processes for stage in stages
  ] + [0]
  highest = 0
  for i, stage in enumerate(stages):
    following = rollouts[i + 1]
    if counts and stage.group is not None and counts[stage.group] > 1:
      following = max(following, rollouts[i])
    size = memory.of_program(stage.traced) // num_processes + rollouts[i]
    highest = max(highest, size + overlap * following)
  return highest


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
  step = of_update(stages, overlap, num_processes=num_processes)
  return check_parts({**state.parts, 'a meta-update': step})


def per_device(
  placement: parallel.Placement,
  spec: train_state.TrainState,
  shards: train_state.TrainState,
  stages: Sequence[Stage],
  overlap: bool = False,
  counts: Sequence[int] | None = None,
) -> dict[str, int]:
  """Returns the memory that each device needs.

  Args:
    placement: the devices.
    spec: specs of the state, without actors on the host.
    shards: how it is sharded, a prefix of `spec`.
    stages: the programs of a meta-update.
    overlap: whether the rollouts of a stage are acted during the one before.
    counts: how many groups in a row are like each group; None for one each.

  Returns:
    Bytes by part. Those of `'a meta-update'` are a lower bound, see `memory`;
    rollouts that are acted on the host are among its arguments.
  """
  size = lambda *args: memory.of_arrays(placement.shards(*args))
  eta = (spec.eta, spec.opt_state)
  found = {'the rule': size(eta, (shards.eta, shards.opt_state))}
  for i, group in enumerate(spec.groups):
    number, own = counts[i] if counts else 1, shards.groups[i]
    agents, agent_shards = group.agents, own.agents
    parts = {
      name: size(part, agent_shards.learner)
      for name, part in footprint.parts(agents.learner).items()
    }
    parts['replay'] = size(agents.buffer, agent_shards.buffer)
    parts['environments'] = size(
      (agents.actor, agents.episodes),
      (agent_shards.actor, agent_shards.episodes),
    )
    parts['the rule'] = size(group.opt_states, own.opt_states)
    for name, part in parts.items():
      found[name] = found.get(name, 0) + number * part
  step = of_update(stages, overlap, counts)
  found['a meta-update'] = step // len(placement.devices)
  return found
