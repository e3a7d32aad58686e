"""How long a meta-update takes, and how much memory it needs.

The small reference setting: Catch 5x5, N inner updates on 16 steps of 32
environments, agents with a (512, 512) torso and a 256-wide action model. Units
are explained in `units.py`. A row per window, number of agents and way to
compute the meta-gradient:

  python -m benchmarks.meta_update --agents 2 16 --inner 2 --json results.json
  python -m benchmarks.meta_update --agents 1 --inner 20 --modes plain default
"""

import argparse
import time
from typing import Any

import jax
import numpy as np

from benchmarks import units
from disco_rl import huge_pages
from disco_rl.environments import registry
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import settings as settings_lib
from disco_rl.meta_training import trainer as trainer_lib

_MODES: dict[str, dict[str, Any]] = {
  'default': {},
  'plain': dict(num_kept_updates=None),
  'least_memory': dict(num_kept_updates=0),
  'least_memory_reverse': dict(
    num_kept_updates=0, meta_gradient_mode='reverse'
  ),
}


def benchmark(
  num_agents: int,
  num_inner_updates: int,
  mode: str,
  num_rounds: int,
  num_devices: int = 1,
  **changes: Any,
) -> dict[str, Any]:
  """Compiles and runs meta-updates, and measures.

  Args:
    num_agents: in one group.
    num_inner_updates: N.
    mode: a key of `_MODES`.
    num_rounds: how many meta-updates to measure.
    num_devices: over which the environments are spread.
    **changes: what else to change of the config.

  Returns:
    Units and milliseconds of a meta-update (medians), seconds of tracing and
    of compilation, and the program's temporaries.
  """
  group = trainer_lib.Group(
    registry.environment_fn('catch', rows=5, columns=5),
    settings_lib.get_agent_settings(),
    num_agents,
  )
  config = config_lib.Config(
    num_inner_updates=num_inner_updates, **{**_MODES[mode], **changes}
  )
  trainer = trainer_lib.Trainer(
    [group], config, devices=jax.devices()[:num_devices]
  )
  rng = jax.random.PRNGKey(0)
  state = trainer.init(rng, trainer.init_params(rng))
  start = time.perf_counter()
  lowered = trainer.lower(state, rng)
  traced = time.perf_counter()
  compiled = lowered.compile()
  done = time.perf_counter()
  unit = units.make_unit()
  unit_seconds, update_seconds = [], []
  for _ in range(num_rounds + 1):
    unit_seconds += [unit() for _ in range(5)]
    begin = time.perf_counter()
    state, *_ = jax.block_until_ready(compiled(state, rng))
    update_seconds.append(time.perf_counter() - begin)
  seconds = float(np.median(update_seconds[1:]))
  return dict(
    agents=num_agents,
    inner=num_inner_updates,
    mode=mode,
    devices=num_devices,
    units=seconds / float(np.median(unit_seconds)),
    milliseconds=1e3 * seconds,
    trace_seconds=traced - start,
    compile_seconds=done - traced,
    temporaries_mb=compiled.memory_analysis().temp_size_in_bytes / 1e6,
  )


def main() -> None:
  """Prints a table, and writes it as JSON if asked to."""
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
  results = [
    benchmark(agents, inner, mode, arguments.rounds, arguments.devices)
    for agents in arguments.agents
    for inner in arguments.inner
    for mode in arguments.modes
  ]
  units.report(results, arguments.json)


if __name__ == '__main__':
  huge_pages.restart()
  main()
