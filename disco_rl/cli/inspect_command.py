"""Looks inside a rule: what its predictions know, and what its targets need.

  disco-rl inspect --run runs/catch-disco_103 --out runs/inside
  disco-rl inspect --rule disco_103 --env catch --out runs/inside
  disco-rl inspect --run runs/mine --analyses probes bootstrapping --out DIR

The agent is one of a finished run of disco-rl eval, or is trained first; its
run is then in DIR/run. The folder gets report.html, the pictures (.png) and the
numbers behind them (.csv). See docs/inspection.md.
"""

import argparse
import pathlib
from typing import Any

from disco_rl import fields
from disco_rl import installation
from disco_rl import schema
from disco_rl.cli import errors
from disco_rl.cli import options
from disco_rl.environments import factories
from disco_rl.inspection import context as context_lib
from disco_rl.inspection import report
from disco_rl.inspection import sections
from disco_rl.inspection import subject as subject_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import console
from disco_rl.runs import files
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import plots

_DEFAULT_STEPS = 1000
# Options of the training, which a finished run has already.
_OF_TRAINING = ('steps', 'set', 'net', 'core')


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add(
    '--rule',
    help='the rule: a name that `disco-rl rules` lists, a file, or the folder '
    f'of a run (default: that of --run, or else {rule_lib.DEFAULT})',
  )
  add('--run', metavar='DIR', help='folder of a run of disco-rl eval')
  add(
    '--env',
    help='environment to train an agent in; with --run, another environment '
    'with the same observations and actions',
  )
  add(
    '--steps',
    type=options.whole_number,
    help=f'iterations of the training (default: {_DEFAULT_STEPS})',
  )
  add(
    '--seed',
    type=options.whole_number,
    help='seed of the agent (default: 0; with --run, its smallest)',
  )
  add('--net', help='network of the agent to train')
  add('--core', help='its memory')
  add(
    '--set',
    action='append',
    metavar='NAME=VALUE',
    help='change a setting of the training, e.g. agent.learning_rate=3e-4. May '
    'be repeated',
  )
  add('--out', metavar='DIR', help='folder for the report, which must be free')
  add(
    '--overwrite',
    action='store_true',
    help='write into --out even if it has a report; its files are replaced',
  )
  add(
    '--analyses',
    nargs='+',
    metavar='NAME',
    help=f'which analyses to make: {", ".join(sections.ANALYSES)} (default: '
    'all)',
  )
  add(
    '--at',
    type=options.whole_number,
    metavar='ITERATION',
    help='inspect the agent as it was at the recorded age nearest to this one, '
    'when it was trained by this command (default: after its training)',
  )
  add(
    '--learning-steps',
    type=options.whole_number,
    default=0,
    help='also train fresh agents for as many iterations, each without one '
    'group of inputs, two seeds each (default: 0, none)',
  )
  options.add_use(parser)
  add('--quiet', action='store_true', help='show no progress')


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  say = (lambda line: None) if arguments.quiet else console.say
  with errors.as_usage_errors():
    _check(arguments)
    factories.import_modules(arguments.use or [])
    subject = _open(arguments)
    if subject is not None and arguments.at is not None:
      subject = subject.at(arguments.at)
  if subject is None:
    console.say(f'Stopped before the training ended: {_run_folder(arguments)}')
    return interrupts.EXIT_CODE
  sizes = context_lib.Sizes(learning_steps=arguments.learning_steps)
  try:
    report.inspect(
      subject,
      arguments.out,
      analyses=arguments.analyses or tuple(sections.ANALYSES),
      sizes=sizes,
      say=say,
    )
  except files.StorageError as error:
    raise errors.StoppedError(str(error), '') from error
  print(f'report: {pathlib.Path(arguments.out) / report.FILE}')
  return 0


def _check(arguments: argparse.Namespace) -> None:
  """Raises a `ValueError` for options that are wrong or do not go together."""
  if not arguments.out:
    raise errors.UsageError('--out DIR is missing, the folder for the report')
  if not (arguments.run or arguments.env):
    raise errors.UsageError(
      'give --run DIR, a finished run of disco-rl eval, or --env NAME to train '
      'an agent first'
    )
  for name in _OF_TRAINING:
    if arguments.run and getattr(arguments, name) is not None:
      raise errors.UsageError(
        f'--{name} is for training an agent, and {arguments.run} has one: '
        'leave one of them out'
      )
  report.check_analyses(arguments.analyses or ())
  fields.check(
    fields.Field(int, low=0), 'learning-steps', arguments.learning_steps
  )
  if arguments.steps is not None:
    schema.check_as('steps', 'steps', arguments.steps)
  if not plots.is_available():
    raise errors.UsageError(
      f'the report has pictures: {installation.install_hint("plots")}'
    )
  out = pathlib.Path(arguments.out)
  if out.exists() and not out.is_dir():
    raise errors.UsageError(f'--out {out} is a file, not a folder')
  if out.is_dir() and any(out.iterdir()) and not arguments.overwrite:
    raise errors.UsageError(
      f'{out} is not empty: choose another --out, or replace its report with '
      '--overwrite'
    )


def _run_folder(arguments: argparse.Namespace) -> pathlib.Path:
  return pathlib.Path(arguments.out) / 'run'


def _open(arguments: argparse.Namespace) -> subject_lib.Subject | None:
  """Opens the agent of a run, or trains one."""
  if arguments.run:
    return subject_lib.of_run(
      arguments.run, arguments.rule, arguments.env, arguments.seed
    )
  request: dict[str, Any] = {
    name: getattr(arguments, name)
    for name in ('set', 'net', 'core', 'use')
    if getattr(arguments, name) is not None
  }
  try:
    return subject_lib.train(
      arguments.env,
      arguments.rule or rule_lib.DEFAULT,
      num_iterations=arguments.steps or _DEFAULT_STEPS,
      seed=arguments.seed or 0,
      request=request,
      out=_run_folder(arguments),
      overwrite=arguments.overwrite,
      show_progress=not arguments.quiet,
    )
  except loop.DivergenceError as error:
    raise errors.StoppedError(str(error), '') from error
