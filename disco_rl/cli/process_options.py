"""Defines the options of runs of several processes, and connects these."""

import argparse

from disco_rl.cli import errors
from disco_rl.cli import options
from disco_rl.processes import runtime

_MAX_TIMEOUT = 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the options of runs of several processes.

  Args:
    parser: the parser of a command that makes runs.
  """
  group = parser.add_argument_group(
    'several processes or hosts',
    'Every process has the same arguments, but for --process-id. --devices '
    'counts the devices of all processes. The first one writes the results. '
    'See docs/several_hosts.md.',
  )
  group.add_argument(
    '--coordinator',
    metavar='HOST:PORT',
    help='address of the host of process 0 that the others can reach, and a '
    'free port',
  )
  group.add_argument(
    '--num-processes', type=options.whole_number, help='number of processes'
  )
  group.add_argument(
    '--process-id',
    type=options.whole_number,
    help='number of this process, from 0',
  )
  group.add_argument(
    '--distributed',
    choices=('auto',),
    help='auto: find out coordinator and numbers from SLURM, GKE, TPU pods, '
    '..., as jax.distributed.initialize does',
  )
  group.add_argument(
    '--connect-timeout',
    type=options.whole_number,
    metavar='SECONDS',
    help='how long processes wait for each other at the start (default: '
    f'{runtime.DEFAULT_TIMEOUT:g})',
  )


def connect(arguments: argparse.Namespace) -> None:
  """Connects the processes of a run, before JAX has started.

  Args:
    arguments: the command's arguments.
  """
  given = {
    f'--{name.replace("_", "-")}': getattr(arguments, name)
    for name in ('coordinator', 'num_processes', 'process_id')
  }
  is_by_hand = any(value is not None for value in given.values())
  missing = [name for name, value in given.items() if value is None]
  if is_by_hand and (missing or arguments.distributed):
    what = f'{missing[0]} is missing' if missing else 'not with --distributed'
    raise errors.UsageError(f'{", ".join(given)} belong together: {what}')
  timeout = arguments.connect_timeout
  if timeout is not None:
    if not (is_by_hand or arguments.distributed):
      raise errors.UsageError(
        '--connect-timeout needs --coordinator or --distributed'
      )
    if not 1 <= timeout <= _MAX_TIMEOUT:
      raise errors.UsageError(
        f'--connect-timeout must be between 1 and {_MAX_TIMEOUT} seconds, got '
        f'{timeout}'
      )
  seconds = float(timeout or runtime.DEFAULT_TIMEOUT)
  with errors.as_usage_errors():
    if is_by_hand:
      group = runtime.by_hand(
        arguments.coordinator,
        arguments.num_processes,
        arguments.process_id,
        seconds,
      )
    elif arguments.distributed:
      group = runtime.detected(seconds)
    else:
      return
  if group is not None:
    group.program = f'disco-rl {arguments.command}'
