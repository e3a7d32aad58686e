"""Measures a meta-update whose agents are sharded over devices or processes.

Devices are simulated, and processes connected over the loopback interface. All
of them share the cores of this machine, so the time shows what dividing the
work costs, not what it gains. Of the collective operations, number and bytes
are counted in the compiled program, and a sum of as many bytes is timed alone.

  python -m benchmarks.sharded_update --devices 4 --agents 8
  python -m benchmarks.sharded_update --processes 2 --agents 8
"""

import argparse
from collections.abc import Callable
import math
import socket
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import collectives
from benchmarks import meta_update
from benchmarks import sizes
from benchmarks import table
from benchmarks import units
from disco_rl import parallel
from disco_rl.environments import registry
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.processes import runtime


def benchmark(
  num_agents: int,
  num_rounds: int,
  *,
  num_inner_updates: int = 2,
  num_envs: int = 16,
  num_steps: int = 16,
  size: str = 'small',
) -> list[dict[str, Any]]:
  """Times meta-updates on all devices of all processes.

  Args:
    num_agents: number of agents, in one group.
    num_rounds: how many meta-updates to measure.
    num_inner_updates: N.
    num_envs: environments, and batch size, of each agent.
    num_steps: L, the steps of a trajectory.
    size: one of `sizes.NAMES`.

  Returns:
    A row of `table.py`. Among its details are the collective operations of one
    device, the time of their bytes alone and its share of the whole.
  """
  devices = jax.devices()
  placement = parallel.Placement(
    devices, num_lane_shards=math.gcd(num_agents, len(devices))
  )
  trainer = trainer_lib.Trainer(
    [
      trainer_lib.Group(
        registry.environment_fn('catch', rows=5, columns=5),
        meta_update.agent_settings(size),
        num_agents,
      )
    ],
    meta_update.config(num_inner_updates, num_envs, num_steps),
    placement=placement,
  )
  rng = jax.random.PRNGKey(0)
  state = trainer.init(rng, trainer.init_params(rng))
  rng = placement.put(jax.device_get(rng), parallel.REPLICATED)
  start = time.perf_counter()
  compiled: Any = trainer.trace(state, rng).lower().compile()
  compile_seconds = time.perf_counter() - start
  traffic = collectives.count(compiled)

  def update() -> float:
    nonlocal state
    begin = time.perf_counter()
    state, *_ = jax.block_until_ready(compiled(state, rng))
    return time.perf_counter() - begin

  # Not alternated with units, which other processes would have to wait for.
  seconds = _median(update, num_rounds)
  sum_seconds = 0.0
  if traffic.num_calls:
    sum_seconds = _median(_sum(placement, traffic.num_bytes), 3 * num_rounds)
  timing = units.Timing(seconds, _median(units.make_unit(), 3), 1.0)
  memory = compiled.memory_analysis()
  return [
    table.row(
      f'{num_agents} agents, {placement.num_processes} processes, '
      f'{len(devices)} devices',
      timing,
      temporaries_mb=memory.temp_size_in_bytes / 1e6,
      compile_seconds=compile_seconds,
      note=f'{num_agents / seconds:.3g} agents/s',
      num_agents=num_agents,
      num_devices=len(devices),
      num_processes=placement.num_processes,
      num_inner_updates=num_inner_updates,
      agents_per_second=num_agents / seconds,
      state_mb=memory.argument_size_in_bytes / 1e6,
      calls=traffic.num_calls,
      communicated_bytes=traffic.num_bytes,
      sum_milliseconds=1e3 * sum_seconds,
      communication_share=sum_seconds / seconds,
    )
  ]


def _median(measure: Callable[[], float], num_rounds: int) -> float:
  """Returns the median of several measurements, after one that warms up."""
  times = sorted(measure() for _ in range(num_rounds + 1))
  return times[num_rounds // 2]


def _sum(placement: parallel.Placement, num_bytes: int) -> Callable[[], float]:
  """Makes a function that times a sum over lanes, and nothing else."""
  add = placement.compile(
    placement.sum_lane_shards, (parallel.REPLICATED,), parallel.REPLICATED
  )
  x = placement.put(jnp.ones(num_bytes // 4), parallel.REPLICATED)
  add(x).block_until_ready()

  def measure() -> float:
    begin = time.perf_counter()
    add(x).block_until_ready()
    return time.perf_counter() - begin

  return measure


def _start_others(number: int, port: int) -> list[subprocess.Popen[bytes]]:
  """Starts all processes but the first, with the arguments of this one."""
  program = [sys.executable, '-m', 'benchmarks.sharded_update', *sys.argv[1:]]
  return [
    subprocess.Popen(
      [*program, '--process-id', str(i), '--port', str(port)],
      stdout=subprocess.DEVNULL,
    )
    for i in range(1, number)
  ]


def _free_port() -> int:
  with socket.create_server(('127.0.0.1', 0)) as server:
    return int(server.getsockname()[1])


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--processes', type=int, default=1)
  parser.add_argument('--devices', type=int, default=1, help='of each process')
  parser.add_argument('--agents', type=int, default=8)
  parser.add_argument('--inner', type=int, default=2)
  parser.add_argument('--envs', type=int, default=16, help='of each agent')
  parser.add_argument('--steps', type=int, default=16, help='of a trajectory')
  parser.add_argument('--size', choices=sizes.NAMES, default='small')
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--json', help='file to write the results to')
  parser.add_argument('--process-id', type=int, default=0, help='not to be set')
  parser.add_argument('--port', type=int, default=0, help='not to be set')
  arguments = parser.parse_args()
  numbers = [arguments.processes, arguments.devices, arguments.agents]
  numbers += [arguments.inner, arguments.envs, arguments.rounds]
  if min(numbers) < 1 or arguments.steps < 2:
    parser.error('--steps must be at least 2, all other numbers at least 1')
  jax.config.update('jax_num_cpu_devices', arguments.devices)
  others: list[subprocess.Popen[bytes]] = []
  port = arguments.port or _free_port()
  if arguments.process_id == 0:
    others = _start_others(arguments.processes, port)
  try:
    runtime.by_hand(
      f'127.0.0.1:{port}', arguments.processes, arguments.process_id, 120
    )
    rows = benchmark(
      arguments.agents,
      arguments.rounds,
      num_inner_updates=arguments.inner,
      num_envs=arguments.envs,
      num_steps=arguments.steps,
      size=arguments.size,
    )
    runtime.leave()
    for process in others:
      process.wait(60)
  finally:
    for process in others:
      process.kill()
  if arguments.process_id == 0:
    table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
