"""Defines the options that commands for runs share, and executes the runs."""

import argparse
from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import json
import pathlib
from typing import Any

from disco_rl import device_choice
from disco_rl.cli import errors
from disco_rl.cli import options
from disco_rl.cli import process_options
from disco_rl.config import networks
from disco_rl.config import requests
from disco_rl.networks import cores
from disco_rl.processes import runtime
from disco_rl.runs import console
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_files
from disco_rl.runs import run_folder
from disco_rl.runs import shared_folder
from disco_rl.runs import states
from disco_rl.runs import trackers

# The options that may be changed when a run is resumed.
_BUDGETS = ('steps', 'env_steps')


def add_run_arguments(
  parser: argparse.ArgumentParser,
  examples_of_settings: str,
  default_network: str,
) -> None:
  """Adds the options that every run has.

  Args:
    parser: the command's parser.
    examples_of_settings: examples for the help of `--set`.
    default_network: words for the default in the help of `--net`.
  """
  add = parser.add_argument
  add(
    '--net',
    help=f'network: {", ".join(networks.known_names())} (default: '
    f'{default_network})',
  )
  add('--core', help=f'memory of the network: {", ".join(cores.CORES)}')
  options.add_use(parser)
  add(
    '--env-steps',
    type=options.whole_number,
    metavar='N',
    help='the same budget in environment steps of one agent, e.g. 1e6, instead '
    'of --steps; rounded up to whole steps of the run',
  )
  add(
    '--seed',
    type=options.whole_number,
    help='seed, or the first of them (default: 0)',
  )
  add(
    '--set',
    action='append',
    metavar='NAME=VALUE',
    help=f'change a setting, e.g. {examples_of_settings}; --dry-run shows all '
    'settings. May be repeated',
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
    help='resume the run in DIR from its last checkpoint; bit-exact if the '
    "environment's state can be saved",
  )
  add(
    '--checkpoint-replay',
    choices=('always', 'never'),
    help='whether checkpoints contain the replay, which may be large; if not, '
    'it is filled again after --resume, which is then not bit-exact (default: '
    'always)',
  )
  add(
    '--dry-run',
    action='store_true',
    help='check all settings and the memory that the run needs, show them and '
    'the origins of settings, and stop',
  )
  add_track_argument(parser)
  add('--quiet', action='store_true', help='show no progress bar')
  process_options.add_arguments(parser)


def add_track_argument(parser: argparse.ArgumentParser) -> None:
  """Adds the option for trackers."""
  parser.add_argument(
    '--track',
    action='append',
    metavar='TRACKER',
    help='where to show metrics besides metrics.csv: tensorboard, wandb '
    '(offline, unless WANDB_MODE is set), or a tracker that a module of --use '
    'registers. May be repeated',
  )


@dataclasses.dataclass(frozen=True)
class RunCommand:
  """The functions of a command that makes runs.

  Attributes:
    defaults: defaults of the request, see `config.resolve`.
    make_plan: makes the plan of a new run from a request.
    plan_of_folder: makes the plan of the run in a folder; `steps` or
      `env_steps` change its budget, unless they are None.
    name_run: returns a name for the folder of a plan.
    describe_start: returns the first line of output, from a plan and its run.
    finish: called with the run and its outcome if it was finished.
  """

  defaults: Mapping[str, Any]
  make_plan: Callable[[Mapping[str, Any]], Any]
  plan_of_folder: Callable[..., Any]
  name_run: Callable[[Any], str]
  describe_start: Callable[[Any, run_lib.Run], str]
  finish: Callable[[run_lib.Run, loop.Outcome], None]


def run(arguments: argparse.Namespace, command: RunCommand) -> int:
  """Starts or resumes a run, and runs it until its end, Ctrl-C or an error.

  Args:
    arguments: the command's arguments.
    command: the command.

  Returns:
    The exit code.
  """
  if getattr(arguments, 'flops', None) and not arguments.dry_run:
    raise errors.UsageError('--flops is for the estimate of --dry-run only')
  say = console.say if runtime.is_writer() else lambda _: None
  with errors.as_usage_errors():
    if arguments.resume:
      a_run = _resume(arguments, command)
    else:
      plan = command.make_plan(_make_request(arguments, command.defaults))
      chosen = trackers.find(arguments.track or ())
      if arguments.dry_run:
        return _dry_run(plan, getattr(arguments, 'flops', None))
      name = run_files.as_file_name(command.name_run(plan))
      a_run = plan.start(
        arguments.out or pathlib.Path('runs') / name,
        overwrite=arguments.overwrite,
        numbered=not arguments.out,
        show_progress=not arguments.quiet,
      )
      a_run.trackers = chosen
      out = a_run.folder.path
      say(f'{command.describe_start(plan, a_run)}{_budget(plan)}: {out}')
  return _execute(arguments.command, a_run, command.finish)


def _dry_run(plan: Any, flops: float | None) -> int:
  """Checks a plan; prints its config, and on standard error what it needs."""
  found = plan.dry_run(flops)
  if runtime.is_writer():
    print(json.dumps(plan.config, indent=2))
    budget = _budget(plan).strip(', ')
    for note in (*[budget] * bool(budget), *found.notes):
      console.complain(f'disco-rl {plan.command}: {note}')
    for name, estimate in found.estimates.items():
      console.complain(
        f'disco-rl {plan.command}: {name} needs at least '
        f'{estimate.describe()}; free memory: {estimate.describe_free()}'
      )
  if found.error is not None:
    raise found.error
  return 0


def _budget(plan: Any) -> str:
  """Returns words for a budget in environment steps; empty for one in steps."""
  env_steps = plan.request['env_steps']
  if env_steps is None:
    return ''
  steps = f'{plan.settings.steps:,} {plan.unit}s'
  return f', {env_steps:,} environment steps of each agent = {steps}'


def _make_request(
  arguments: argparse.Namespace, defaults: Mapping[str, Any]
) -> dict[str, Any]:
  """Makes the request from the command's arguments and the defaults."""
  if arguments.overwrite and not arguments.out:
    raise errors.UsageError(
      '--overwrite needs --out, the folder whose run it removes'
    )
  if arguments.out and not (arguments.overwrite or arguments.dry_run):
    run_folder.check_free(arguments.out)  # Before anything is downloaded.
  defaults = {
    **defaults,
    'devices': device_choice.default_number(defaults['devices']),
  }
  given = {name: getattr(arguments, name, None) for name in defaults}
  requests.check_said_once(
    {
      name: f'{_as_option(name)} {value}'
      for name, value in given.items()
      if value is not None
    },
    [(requests.path_of(x), f'--set {x}') for x in given['set'] or ()],
  )
  return {
    name: default if given[name] is None else given[name]
    for name, default in defaults.items()
  }


def _resume(arguments: argparse.Namespace, command: RunCommand) -> run_lib.Run:
  """Opens and resumes the run in a folder; only its budget may be changed."""
  budget = {
    name: getattr(arguments, name)
    for name in _BUDGETS
    if getattr(arguments, name) is not None
  }
  requests.check_said_once(
    {name: f'{_as_option(name)} {value}' for name, value in budget.items()}, []
  )
  for name in [*command.defaults, 'out', 'overwrite', 'dry_run']:
    value = getattr(arguments, name, None)
    if name not in _BUDGETS and value is not None and value is not False:
      raise errors.UsageError(
        f'{_as_option(name)} cannot be changed with --resume; only --steps and '
        '--env-steps can'
      )
  with contextlib.ExitStack() as stack:
    folder = stack.enter_context(shared_folder.reopen(arguments.resume))
    if folder.config.get('command') != arguments.command:
      raise errors.UsageError(
        f'{folder.path} is not a run of disco-rl {arguments.command}'
      )
    plan = command.plan_of_folder(folder, **budget)
    chosen = trackers.find(arguments.track or ())
    a_run = plan.resume(folder, show_progress=not arguments.quiet)
    a_run.trackers = chosen
    done = a_run.trainable.done(a_run.state)
    if a_run.note and runtime.is_writer():
      console.complain(f'disco-rl {arguments.command}: note: {a_run.note}')
    if runtime.is_writer():
      at = f'{plan.unit} {done}{_budget(plan)}'
      console.say(f'Resuming from {at}: {folder.path}')
    stack.pop_all()
  return a_run


def _as_option(name: str) -> str:
  return f'--{name.replace("_", "-")}'


def _execute(
  command: str,
  a_run: run_lib.Run,
  finish: Callable[[run_lib.Run, loop.Outcome], None],
) -> int:
  """Executes a run until its end, Ctrl-C or an error; returns the exit code."""
  assert a_run.folder is not None
  folder, group = a_run.folder, runtime.current()
  if group is not None:
    group.advice = lambda: _advice(command, folder)
  with a_run:
    try:
      outcome = a_run.execute()
      if outcome.reason is loop.Reason.FINISHED:
        if folder.is_writable:
          finish(a_run, outcome)
        return 0
    except Exception as error:
      if not errors.is_for_users(error):
        raise
      a_run.bar.close()
      raise errors.StoppedError(str(error), _advice(command, folder)) from error
  if outcome.error is not None:
    advice = ''
    found = states.find(folder.state_path)
    if found is not None:
      advice = f'The checkpoint from before it is in {found}'
    raise errors.StoppedError(str(outcome.error), advice) from outcome.error
  if folder.is_writable:
    console.say(
      f'Saved. Resume with: disco-rl {command} --resume {folder.path}'
    )
  return interrupts.EXIT_CODE


def _advice(command: str, folder: run_folder.RunFolder) -> str:
  """Returns how to resume a run that an error stopped; empty if it is gone."""
  resume = f'disco-rl {command} --resume {folder.path}'
  if states.find(folder.state_path) is not None:
    return f'Resume from the last checkpoint with: {resume}'
  if run_folder.holds_run(folder.path):
    return f'There is no checkpoint yet. Start again with: {resume}'
  return ''
