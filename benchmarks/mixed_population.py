"""Measures meta-updates of agents on the host, with and without overlap.

Every environment has a group of agents. A group acts on the host while the
devices differentiate the group before or, without overlap, after that. Both are
alternated with their parts alone: acting, the steps of its environments, and
the programs that differentiate. At most, the time of acting is saved, without
that of the first group if no group is in JAX.

  python -m benchmarks.mixed_population --env gym:CartPole-v1 gym:Acrobot-v1
  python -m benchmarks.mixed_population --env catch gym:CartPole-v1 --agents 4
"""

import argparse
from collections.abc import Callable, Sequence
import math
import os
import time
from typing import Any

import jax
import numpy as np

from benchmarks import meta_update
from benchmarks import sizes
from benchmarks import table
from benchmarks import units
from disco_rl import parallel
from disco_rl.environments import registry
from disco_rl.meta_training import trainer as trainer_lib

_BASELINE = 'one after another'
_OVERLAPPED = 'overlapped'


def benchmark(
  names: Sequence[str],
  num_rounds: int,
  *,
  num_agents: int = 2,
  num_inner_updates: int = 2,
  num_envs: int = 32,
  num_steps: int = 16,
  num_devices: int = 1,
  num_workers: int = 0,
  size: str = 'published',
) -> list[dict[str, Any]]:
  """Times meta-updates, and their parts alone.

  Args:
    names: names of environments, at least one of them on the host.
    num_rounds: how often to measure.
    num_agents: number of agents in each environment.
    num_inner_updates: N.
    num_envs: environments, and batch size, of each agent.
    num_steps: L, the steps of a trajectory.
    num_devices: number of devices, over which agents are sharded.
    num_workers: worker processes of each agent on the host; 0 for none.
    size: one of `sizes.NAMES`.

  Returns:
    A row of `table.py` for each part.
  """
  if not any(map(registry.is_on_host, names)):
    raise ValueError(f'none of {", ".join(names)} is on the host')
  config = meta_update.config(num_inner_updates, num_envs, num_steps)
  groups = [
    trainer_lib.Group(
      registry.environment_fn(name, **_settings(name, num_workers)),
      meta_update.agent_settings(size),
      num_agents,
      name=name,
    )
    for name in names
  ]

  def make(overlap: bool = False) -> _Population:
    return _Population(
      trainer_lib.Trainer(
        groups,
        config,
        placement=parallel.Placement(
          jax.devices()[:num_devices],
          num_lane_shards=math.gcd(num_devices, num_agents),
        ),
        overlap_acting=overlap,
      )
    )

  plain, overlapped, acting, programs = make(), make(True), make(), make()
  programs.replay_first_rollouts()
  measures = {
    _BASELINE: plain.measure_update,
    _OVERLAPPED: overlapped.measure_update,
    'acting alone': acting.measure_acting,
    'environments alone': _make_environment_steps(
      [name for name in names if registry.is_on_host(name)],
      num_agents,
      num_envs,
      num_inner_updates * num_steps + config.validation_length,
      num_workers,
    ),
    'programs alone': programs.measure_update,
  }
  timings = units.alternate(measures, num_rounds)
  for population in (plain, overlapped, acting, programs):
    population.trainer.close()
  return [
    table.row(
      f'{num_agents} agents in each of {", ".join(names)}: {part}',
      timing,
      baseline=_BASELINE,
      note=f'{os.cpu_count()} cores, {num_workers} workers',
      part=part,
      num_agents=num_agents,
      num_inner_updates=num_inner_updates,
      num_envs=num_envs,
      num_steps=num_steps,
      num_devices=num_devices,
      num_workers=num_workers,
    )
    for part, timing in timings.items()
  ]


class _Population:
  """A population in training.

  Attributes:
    trainer: its trainer.
  """

  def __init__(self, trainer: trainer_lib.Trainer):
    """Makes the agents; compiles nothing yet."""
    self.trainer = trainer
    self._rng = jax.random.PRNGKey(0)
    self._state = trainer.init(self._rng, trainer.init_params(self._rng))

  def measure_update(self) -> float:
    """Runs one meta-update; returns its time in seconds."""
    begin = time.perf_counter()
    # Waits for its log.
    self._state, _ = self.trainer.update(self._state, self._rng)
    return time.perf_counter() - begin

  def measure_acting(self) -> float:
    """Acts for one meta-update, in all groups; returns its time in seconds."""
    begin = time.perf_counter()
    acted = {i: self._act(i) for i in self.trainer.hosts.groups}
    jax.block_until_ready([steps for _, steps in acted.values()])
    seconds = time.perf_counter() - begin
    self._state = trainer_lib.train_state.with_actors(
      self._state, {i: states for i, (states, _) in acted.items()}
    )
    return seconds

  def replay_first_rollouts(self) -> None:
    """Acts once, and from now on only repeats what was acted."""
    for i, group in self.trainer.hosts.groups.items():
      acted = self._act(i)
      group.act = lambda *_, acted=acted: acted  # type: ignore[method-assign]

  def _act(self, i: int) -> Any:
    group, agents = self.trainer.hosts.groups[i], self._state.groups[i].agents
    keys = jax.random.split(self._rng, len(agents.actor))
    prepared = group.prepare(agents.learner.params, keys)
    return group.act(prepared, agents.actor, 0)


def _settings(name: str, num_workers: int) -> dict[str, Any]:
  """Returns the settings of an environment with workers, if it has them."""
  has_workers = 'num_workers' in registry.default_settings(name)
  return dict(num_workers=num_workers) if has_workers else {}


def _make_environment_steps(
  names: Sequence[str],
  num_agents: int,
  num_envs: int,
  num_steps: int,
  num_workers: int,
) -> Callable[[], float]:
  """Makes a function that times all steps of a meta-update, without agents."""
  envs = []
  for name in names:
    env = registry.environment_fn(name, **_settings(name, num_workers))(
      num_envs, 0
    )
    num_actions = int(env.single_action_spec().maximum) + 1
    actions = np.random.RandomState(0).randint(
      num_actions, size=(num_agents * num_steps, num_envs), dtype=np.int32
    )
    states, _ = env.reset(jax.random.PRNGKey(0))
    envs.append((env, states, actions))

  def measure() -> float:
    begin = time.perf_counter()
    for env, states, actions in envs:
      for action in actions:
        states, _ = env.step(states, action)
    return time.perf_counter() - begin

  return measure


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    '--env', nargs='+', default=['gym:CartPole-v1', 'gym:Acrobot-v1']
  )
  parser.add_argument('--agents', type=int, default=2, help='per environment')
  parser.add_argument('--inner', type=int, default=2)
  parser.add_argument('--envs', type=int, default=32, help='of each agent')
  parser.add_argument('--steps', type=int, default=16, help='of a trajectory')
  parser.add_argument('--devices', type=int, default=1)
  parser.add_argument('--workers', type=int, default=0, help='of each agent')
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument('--rounds', type=int, default=6)
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  numbers = [arguments.agents, arguments.inner, arguments.envs]
  numbers += [arguments.devices, arguments.rounds]
  if min(numbers) < 1 or arguments.steps < 2 or arguments.workers < 0:
    parser.error(
      '--steps must be at least 2, --workers at least 0, and all other numbers '
      'at least 1'
    )
  if arguments.devices > 1:
    jax.config.update('jax_num_cpu_devices', arguments.devices)
  rows = benchmark(
    arguments.env,
    arguments.rounds,
    num_agents=arguments.agents,
    num_inner_updates=arguments.inner,
    num_envs=arguments.envs,
    num_steps=arguments.steps,
    num_devices=arguments.devices,
    num_workers=arguments.workers,
    size=arguments.size,
  )
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
