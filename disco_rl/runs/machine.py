"""Describes the machine and the versions with which a run is made."""

from collections.abc import Mapping
import importlib.metadata
import os
import pathlib
import platform
from typing import Any

import jax

_PACKAGES = ('jax', 'jaxlib', 'numpy', 'dm-haiku', 'optax', 'rlax', 'distrax')
_CPU_INFO = pathlib.Path('/proc/cpuinfo')
_LONGEST = 200


def describe() -> dict[str, Any]:
  """Returns facts on this machine, of JSON types.

  It has no names of users, hosts or folders, so that runs can be shared.
  """
  devices = jax.devices()
  return dict(
    system=f'{platform.system()} {platform.machine()}',
    processor=_processor(),
    cores=_cores(),
    devices=f'{len(devices)} {devices[0].platform} ({devices[0].device_kind})',
    versions=dict(
      python=platform.python_version(),
      **{name: _version(name) for name in _PACKAGES},
    ),
  )


def add_to(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the contents of a run's `config.json`, with this machine."""
  return {**config, 'machine': describe()}


def lines(recorded: Any) -> list[tuple[str, str]]:
  """Returns what a run has recorded, as pairs of names and values.

  Args:
    recorded: from `describe`, read from a file; or anything else, for nothing.
  """
  if not isinstance(recorded, Mapping):
    return []
  flat = dict(recorded)
  versions = flat.pop('versions', {})
  flat |= versions if isinstance(versions, Mapping) else {}
  return [(str(name), str(value)[:_LONGEST]) for name, value in flat.items()]


def _version(package: str) -> str:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return 'not installed'


def _cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _processor() -> str:
  """Returns the model of the processor, as far as it is known."""
  try:
    text = _CPU_INFO.read_text(encoding='utf-8', errors='replace')
  except OSError:
    text = ''
  names = (line.partition(':') for line in text.splitlines())
  found = (value.strip() for key, _, value in names if 'model name' in key)
  return next(found, platform.processor() or 'unknown')
