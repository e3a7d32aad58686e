"""What a run of meta-training needs, from its traced programs alone.

```python
account = accounts.of_trainer(trainer)
account.parts, account.per_device, account.env_steps, account.flop
```

Nothing of the run's size is allocated.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from disco_rl import arithmetic
from disco_rl import memory
from disco_rl.meta_training import footprint
from disco_rl.meta_training import trainer as trainer_lib

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Account(NamedTuple):
  """What a run needs at least."""

  parts: Mapping[str, int]  # Parts of the memory to bytes, over all devices.
  per_device: Mapping[str, int]  # The same on each of the devices.
  num_devices: int
  num_processes: int  # To which the devices belong.
  num_agents: int
  env_steps: int  # Of one meta-update, over all agents and streams.
  flop: float  # Of one meta-update: products and convolutions.

  def seconds(self, speed: float) -> float:
    """Returns the time of a meta-update without acting on the host.

    Args:
      speed: FLOP/s of all devices together.
    """
    return self.flop / speed


def of_trainer(
  trainer: trainer_lib.Trainer,
  counts: Sequence[int] | None = None,
) -> Account:
  """Makes the account of a run, whose groups may be like those of a trainer.

  On each device there are its agents' parameters and optimisers, its shard of
  their replays and of the environments in JAX, a copy of η, and its share of
  the largest program of a meta-update, with what was acted for it. Different
  agents of a device take their turns on CPU, and are vmapped elsewhere.

  Args:
    trainer: has one group of each kind.
    counts: how many groups of the run are like each group of the trainer; None
      for one each.

  Returns:
    The account.
  """
  spec, visible, stages = trainer.trace_all()
  placement = trainer.placement
  counts = counts or [1] * len(spec.groups)
  on_host = dict(zip(trainer.hosts.groups, visible, strict=True))
  parts = footprint.state_parts(spec._replace(groups=()))
  for i, (group, number) in enumerate(zip(spec.groups, counts, strict=True)):
    own = footprint.state_parts(
      spec._replace(eta=(), opt_state=(), groups=(group,)), on_host.get(i, ())
    )
    for name, size in own.items():
      parts[name] += number * size
  parts['a meta-update'] = footprint.of_update(
    stages, trainer.overlap_acting, counts
  )
  group_sizes = [group.updates_left.shape[0] for group in spec.groups]
  num_agents = sum(
    number * size for number, size in zip(counts, group_sizes, strict=True)
  )
  flop = sum(
    arithmetic.of_program(stage.traced)
    * (1 if stage.group is None else counts[stage.group])
    for stage in stages
  )
  return Account(
    parts=parts,
    per_device=footprint.per_device(
      placement,
      spec,
      trainer.state_specs,
      stages,
      trainer.overlap_acting,
      counts,
    ),
    num_devices=len(placement.devices),
    num_processes=placement.num_processes,
    num_agents=num_agents,
    env_steps=num_agents * trainer.config.env_steps,
    flop=flop,
  )


def describe(account: Account, flops: float | None = None) -> list[str]:
  """Describes an account in sentences.

  Args:
    account: the account.
    flops: FLOP/s of each device; None to measure the first one.

  Returns:
    The sentences, of which the last one says what the estimated time assumes.
  """
  devices = f'{account.num_devices} device{"s" * (account.num_devices > 1)}'
  shown = memory.Estimate(account.per_device, None).describe()
  if flops is None:
    speed = arithmetic.measure_speed()
    unit = 1e9 * arithmetic.UNIT_GFLOP / speed
    how = (
      f'{_show_flop(speed)}/s, as measured here in float32 products of '
      f'{arithmetic.PRODUCT_SIZE} x {arithmetic.PRODUCT_SIZE} (a unit of '
      f'{arithmetic.UNIT_GFLOP} GFLOP takes {unit:.3g} s)'
    )
    total = speed
    if arithmetic.is_accelerated():
      total *= account.num_devices
      how += ' on one device'
    elif account.num_devices > 1:
      how += '; the simulated devices share this machine'
  else:
    total = flops * account.num_devices
    how = f'{_show_flop(flops)}/s per device, as given by --flops'
  units = account.flop / (1e9 * arithmetic.UNIT_GFLOP)
  return [
    f'{account.num_agents} agents on {devices}, each with at least {shown}',
    f'a meta-update has {account.env_steps:,} environment steps and '
    f'{_show_flop(account.flop)} ({units:,.1f} units) of matrix products and '
    'convolutions',
    f'a meta-update takes about {_show_time(account.seconds(total))} at {how}; '
    'acting on the host and memory traffic are not counted',
  ]


def _show_flop(flop: float) -> str:
  for size, name in ((1e15, 'PFLOP'), (1e12, 'TFLOP'), (1e9, 'GFLOP')):
    if flop >= size:
      return f'{flop / size:,.1f} {name}'
  return f'{flop / 1e6:.3g} MFLOP'


def _show_time(seconds: float) -> str:
  for size, name in ((_DAY, 'days'), (_HOUR, 'hours'), (_MINUTE, 'minutes')):
    if seconds >= 2 * size:
      return f'{seconds / size:,.1f} {name}'
  return f'{seconds:.2g} s'
