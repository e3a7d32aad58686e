"""What the commands that make runs have in common: options and checks."""

import argparse
from collections.abc import Callable, Mapping
import contextlib
from typing import Any, TypeVar

import jax
from ml_collections import config_dict

import disco_rl
from disco_rl.config import networks as network_settings
from disco_rl.config import plain as plain_settings
from disco_rl.runs import run_folder
from disco_rl.cli import errors
from disco_rl.environments import factories
from disco_rl.networks import cores

_Plan = TypeVar('_Plan')


def add_run_arguments(
  parser: argparse.ArgumentParser,
  examples_of_settings: str,
  default_network: str,
) -> None:
  """Adds the options that every run has.

  Args:
    parser: of the command.
    examples_of_settings: for the help of `--set`.
    default_network: for the help of `--net`.
  """
  add = parser.add_argument
  add(
    '--net',
    help=f'network: {", ".join(network_settings.known_names())} (default: '
    f'{default_network})',
  )
  add('--core', help=f'memory of the network: {", ".join(cores.CORES)}')
  add(
    '--use',
    action='append',
    metavar='MODULE',
    help='import a module of yours first, which may register environments, '
    'torsos and cores. May be repeated',
  )
  add('--seed', type=int, help='(first) seed (default: 0)')
  add(
    '--set',
    action='append',
    metavar='NAME=VALUE',
    help=f'change any setting, e.g. {examples_of_settings}; --dry-run shows '
    'them all. May be repeated',
  )
  add(
    '--out',
    metavar='DIR',
    help='folder for the results (default: a new one in runs/)',
  )
  add(
    '--overwrite',
    action='store_true',
    help='remove the run that --out already holds',
  )
  add(
    '--resume',
    metavar='DIR',
    help='go on with the run in DIR from its last checkpoint, to the bit where '
    'the environment can be asked for its state',
  )
  add(
    '--dry-run',
    action='store_true',
    help='check and show all settings as they would be used, and stop',
  )
  add('--quiet', action='store_true', help='no progress bar')


def from_arguments(
  arguments: argparse.Namespace, defaults: Mapping[str, Any]
) -> dict[str, Any]:
  """What was asked for, defaults filled in; modules it needs are imported."""
  given = {name: getattr(arguments, name) for name in defaults}
  asked = {
    name: default if given[name] is None else given[name]
    for name, default in defaults.items()
  }
  factories.import_modules(asked['use'])
  return asked


def resume(
  arguments: argparse.Namespace,
  defaults: Mapping[str, Any],
  restore: Callable[[run_folder.RunFolder, dict[str, Any]], _Plan],
) -> _Plan:
  """Prepares to go on with a run.

  Args:
    arguments: of the command; of what a run is made of, only `--steps` may be
      given.
    defaults: of what can be asked for.
    restore: from the folder, which is locked, and what was asked for, to what
      the command goes on with.

  Returns:
    What `restore` returns. The folder is closed again if that fails.
  """
  for name in [*defaults, 'out', 'overwrite', 'dry_run']:
    value = getattr(arguments, name)
    if name != 'steps' and value is not None and value is not False:
      raise errors.UsageError(
        f'--{name.replace("_", "-")} cannot be changed with --resume; only '
        '--steps can'
      )
  with contextlib.ExitStack() as stack:
    folder = stack.enter_context(run_folder.RunFolder.reopen(arguments.resume))
    command = folder.config.get('command')
    if command != arguments.command:
      raise errors.UsageError(
        f'{folder.path} is not a run of disco-rl {arguments.command}'
      )
    asked = {**defaults, **folder.config['asked']}
    factories.import_modules(asked['use'])
    if arguments.steps is not None:
      asked['steps'] = arguments.steps
    plan = restore(folder, asked)
    stack.pop_all()
  return plan


def choose_devices(num_devices: int) -> list[jax.Device] | None:
  """The first devices of this process, or None for the default."""
  devices = jax.local_devices()
  if num_devices > len(devices):
    raise errors.UsageError(
      f'{num_devices} devices asked for, but there are {len(devices)}: '
      f'{", ".join(map(str, devices))}'
    )
  return devices[:num_devices] if num_devices else None


def describe(
  command: str,
  asked: dict[str, Any],
  settings: config_dict.ConfigDict,
  **more: Any,
) -> dict[str, Any]:
  """What `config.json` of a run says.

  Args:
    command: which made it.
    asked: from `from_arguments`.
    settings: all settings that followed from it.
    **more: what else is worth knowing.

  Returns:
    A tree of JSON types.
  """
  return dict(
    command=command,
    version=disco_rl.__version__,
    **more,
    asked=asked,
    settings=plain_settings.to_plain(settings),
  )


def check_same(recorded: dict[str, Any], now: dict[str, Any]) -> None:
  """Refuses to go on with a run whose settings would be others now.

  Args:
    recorded: the settings of `config.json`.
    now: those this version of the library makes of what was asked for.
  """
  before, after = _flatten(recorded), _flatten(now)
  updates = 'agent.optimizer.total_updates'
  if before.get(updates) != after.get(updates):
    raise errors.UsageError(
      'the learning rate of this run ends with its steps and cannot go on '
      f'after them; to go on later, set {updates} when a run begins'
    )
  changed = [
    f'{name} was {before.get(name)!r}, is {after.get(name)!r}'
    for name in sorted(before.keys() | after.keys())
    if before.get(name) != after.get(name) and name != 'steps'
  ]
  if changed:
    raise errors.UsageError(
      'the run was made with other settings, by another version or an edited '
      f'config.json: {"; ".join(changed[:5])}'
    )


def _flatten(tree: Any, path: str = '') -> dict[str, Any]:
  if not isinstance(tree, dict):
    return {path: tree}
  flat: dict[str, Any] = {}
  for name, inner in tree.items():
    flat |= _flatten(inner, f'{path}.{name}' if path else name)
  return flat
