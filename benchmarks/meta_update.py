"""Measures the time and memory of a meta-update.

The small reference setting: Catch 5x5, N inner updates on 16 steps of 32
environments, agents with a (512, 512) torso and a 256-wide action model. Units
are defined in `units.py`. There is one row for each number of agents, number of
inner updates and way to compute the meta-gradient:

  python -m benchmarks.meta_update --agents 2 16 --inner 2 --json results.json
  python -m benchmarks.meta_update --agents 1 --inner 20 --modes plain default
"""

import argparse
from collections.abc import Sequence
import time
from typing import Any

import jax
import numpy as np

from benchmarks import units
from disco_rl import parallel
from disco_rl.cli import huge_pages
from disco_rl.config import agents
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry
from disco_rl.meta_training import trainer as trainer_lib

_MODES: dict[str, dict[str, Any]] = {
  'default': {},
  'plain': dict(rematerialize_all_but=None),
  'least_memory': dict(rematerialize_all_but=0),
  'least_memory_reverse': dict(
    rematerialize_all_but=0, meta_gradient_mode='reverse'
  ),
}


class _Program:
  """A compiled meta-update, and its agents.

  Attributes:
    facts: sizes, seconds of tracing and compilation, and memory.
  """

  def __init__(
    self,
    num_agents: int,
    num_inner_updates: int,
    mode: str,
    num_devices: int,
    **changes: Any,
  ):
    """Compiles the program; see `benchmark` for the arguments."""
    settings = config_lib.get_agent_settings()
    with settings.unlocked():
      settings.value_fn = agents.get_settings_critic()
    group = trainer_lib.Group(
      registry.environment_fn('catch', rows=5, columns=5), settings, num_agents
    )
    config = config_lib.Config(
      num_inner_updates=num_inner_updates, **{**_MODES[mode], **changes}
    )
    placement = parallel.Placement(jax.devices()[:num_devices])
    trainer = trainer_lib.Trainer([group], config, placement=placement)
    self._rng = jax.random.PRNGKey(0)
    self._state = trainer.init(self._rng, trainer.init_params(self._rng))
    start = time.perf_counter()
    lowered = trainer.lower(self._state, self._rng)
    traced = time.perf_counter()
    self._compiled: Any = lowered.compile()
    done = time.perf_counter()
    memory = self._compiled.memory_analysis()
    self.facts: dict[str, Any] = dict(
      agents=num_agents,
      inner=num_inner_updates,
      mode=mode,
      devices=num_devices,
      trace_seconds=traced - start,
      compile_seconds=done - traced,
      temporaries_mb=memory.temp_size_in_bytes / 1e6,
    )

  def measure(self) -> float:
    """Runs one meta-update; returns its time in seconds."""
    begin = time.perf_counter()
    self._state, *_ = jax.block_until_ready(
      self._compiled(self._state, self._rng)
    )
    return time.perf_counter() - begin


def benchmark(
  num_agents: int,
  num_inner_updates: int,
  modes: Sequence[str],
  num_rounds: int,
  num_devices: int = 1,
  **changes: Any,
) -> list[dict[str, Any]]:
  """Compiles and times meta-updates.

  Args:
    num_agents: number of agents, in one group.
    num_inner_updates: N.
    modes: keys of `_MODES`. They are measured alternately, so that other load
      on the machine slows them equally.
    num_rounds: how many meta-updates of each mode to measure.
    num_devices: number of devices over which the environments are sharded.
    **changes: further changes to the config.

  Returns:
    For each mode, units and milliseconds of a meta-update (medians), seconds of
    tracing and of compilation, and the program's temporaries.
  """
  programs = [
    _Program(num_agents, num_inner_updates, mode, num_devices, **changes)
    for mode in modes
  ]
  unit = units.make_unit()
  for program in programs:
    program.measure()  # Warm-up.
  unit_seconds: list[float] = []
  seconds = []
  for _ in range(num_rounds):
    unit_seconds += [unit() for _ in range(5)]
    seconds.append([program.measure() for program in programs])
  medians = np.median(seconds, axis=0)
  return [
    dict(
      program.facts,
      units=float(median / np.median(unit_seconds)),
      milliseconds=float(1e3 * median),
    )
    for program, median in zip(programs, medians, strict=True)
  ]


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--agents', type=int, nargs='+', default=[2])
  parser.add_argument('--inner', type=int, nargs='+', default=[2])
  parser.add_argument('--modes', nargs='+', choices=_MODES, default=['default'])
  parser.add_argument('--devices', type=int, default=1)
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  sizes = [*arguments.agents, *arguments.inner, arguments.rounds]
  if min(*sizes, arguments.devices) < 1:
    parser.error('all numbers must be at least 1')
  if arguments.devices > 1:
    jax.config.update('jax_num_cpu_devices', arguments.devices)
  results = []
  for num_agents in arguments.agents:
    for inner in arguments.inner:
      results += benchmark(
        num_agents, inner, arguments.modes, arguments.rounds, arguments.devices
      )
  units.report(results, arguments.json)


if __name__ == '__main__':
  huge_pages.restart()
  main()
