"""Measures the time and memory of a meta-update.

The small reference setting: Catch 5x5, N inner updates on 16 steps of 32
environments, agents with a (512, 512) torso and a 256-wide action model; or,
with `--size small`, a small rule and small agents. Units are defined in
`units.py`. There is one row for each number of agents, number of inner updates
and way to compute the meta-gradient; ways are compared with the first of them:

  python -m benchmarks.meta_update --agents 2 16 --inner 2 --json results.json
  python -m benchmarks.meta_update --agents 2 --inner 2 --modes naive default
  python -m benchmarks.meta_update --size small --agents 8 --inner 4 --envs 16
"""

import argparse
from collections.abc import Callable, Sequence
import math
import os
import time
from typing import Any

import jax
import numpy as np

from benchmarks import arithmetic
from benchmarks import learner_programs
from benchmarks import sizes
from benchmarks import table
from benchmarks import units
from benchmarks.naive import meta_update as naive_meta
from disco_rl import agent
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry
from disco_rl.meta_training import trainer as trainer_lib

# Ways to compute the meta-gradient, and the settings that select them: the
# default; with agents on simulated devices, at most one per core; the plain one
# of `benchmarks/naive`; with all intermediate values kept; with none kept, in
# mixed and in reverse mode.
MODES: dict[str, dict[str, Any]] = {
  'default': {},
  'sharded': {},
  'naive': {},
  'keep_all': dict(rematerialize_all_but=None),
  'least_memory': dict(rematerialize_all_but=0),
  'least_memory_reverse': dict(
    rematerialize_all_but=0, meta_gradient_mode='reverse'
  ),
}
_LABELS = {
  'default': 'trainer',
  'sharded': 'trainer, agents on several devices',
  'naive': 'plain',
}


class Program:
  """A compiled meta-update, and its state.

  Attributes:
    trace_seconds: seconds of tracing and lowering.
    compile_seconds: seconds of compilation.
    temporaries_mb: megabytes of temporaries.
    gflop: its products, see `arithmetic.products`.
  """

  def __init__(
    self,
    trace: Callable[..., jax.stages.Traced],
    state: Any,
    *inputs: Any,
  ):
    """Compiles the program.

    Args:
      trace: traces the program for its arguments.
      state: its first argument, which the first of its results replaces.
      *inputs: its other arguments.
    """
    self._state = state
    self._inputs = inputs
    start = time.perf_counter()
    program = trace(state, *inputs)
    lowered = program.lower()
    traced = time.perf_counter()
    self._compiled: Any = lowered.compile()
    self.trace_seconds = traced - start
    self.compile_seconds = time.perf_counter() - traced
    self.gflop = arithmetic.products(program)
    memory = self._compiled.memory_analysis()
    self.temporaries_mb = memory.temp_size_in_bytes / 1e6

  def measure(self) -> float:
    """Runs one meta-update; returns its time in seconds."""
    begin = time.perf_counter()
    self._state, *_ = jax.block_until_ready(
      self._compiled(self._state, *self._inputs)
    )
    return time.perf_counter() - begin


def trainer(
  settings: Any,
  num_agents: int,
  config: config_lib.Config,
  num_devices: int = 1,
  num_lane_shards: int = 1,
) -> tuple[trainer_lib.Trainer, Any, jax.Array]:
  """Makes a trainer of the library, on Catch, and the inputs of its update.

  Args:
    settings: see `agent_settings`.
    num_agents: number of agents, in one group.
    config: see `config`.
    num_devices: number of devices.
    num_lane_shards: over how many of them the agents are sharded.

  Returns:
    The trainer, a state, and a key.
  """
  group = trainer_lib.Group(
    registry.environment_fn('catch', rows=5, columns=5), settings, num_agents
  )
  placement = parallel.Placement(
    jax.devices()[:num_devices], num_lane_shards=num_lane_shards
  )
  made = trainer_lib.Trainer([group], config, placement=placement)
  rng = jax.random.PRNGKey(0)
  return made, made.init(rng, made.init_params(rng)), rng


def trainer_program(
  settings: Any, num_agents: int, config: config_lib.Config, *shards: int
) -> Program:
  """Compiles the meta-update of the library, with acting; see `trainer`."""
  made, state, rng = trainer(settings, num_agents, config, *shards)
  return Program(made.trace, state, rng)


def _naive_program(
  settings: Any, num_agents: int, config: config_lib.Config
) -> Program:
  """Compiles the plain meta-update, on random experience, without acting."""
  batching = config.batching
  rng = jax.random.PRNGKey(0)
  observation = (5, 5, 1)
  an_agent = agent.Agent(
    single_observation_spec=types.ArraySpec(observation, np.float32),
    single_action_spec=types.ActionSpec((), np.int32, 0, 2),
    agent_settings=settings,
    batch_axis_name=None,
  )
  keys = jax.random.split(rng, num_agents)
  learners = jax.vmap(an_agent.initial_learner_state)(keys)

  def rollouts(num: int, num_steps: int) -> Any:
    return jax.vmap(
      lambda key: jax.vmap(
        lambda own: learner_programs.random_rollout(
          own, num_steps, batching.batch_size, 3, observation
        )
      )(jax.random.split(key, num))
    )(keys)

  train = rollouts(config.num_inner_updates, batching.rollout_length)
  valid = jax.tree.map(lambda x: x[:, 0], rollouts(1, config.validation_length))
  eta, _ = an_agent.update_rule.init_params(rng)
  init, update = naive_meta.make_update(settings, 3, config.learning_rate)
  state = (eta, init(eta), learners)
  # The state is the first of its results, as it is of the library's.
  step = jax.jit(lambda *args: (update(*args), None), donate_argnums=0)
  return Program(step.trace, state, train, valid)


def agent_settings(size: str) -> Any:
  """Makes the settings of agents with a critic, in one of `sizes.NAMES`."""
  if size == 'published':
    settings = config_lib.get_agent_settings()
  else:
    settings = sizes.agent_settings(size)
  with settings.unlocked():
    settings.value_fn = agents.get_settings_critic()
    if size != 'published':
      settings.value_fn.net_args.dense = (64, 64)
  return settings


def config(
  num_inner_updates: int, num_envs: int, num_steps: int, **options: Any
) -> config_lib.Config:
  """Makes the sizes of a meta-update, in which all experience is fresh.

  Args:
    num_inner_updates: N.
    num_envs: environments, and batch size, of each agent.
    num_steps: L, the steps of a trajectory.
    **options: further fields of the config.

  Returns:
    The config.
  """
  batching = batching_lib.Batching(
    batch_size=num_envs,
    rollout_length=num_steps,
    num_envs=num_envs,
    fresh_in_batch=True,
  )
  return config_lib.Config(
    batching=batching, num_inner_updates=num_inner_updates, **options
  )


def benchmark(
  num_agents: int,
  num_inner_updates: int,
  modes: Sequence[str],
  num_rounds: int,
  *,
  num_devices: int = 1,
  num_envs: int = 32,
  num_steps: int = 16,
  size: str = 'published',
) -> list[dict[str, Any]]:
  """Compiles and times meta-updates.

  Args:
    num_agents: number of agents, in one group.
    num_inner_updates: N.
    modes: keys of `MODES`, which are alternated.
    num_rounds: how many meta-updates of each mode to measure.
    num_devices: number of devices over which the environments are sharded.
    num_envs: environments, and batch size, of each agent.
    num_steps: L, the steps of a trajectory.
    size: one of `sizes.NAMES`.

  Returns:
    A row of `table.py` for each mode. Among the details is the number of agent
    updates that were differentiated per second.
  """
  settings = agent_settings(size)
  programs = {}
  for mode in modes:
    own = config(num_inner_updates, num_envs, num_steps, **MODES[mode])
    if mode == 'naive':
      programs[mode] = _naive_program(settings, num_agents, own)
    elif mode == 'sharded':
      number = math.gcd(num_agents, len(jax.devices()))
      programs[mode] = trainer_program(
        settings, num_agents, own, number, number
      )
    else:
      programs[mode] = trainer_program(
        settings, num_agents, own, num_devices, 1
      )
  timings = units.alternate(
    {mode: program.measure for mode, program in programs.items()}, num_rounds
  )
  rows = []
  kind = 'small rule' if size == 'small' else 'meta-update'
  baseline = _LABELS.get(modes[0], modes[0]) if len(modes) > 1 else None
  agents_word = 'agent' if num_agents == 1 else 'agents'
  for mode, program in programs.items():
    agents_per_second = num_agents / timings[mode].seconds
    name = f'{kind}, {num_agents} {agents_word}, N={num_inner_updates}'
    if len(modes) > 1:
      name += f': {_LABELS.get(mode, mode)}'
    rows.append(
      table.row(
        name,
        timings[mode],
        baseline=baseline,
        temporaries_mb=program.temporaries_mb,
        compile_seconds=program.trace_seconds + program.compile_seconds,
        note=f'{agents_per_second:.3g} agents/s',
        mode=mode,
        num_agents=num_agents,
        num_inner_updates=num_inner_updates,
        num_devices=num_devices,
        num_envs=num_envs,
        num_steps=num_steps,
        trace_seconds=program.trace_seconds,
        xla_compile_seconds=program.compile_seconds,
        agents_per_second=agents_per_second,
        agent_updates_per_second=num_inner_updates * agents_per_second,
      )
    )
  return rows


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--agents', type=int, nargs='+', default=[2])
  parser.add_argument('--inner', type=int, nargs='+', default=[2])
  parser.add_argument('--modes', nargs='+', choices=MODES, default=['default'])
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument('--envs', type=int, default=32, help='of each agent')
  parser.add_argument('--steps', type=int, default=16, help='of a trajectory')
  parser.add_argument('--devices', type=int, default=1)
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  numbers = [*arguments.agents, *arguments.inner, arguments.rounds]
  numbers += [arguments.devices, arguments.envs, arguments.steps]
  if min(numbers) < 1:
    parser.error('all numbers must be at least 1')
  num_devices = arguments.devices
  if 'sharded' in arguments.modes:
    num_devices = max(num_devices, len(os.sched_getaffinity(0)))
  if num_devices > 1:
    jax.config.update('jax_num_cpu_devices', num_devices)
  rows = []
  for num_agents in arguments.agents:
    for inner in arguments.inner:
      rows += benchmark(
        num_agents,
        inner,
        arguments.modes,
        arguments.rounds,
        num_devices=arguments.devices,
        num_envs=arguments.envs,
        num_steps=arguments.steps,
        size=arguments.size,
      )
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
