"""Options and endings that the commands which make runs have in common."""

import argparse
from collections.abc import Callable, Mapping
import contextlib
import json
import sys
from typing import Any

from disco_rl.cli import errors
from disco_rl.config import networks
from disco_rl.environments.wrappers import worker_env
from disco_rl.networks import cores
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder


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
    help=f'network: {", ".join(networks.known_names())} (default: '
    f'{default_network})',
  )
  add('--core', help=f'memory of the network: {", ".join(cores.CORES)}')
  add(
    '--use',
    action='append',
    metavar='MODULE',
    help='import a module of yours first, which may register environments, '
    'rules and networks. May be repeated',
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
    help='resume the run in DIR from its last checkpoint, bit-exact where the '
    'environment has snapshots of its state',
  )
  add(
    '--dry-run',
    action='store_true',
    help='check and show all settings, with where each came from, and stop',
  )
  add('--quiet', action='store_true', help='no progress bar')


def make_request(
  arguments: argparse.Namespace, defaults: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns what was asked for, with defaults filled in.

  Args:
    arguments: of the command.
    defaults: of the request, see `config.resolve`.
  """
  if arguments.out and not (arguments.overwrite or arguments.dry_run):
    run_folder.check_free(arguments.out)  # Before anything is downloaded.
  given = {name: getattr(arguments, name) for name in defaults}
  return {
    name: default if given[name] is None else given[name]
    for name, default in defaults.items()
  }


def resume(
  arguments: argparse.Namespace,
  defaults: Mapping[str, Any],
  make_run: Callable[[run_folder.RunFolder, int | None], run_lib.Run],
) -> run_lib.Run:
  """Opens the folder of a run and resumes it.

  Args:
    arguments: of the command; of what a run is made of, only `--steps` may be
      given.
    defaults: of the request.
    make_run: from the folder, which is locked, and the number of steps or None,
      to the run.

  Returns:
    The run. The folder is closed again if that fails.
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
    if folder.config.get('command') != arguments.command:
      raise errors.UsageError(
        f'{folder.path} is not a run of disco-rl {arguments.command}'
      )
    run = make_run(folder, arguments.steps)
    stack.pop_all()
  return run


def show_config(config: Mapping[str, Any]) -> None:
  """Prints what `config.json` of a run would hold, for `--dry-run`."""
  print(json.dumps(config, indent=2))


def execute(
  command: str, run: run_lib.Run, finish: Callable[[loop.Outcome], None]
) -> int:
  """Runs to the end, until Ctrl-C or an error.

  Args:
    command: its name, for messages.
    run: with a folder; closed in any case.
    finish: called with the outcome of a run that finished.

  Returns:
    The exit code of the command.
  """
  assert run.folder is not None
  folder = run.folder.path
  with run, interrupts.Interrupts() as interrupt:
    try:
      outcome = run.execute(should_stop=lambda: interrupt.requested)
    except worker_env.WorkerError as error:
      run.bar.close()
      print(f'disco-rl {command}: stopped: {error}', file=sys.stderr)
      print(
        'Resume from the last checkpoint with: '
        f'disco-rl {command} --resume {folder}',
        file=sys.stderr,
      )
      return 1
    if outcome.error is not None:
      print(f'disco-rl {command}: stopped: {outcome.error}', file=sys.stderr)
      print(
        f'The last finite state is in {run.folder.state_path}', file=sys.stderr
      )
      return 1
    if outcome.reason is loop.Reason.INTERRUPTED:
      print(f'Saved. Resume with: disco-rl {command} --resume {folder}')
      return 130
    finish(outcome)
  return 0
