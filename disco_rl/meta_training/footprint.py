"""Checks that meta-training fits into memory, before it is allocated."""

from typing import Any

from disco_rl import memory

# Maps each part of the memory to the settings that its size depends on.
_SIZES = {
  'replay': 'batching.replay_capacity, batching.rollout_length or num_agents',
  'agents': 'the sizes of networks, or num_agents',
  'environments': 'batching.num_envs or num_agents',
  'the rule': 'the sizes of the meta-network, or num_agents',
  'a meta-update': 'meta.num_inner_updates, batching.batch_size, '
  'batching.rollout_length, batching.num_envs, or the sizes of networks',
}


def check_state(spec: Any, num_processes: int = 1) -> memory.Estimate:
  """Raises a `ValueError` if a state does not fit into memory.

  Args:
    spec: specs of a `trainer.TrainState`.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  agents = [group.agents for group in spec.groups]
  parts = {
    'replay': memory.of_arrays([agent.buffer for agent in agents]),
    'agents': memory.of_arrays([agent.learner for agent in agents]),
    'environments': memory.of_arrays([agent.actor for agent in agents]),
    'the rule': memory.of_arrays(
      (spec.eta, spec.opt_state, [group.opt_states for group in spec.groups])
    ),
  }
  return memory.check(memory.per_process(parts, num_processes), _SIZES)


def check_update(
  state: memory.Estimate, traced: Any, num_processes: int = 1
) -> memory.Estimate:
  """Raises a `ValueError` if a state and a meta-update do not fit into memory.

  Args:
    state: from `check_state`.
    traced: the traced program of a meta-update.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  step = memory.of_program(traced) // num_processes
  return memory.check({**state.parts, 'a meta-update': step}, _SIZES)
