"""Checks that a population fits into memory, before it is allocated."""

from typing import Any

import jax

from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.evaluation import agent_loop
from disco_rl.learning import actors
from disco_rl.learning import footprint

# Maps each part of the memory to the settings that its size depends on.
_SIZES = {
  'replay': 'batching.replay_capacity, batching.rollout_length, the number of '
  'seeds, or the size of observations',
  'agents': 'the sizes of the network, the number of actions, or the number of '
  'seeds',
  'environments': 'batching.num_envs, the number of seeds, or the size of '
  'observations',
  'observations of one rollout': 'batching.num_envs, batching.rollout_length, '
  'the number of seeds, or the size of observations',
  'a step': 'batching.batch_size, batching.rollout_length, batching.num_envs, '
  'the sizes of the network, or the number of actions',
}


def check_observations(
  spec: types.SpecsTree,
  batching: batching_lib.Batching,
  num_seeds: int,
  num_processes: int = 1,
) -> None:
  """Raises a `ValueError` if the observations of one rollout do not fit.

  Args:
    spec: specs of one observation.
    batching: the sizes of one agent's batches.
    num_seeds: number of agents.
    num_processes: number of processes over which the run is sharded.
  """
  total = memory.of_arrays(spec) * batching.env_steps * num_seeds
  parts = {'observations of one rollout': total}
  memory.check(memory.per_process(parts, num_processes), _SIZES)


def check_state(
  spec: agent_loop.LoopState, num_processes: int = 1
) -> memory.Estimate:
  """Raises a `ValueError` if a state does not fit into memory.

  Args:
    spec: specs of the state of all agents.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  parts = {
    'replay': memory.of_arrays(spec.buffer),
    'agents': memory.of_arrays(spec.learner),
    'environments': memory.of_arrays((spec.actor, spec.episodes)),
  }
  return memory.check(memory.per_process(parts, num_processes), _SIZES)


def check_step(
  state: memory.Estimate, rollouts: Any, traced: Any, num_processes: int = 1
) -> memory.Estimate:
  """Raises a `ValueError` if a state and an iteration do not fit into memory.

  Args:
    state: from `check_state`.
    rollouts: specs of the rollouts; None if they are inside the program.
    traced: the traced program of an iteration.
    num_processes: number of processes over which the run is sharded.

  Returns:
    The estimate.
  """
  step = memory.of_arrays(rollouts) + memory.of_program(traced)
  step //= num_processes
  if rollouts is None:
    # XLA on CPU copies most of the replay once, inside the loop over
    # iterations (measured: 1.9 GB for 2.4 GB).
    step += state.parts['replay'] * 3 // 4
  return memory.check({**state.parts, 'a step': step}, _SIZES)


def per_device(
  placement: parallel.Placement,
  spec: agent_loop.LoopState,
  shards: agent_loop.LoopState,
  traced: Any,
) -> dict[str, int]:
  """Returns the memory that each device needs.

  Args:
    placement: the devices.
    spec: specs of the state of all agents.
    shards: how it is sharded, a prefix of `spec`.
    traced: the traced program of an iteration.

  Returns:
    Bytes by part. Those of `'a step'` are a lower bound, see `memory`.
  """
  size = lambda *args: memory.of_arrays(placement.shards(*args))
  return {
    **{
      name: size(part, shards.learner)
      for name, part in footprint.parts(spec.learner).items()
    },
    'replay': size(spec.buffer, shards.buffer),
    'environments': size(
      (spec.actor, spec.episodes), (shards.actor, shards.episodes)
    ),
    'a step': memory.of_program(traced) // len(placement.devices),
  }


def host_rollout(
  actor: actors.HostActor, spec: agent_loop.LoopState, num_steps: int
) -> types.ActorRollout:
  """Returns the specs of one agent's rollout in an environment on the host.

  Args:
    actor: the actor of any agent.
    spec: specs of the state of all agents.
    num_steps: T+1.

  Returns:
    Specs [T+1, B, ...], with the network's first state only.
  """
  params, state = jax.tree.map(
    lambda x: types.ArraySpec(x.shape[1:], x.dtype),
    (spec.learner.params, spec.actor),
  )
  return actor.rollout_spec(params, state, num_steps)
