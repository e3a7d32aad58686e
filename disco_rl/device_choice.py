"""Chooses the devices of a run, and checks those that a user has chosen."""

from collections.abc import Callable, Sequence
import contextlib
import os
from typing import Any

import jax
import numpy as np

from disco_rl import fields
from disco_rl.processes import runtime


def check_devices(devices: Any) -> None:
  """Raises a `ValueError` unless all are different devices of JAX.

  Args:
    devices: one or more, or None.
  """
  if devices is None:
    return
  is_list = isinstance(devices, Sequence | np.ndarray)
  if not is_list or not all(isinstance(x, jax.Device) for x in devices):
    raise ValueError(
      f'devices must be a list of devices of JAX, got {str(devices)[:60]}'
    )
  if not len(devices):
    raise ValueError('devices must be one or more, or None for the default')
  if len(set(devices)) < len(devices):
    raise ValueError('devices must be different, but one is given twice')


def check_devices_of_run(devices: Any) -> None:
  """Raises a `ValueError` for devices over which a run cannot be sharded.

  Args:
    devices: one or more, of all processes that make the run; or None.
  """
  check_devices(devices)
  if devices is None or runtime.current() is None:
    return
  counts = [0] * jax.process_count()
  for device in devices:
    counts[device.process_index] += 1
  if min(counts) != max(counts):
    raise ValueError(
      f'devices must be as many of each of the {len(counts)} processes, got '
      f'{counts}'
    )


def first_devices(number: int) -> list[jax.Device]:
  """Returns the first devices of this process, or of all that make the run.

  Args:
    number: how many devices, over all processes, each of which has as many; a
      `ValueError` if there are fewer.
  """
  num_processes = 1 if runtime.current() is None else jax.process_count()
  if number % num_processes:
    raise ValueError(
      f'devices must be a multiple of the {num_processes} processes, got '
      f'{number}'
    )
  of_each: dict[int, list[jax.Device]] = {}
  devices = jax.local_devices() if num_processes == 1 else jax.devices()
  for device in devices:
    of_each.setdefault(device.process_index, []).append(device)
  least = min(map(len, of_each.values()))
  if not 1 <= number <= least * num_processes:
    raise ValueError(
      f'devices must be between {num_processes} and {least * num_processes}, '
      f'got {number}; there are {", ".join(map(str, devices[:64]))}'
    )
  share = number // num_processes
  return [x for _, own in sorted(of_each.items()) for x in own[:share]]


def default_number(of_one_process: int) -> int:
  """Returns how many devices a run has if the user gives no number.

  Args:
    of_one_process: the default in an ordinary process.

  Returns:
    That number; with several processes, all devices of all of them.
  """
  return of_one_process if runtime.current() is None else jax.device_count()


def most_devices(fits: Callable[[int], bool]) -> list[jax.Device]:
  """Returns as many devices of this process as the work can be divided over.

  Args:
    fits: whether the work can be divided over a number of devices; true for 1.
  """
  devices = jax.local_devices()
  return devices[: max(filter(fits, range(1, len(devices) + 1)))]


def acting_device(act_on: str) -> jax.Device | None:
  """Returns the device on which networks act in environments on the host.

  Args:
    act_on: the setting, `'devices'` or `'cpu'`.

  Returns:
    The device; None for the agents' own.
  """
  if act_on == 'devices':
    return None
  try:
    return jax.local_devices(backend='cpu')[0]
  except RuntimeError:
    raise ValueError(
      'act_on=cpu needs the CPU as a device of JAX, which the variable '
      'JAX_PLATFORMS leaves out: add cpu to it'
    ) from None


def simulate_cpu_devices(number: int, are_used: bool = True) -> None:
  """Makes JAX simulate several devices on CPU, unless the user chose a number.

  To be called before any operation of JAX. No effect on other platforms, nor
  for numbers beyond those that are of use: `first_devices` refuses them.

  Args:
    number: how many devices are needed.
    are_used: whether programs run on them; many more can be counted on.
  """
  most = max(8, os.cpu_count() or 1) if are_used else fields.MAX_LANES
  is_chosen = (
    'JAX_NUM_CPU_DEVICES' in os.environ
    or 'device_count' in os.environ.get('XLA_FLAGS', '')
  )
  if not is_chosen and 1 < number <= most:
    # JAX has started already in programs that call a command as a function.
    with contextlib.suppress(RuntimeError):
      jax.config.update('jax_num_cpu_devices', number)
