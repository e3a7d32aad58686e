"""Writes the command line that repeats a run."""

from collections.abc import Mapping, Sequence
import shlex
from typing import Any

from disco_rl.config import resolve

_DEFAULTS = {
  'eval': resolve.EVALUATION,
  'meta-train': resolve.META_TRAINING,
}


def of_run(config: Mapping[str, Any]) -> str | None:
  """Returns the command that makes the same run again.

  Args:
    config: contents of the run's `config.json`.

  Returns:
    One command for a shell, with an option per line; None if the run was made
    in Python from objects that have no name.
  """
  if not config.get('is_by_name'):
    return None
  command = config['command']
  request = dict(config['request'])
  parts = [['disco-rl', command]]
  seeds = request.pop('seeds', None)
  settings = [f'{path}={x}' for path, x in _settings(request).items()]
  if seeds is not None:
    if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
      request |= dict(seed=seeds[0], num_seeds=len(seeds))
    else:
      settings.append(f'seeds={",".join(map(str, seeds))}')
  for name, default in _DEFAULTS[command].items():
    value = request.get(name, default)
    if name not in ('set', 'settings') and value != default:
      parts += _option(name, value)
  for text in (*request.get('set', ()), *settings):
    parts.append(['--set', text])
  return ' \\\n  '.join(map(shlex.join, parts))


def _settings(request: Mapping[str, Any]) -> dict[str, str]:
  """Returns the settings that were given in Python, as texts."""
  given = request.get('settings') or {}
  return {
    path: value if isinstance(value, str) else repr(value)
    for path, value in given.items()
  }


def _option(name: str, value: Any) -> list[list[str]]:
  """Returns an option with its value, or once per value of a list."""
  option = f'--{name.replace("_", "-")}'
  values: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
  # With `=`, since a value may begin with a dash.
  return [[f'{option}={each}'] for each in values]
