"""Computes what the published discovery takes on many devices, on paper.

206 agents with the published network for Atari train the published rule: N = 20
inner updates, batches of 96 trajectories of 29 steps, 90% of them replayed.
Arithmetic is counted in the traced program of one agent, traffic and memory in
its shapes; nothing is run. Times follow from assumptions about the hardware,
which are arguments. Takes about two minutes.

  python -m benchmarks.paper_scale --devices 64 512 2048
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import math
from typing import Any, TypeVar
from unittest import mock

import jax
import numpy as np

from benchmarks import arithmetic
from benchmarks import collectives
from disco_rl import agent as agent_lib
from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.config import networks
from disco_rl.environments import base
from disco_rl.meta_training import accounts
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.runs import files

_T = TypeVar('_T')


@dataclasses.dataclass(frozen=True)
class Hardware:
  """Assumptions about devices and hosts.

  Attributes:
    teraflops: sustained 10¹² operations per second and device.
    gigabytes: 10⁹ bytes per second that a device sends to another.
    microseconds: latency of one step of a collective operation.
    host_gigabytes: 10⁹ bytes per second from the host to a device.
    cores: CPU cores for each device.
    env_steps: environment steps per second and core.
  """

  teraflops: float = 40.0
  gigabytes: float = 50.0
  microseconds: float = 5.0
  host_gigabytes: float = 5.0
  cores: int = 8
  env_steps: float = 3000.0


@dataclasses.dataclass(frozen=True)
class Work:
  """What one agent needs in one meta-update.

  Attributes:
    learn_flop: operations to differentiate through all its updates.
    act_flop: operations of its network while it acts.
    num_env_steps: environment steps.
    observed_bytes: bytes of what was acted.
    eta_bytes: bytes that are summed over agents.
    theta_bytes: bytes that are summed over the shards of its batches.
    theta_calls: number of these sums.
    state_bytes: bytes of its state between meta-updates, by part.
    temporary_bytes: a lower bound on the bytes inside the program.
  """

  learn_flop: float
  act_flop: float
  num_env_steps: int
  observed_bytes: int
  eta_bytes: int
  theta_bytes: int
  theta_calls: int
  state_bytes: dict[str, int]
  temporary_bytes: int


@dataclasses.dataclass(frozen=True)
class Sizes:
  """Sizes of the published discovery, as far as they matter here.

  Attributes:
    num_agents: number of agents.
    num_inner_updates: N.
    batch_size: trajectories per update.
    rollout_length: steps of a trajectory.
    num_fresh: trajectories of a batch that are not replayed.
    replay_capacity: trajectories in an agent's replay.
    num_actions: A.
    observation: shape of an observation, of bytes.
    network: name of the agents' network.
    precision: precision of its products.
    rematerialize_all_but: see `config.meta_training.Config`.
  """

  num_agents: int = 206
  num_inner_updates: int = 20
  batch_size: int = 96
  rollout_length: int = 29
  num_fresh: int = 10
  replay_capacity: int = 1000
  num_actions: int = 18
  observation: tuple[int, ...] = (84, 84, 4)
  network: str = 'atari'
  precision: str = 'bfloat16'
  rematerialize_all_but: int = 0


class _Environment(base.Environment):
  """An environment on the host that has specs, and zeros."""

  def __init__(self, batch_size: int, sizes: Sizes):
    super().__init__(batch_size)
    self._sizes = sizes

  def single_observation_spec(self) -> types.SpecsTree:
    return types.ArraySpec(self._sizes.observation, np.uint8)

  def single_action_spec(self) -> types.ActionSpec:
    return types.ActionSpec((), np.int32, 0, self._sizes.num_actions - 1)

  def reset(self, rng_key: Any) -> tuple[Any, types.EnvironmentTimestep]:
    return self.step(None, rng_key)

  def step(
    self, states: Any, actions: Any
  ) -> tuple[Any, types.EnvironmentTimestep]:
    del states, actions
    zeros = lambda shape, dtype: np.zeros((self.batch_size, *shape), dtype)
    return base.UnusedEnvState(), types.EnvironmentTimestep(
      observation=zeros(self._sizes.observation, np.uint8),
      step_type=zeros((), np.int32),
      reward=zeros((), np.float32),
    )


def agent_settings(sizes: Sizes) -> Any:
  """Makes the settings of the published agents, with a critic."""
  settings = config_lib.get_agent_settings()
  with settings.unlocked():
    settings.value_fn = agents.get_settings_critic()
  networks.choose(settings, sizes.network)
  settings.net_settings.net_args.precision = sizes.precision
  return settings


def work(sizes: Sizes, settings: Any = None) -> Work:
  """Counts what one agent needs, in its traced programs.

  Args:
    sizes: sizes of the discovery.
    settings: settings of the agents, with a critic; None for the published
      ones, with the network of `sizes`.

  Returns:
    The counts.
  """
  # As on an accelerator, with its convolutions.
  with mock.patch.object(jax, 'default_backend', lambda: 'gpu'):
    return _work(sizes, settings or agent_settings(sizes))


def _work(sizes: Sizes, settings: Any) -> Work:
  one = _trainer(sizes, settings, 1)
  parts = dict(accounts.of_trainer(one).per_device)
  _, _, stages = one.trace_all()
  del parts['a meta-update']
  one.close()
  program = stages[0].traced
  # Any number of shards sums the same arrays.
  sharded = _trainer(sizes, settings, 2)
  theta = collectives.count_in_trace(sharded._trace()[0].traced, 'batch')
  sharded.close()
  steps_of_stream = sizes.rollout_length * (sizes.num_inner_updates + 2)
  return Work(
    learn_flop=1e9 * arithmetic.products(program),
    act_flop=steps_of_stream * _flop_of_acting(sizes, settings),
    num_env_steps=steps_of_stream * sizes.num_fresh,
    observed_bytes=memory.of_arrays(stages[0].rollouts),
    eta_bytes=memory.of_arrays(program.out_info[1]),
    theta_bytes=theta.num_bytes,
    theta_calls=theta.num_calls,
    state_bytes=parts,
    temporary_bytes=memory.of_program(program),
  )


def on_devices(
  num_devices: int, need: Work, sizes: Sizes, hardware: Hardware
) -> dict[str, Any]:
  """Divides the work among devices, and computes the time of each part.

  Agents are sharded over as many rows as there are devices, at most the power
  of two above their number; the batches of an agent over the rest.

  Args:
    num_devices: number of devices, a power of two.
    need: from `work`.
    sizes: sizes of the discovery.
    hardware: assumptions.

  Returns:
    The numbers of a row of the table: per meta-update, in seconds and bytes of
    one device.
  """
  rows = min(num_devices, 2 ** math.ceil(math.log2(sizes.num_agents)))
  columns = num_devices // rows
  agents_each = math.ceil(sizes.num_agents / rows)
  flop = agents_each * (need.learn_flop + need.act_flop) / columns
  env_steps = agents_each * need.num_env_steps / columns
  bandwidth = 1e9 * hardware.gigabytes
  latency = 1e-6 * hardware.microseconds

  def seconds(num_bytes: float, num_calls: int, shards: int) -> float:
    """Returns the time of sums over some shards, as rings or as trees."""
    sent = 2 * (shards - 1) / shards * num_bytes
    return sent / bandwidth + num_calls * 2 * math.log2(shards) * latency

  parts = dict(
    arithmetic=flop / (1e12 * hardware.teraflops),
    environments=env_steps / (hardware.env_steps * hardware.cores),
    sums_of_eta=seconds(need.eta_bytes, 1, rows),
    sums_of_theta=seconds(
      agents_each * need.theta_bytes, agents_each * need.theta_calls, columns
    ),
    host_to_device=agents_each
    * need.observed_bytes
    / columns
    / (1e9 * hardware.host_gigabytes),
  )
  # Replay and streams are sharded over columns, agents and η are not.
  sharded = ('replay', 'environments')
  state = sum(
    size
    * (1 if name == 'the rule' else agents_each)
    / (columns if name in sharded else 1)
    for name, size in need.state_bytes.items()
  )
  return dict(
    devices=num_devices,
    rows=rows,
    columns=columns,
    agents_each=agents_each,
    used=sizes.num_agents / (rows * agents_each),
    gflop=flop / 1e9,
    env_steps=env_steps,
    **parts,
    slowest=max(parts, key=lambda name: parts[name]),
    # What others wait for cannot overlap; acting and arithmetic can.
    seconds=max(parts['arithmetic'], parts['environments'])
    + parts['sums_of_eta']
    + parts['sums_of_theta']
    + parts['host_to_device'],
    state_bytes=state,
    temporary_bytes=agents_each * need.temporary_bytes / columns,
  )


def markdown(rows: Sequence[dict[str, Any]]) -> str:
  """Returns the table of the page, in Markdown."""
  number = lambda name: lambda row: _show(row[name])
  gigabytes = lambda name: lambda row: _show(row[name] / 1e9)
  columns: dict[str, Any] = {
    'devices': lambda row: str(row['devices']),
    'rows × columns': lambda row: f'{row["rows"]} × {row["columns"]}',
    'agents of a device': lambda row: str(row['agents_each']),
    'devices used': lambda row: f'{row["used"]:.0%}',
    'TFLOP': lambda row: _show(row['gflop'] / 1e3),
    'environment steps': number('env_steps'),
    'arithmetic, s': number('arithmetic'),
    'environments, s': number('environments'),
    'host to device, s': number('host_to_device'),
    'sums of η, s': number('sums_of_eta'),
    'sums of θ, s': number('sums_of_theta'),
    'meta-update, s': number('seconds'),
    'state, GB': gigabytes('state_bytes'),
    'temporaries, GB': gigabytes('temporary_bytes'),
  }
  lines = [list(columns), ['---'] * len(columns)]
  lines += [[show(row) for show in columns.values()] for row in rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def _show(x: float) -> str:
  """Returns a number with two significant digits, without an exponent."""
  digits = 1 - math.floor(math.log10(x)) if x else 0
  return f'{round(x, digits):,.{max(0, digits)}f}'


def _trainer(
  sizes: Sizes, settings: Any, num_shards: int
) -> trainer_lib.Trainer:
  """Makes the trainer of one agent, whose batches may be sharded."""
  batching = batching_lib.Batching(
    batch_size=sizes.batch_size,
    rollout_length=sizes.rollout_length,
    num_envs=sizes.num_fresh,
    replay_capacity=sizes.replay_capacity,
    fresh_in_batch=True,
  )
  return trainer_lib.Trainer(
    [
      trainer_lib.Group(
        lambda batch_size, seed: _Environment(batch_size, sizes), settings, 1
      )
    ],
    config_lib.Config(
      batching=batching,
      num_inner_updates=sizes.num_inner_updates,
      adam_per_agent=True,
      rematerialize_all_but=sizes.rematerialize_all_but,
    ),
    placement=parallel.Placement(jax.devices()[:num_shards], lanes_at_once=1),
  )


def _flop_of_acting(sizes: Sizes, settings: Any) -> float:
  """Counts the operations of one step of an agent in all its streams."""
  env = _Environment(sizes.num_fresh, sizes)
  actor = agent_lib.Agent.for_environment(env, settings, None)
  rng = jax.random.PRNGKey(0)
  params = jax.eval_shape(actor.initial_learner_state, rng).params
  state = jax.eval_shape(
    lambda rng: actor.initial_actor_state(rng, sizes.num_fresh), rng
  )
  _, timestep = env.reset(rng)
  step = jax.jit(lambda *args: actor.actor_step(*args)[0].actions)
  return 1e9 * arithmetic.products(step.trace(params, rng, timestep, state))


def main() -> None:
  """Prints what one agent needs, the assumptions, and a table in Markdown."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--devices', type=int, nargs='+', default=[64, 512, 2048])
  for given in (Sizes(), Hardware()):
    for field in dataclasses.fields(given):
      if field.name not in ('num_actions', 'observation'):
        parser.add_argument(
          '--' + field.name.replace('_', '-'),
          type=type(field.default),
          default=field.default,
        )
  parser.add_argument('--json', help='file to write the table to')
  arguments = parser.parse_args()
  if min(arguments.devices) < 1:
    parser.error('--devices must be at least 1')
  jax.config.update('jax_num_cpu_devices', 2)
  values = vars(arguments)
  sizes, hardware = _from(Sizes, values), _from(Hardware, values)
  need = work(sizes)
  for name, value in {**vars(need), **vars(sizes), **vars(hardware)}.items():
    print(f'{name}: {value}')
  rows = [on_devices(n, need, sizes, hardware) for n in arguments.devices]
  print(markdown(rows))
  if arguments.json:
    content = dict(work=vars(need), rows=rows)
    with files.atomic_writer(arguments.json) as file:
      file.write(json.dumps(content, indent=2).encode())


def _from(kind: Callable[..., _T], values: Mapping[str, Any]) -> _T:
  """Makes a dataclass from those of its fields that have a value."""
  names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
  return kind(**{name: values[name] for name in names if name in values})


if __name__ == '__main__':
  main()
