"""Trains rules × tasks × seeds, and compares them with uncertainty.

  disco-rl benchmark --rules disco_103 ppo --suite small --out runs/bench
  disco-rl benchmark --resume runs/bench            # the cells that are left
  disco-rl benchmark --rules actor_critic@tuned random:0 --tuned tuned.json ...

A rule is a name, a file or the folder of a run, as in `disco-rl eval`;
random:SEED is an untrained one. With @tuned it has the settings tuned for each
task, with @one the one setting that is best for all tasks. Both, and the
anchors of normalised scores, are computed before:

  disco-rl benchmark --tune --rules actor_critic ppo --out runs/tuning
  disco-rl benchmark --anchors --rules actor_critic ppo --out runs/anchors \
    --tuned runs/tuning/tuned.json

The output folder contains the run of each cell (cells/), scores.csv, table.md,
aggregates.csv and pictures. See docs/benchmark.md.
"""

import argparse
from collections.abc import Iterator
import contextlib
import pathlib
from typing import Any

from disco_rl.benchmarking import anchors
from disco_rl.benchmarking import benchmark
from disco_rl.benchmarking import campaign
from disco_rl.benchmarking import suites
from disco_rl.benchmarking import tuning
from disco_rl.cli import errors
from disco_rl.cli import options
from disco_rl.cli import run_options
from disco_rl.environments import factories
from disco_rl.runs import console
from disco_rl.runs import files
from disco_rl.runs import interrupts

_DEFAULT_SUITE = 'small'
_DEFAULT_SEEDS = {
  benchmark.KIND: 5,
  tuning.KIND: tuning.DEFAULT_SEEDS,
  anchors.KIND: anchors.DEFAULT_SEEDS,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add('--rules', nargs='+', metavar='RULE', help='the rules, see above')
  add(
    '--suite',
    help=f'suite of tasks: {", ".join(suites.SUITES)} (default: '
    f'{_DEFAULT_SUITE})',
  )
  add(
    '--seeds',
    type=options.whole_number,
    help='number of seeds of each cell (default: 5; with --tune '
    f'{tuning.DEFAULT_SEEDS}, with --anchors {anchors.DEFAULT_SEEDS})',
  )
  add('--out', metavar='DIR', help='folder for the results, which must be free')
  add(
    '--resume',
    metavar='DIR',
    help='go on in DIR: finished cells are skipped, an interrupted one is '
    'resumed from its last checkpoint',
  )
  add('--tune', action='store_true', help='tune the rules, write tuned.json')
  add(
    '--trials',
    type=options.whole_number,
    help='settings that --tune tries for each rule and task (default: '
    f'{tuning.DEFAULT_TRIALS})',
  )
  add(
    '--anchors',
    action='store_true',
    help='compute the anchors of the suite: returns of a random policy, and of '
    'the tuned rules at four times the budget; write anchors.json',
  )
  add('--tuned', metavar='FILE', help='tuned settings (tuned.json)')
  add('--anchors-file', metavar='FILE', help='anchors (anchors.json)')
  options.add_use(parser)
  add(
    '--env-steps',
    type=options.whole_number,
    metavar='N',
    help='budget of every task in environment steps of one agent, e.g. 1e5, '
    'rounded up to whole iterations (default: those of the suite)',
  )
  run_options.add_track_argument(parser)
  add('--quiet', action='store_true', help='show no progress bar')


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  with errors.as_usage_errors():
    factories.import_modules(arguments.use or [])
    kind, given = _request(arguments)
  return _RUNNERS[kind](given, not arguments.quiet)


def _request(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
  """Returns what to compute, and the arguments of its function."""
  if arguments.tune and arguments.anchors:
    raise errors.UsageError('--tune and --anchors: give one of them')
  kind = benchmark.KIND
  if arguments.tune:
    kind = tuning.KIND
  if arguments.anchors:
    kind = anchors.KIND
  given: dict[str, Any] = dict(rules=arguments.rules, suite=arguments.suite)
  before: dict[str, Any] = {}
  if arguments.resume:
    before = _spec_to_resume(arguments)
    kind = before['kind']
    given['rules'] = [*before['rules'], *(arguments.rules or [])]
    given['suite'] = before['suite']
  if not arguments.resume and not arguments.out:
    raise errors.UsageError('--out DIR is missing, the folder for the results')
  if not given['rules']:
    raise errors.UsageError('--rules is missing, the rules to compare')
  given['suite'] = given['suite'] or _DEFAULT_SUITE
  given['out'] = arguments.resume or arguments.out
  given['resume'] = bool(arguments.resume)
  seeds = before.get('seeds')
  if kind == benchmark.KIND:
    given['seeds'] = seeds or _or(arguments.seeds, _DEFAULT_SEEDS[kind])
    given['anchors'] = arguments.anchors_file
    given['num_env_steps'] = before.get('env_steps', arguments.env_steps)
    given['track'] = arguments.track or ()
  else:
    number = _or(arguments.seeds, _DEFAULT_SEEDS[kind])
    given['num_seeds'] = len(seeds) if seeds else number
  if kind == tuning.KIND:
    trials = _or(arguments.trials, tuning.DEFAULT_TRIALS)
    given['trials'] = before.get('trials', trials)
  else:
    given['tuned'] = arguments.tuned
  _refuse_unused(arguments, kind)
  return kind, given


def _spec_to_resume(arguments: argparse.Namespace) -> dict[str, Any]:
  """Reads what the folder of `--resume` is for."""
  fixed = ('suite', 'seeds', 'out', 'trials', 'tune', 'anchors', 'env_steps')
  for name in fixed:
    value = getattr(arguments, name)
    if value is not None and value is not False:
      raise errors.UsageError(
        f'--{name.replace("_", "-")} cannot be changed with --resume; --rules '
        'can add rules, with --tuned, and --anchors-file gives anchors'
      )
  return campaign.read_spec(arguments.resume)


def _refuse_unused(arguments: argparse.Namespace, kind: str) -> None:
  """Raises a `UsageError` for an option that has no effect."""
  unused = {
    '--trials': arguments.trials is not None and kind != tuning.KIND,
    '--tuned': arguments.tuned is not None and kind == tuning.KIND,
    '--env-steps': arguments.env_steps is not None and kind != benchmark.KIND,
    '--track': bool(arguments.track) and kind != benchmark.KIND,
    '--anchors-file': arguments.anchors_file is not None
    and kind != benchmark.KIND,
  }
  for option, is_unused in unused.items():
    if is_unused:
      raise errors.UsageError(f'{option} has no effect here: leave it out')


def _or(value: Any, default: Any) -> Any:
  return default if value is None else value


def _benchmark(given: dict[str, Any], show_progress: bool) -> int:
  """Runs a benchmark; returns the exit code."""
  with errors.as_usage_errors():
    job = benchmark.Job(**given)
  for note in job.notes:
    console.complain(f'disco-rl benchmark: note: {note}')
  console.say(
    f'suite {job.suite.name}: {len(job.cells)} cells, {job.num_done} finished: '
    f'{given["out"]}'
  )
  with _stopping(given['out']):
    is_finished = job.run(show_progress=show_progress)
    if is_finished:
      print(job.finish().table())
      print(f'tables and pictures: {given["out"]}')
  return 0 if is_finished else _interrupted(given['out'])


def _tune(given: dict[str, Any], show_progress: bool) -> int:
  """Tunes rules; returns the exit code."""
  with _stopping(given['out']):
    result = tuning.tune(**given, show_progress=show_progress)
  if result is None:
    return _interrupted(given['out'])
  for rule, found in result['rules'].items():
    for task, own in found['tasks'].items():
      print(f'{rule} {task}: {own["settings"]}, return {own["score"]}')
    print(f'{rule} one for all: {found["one"]["settings"]}')
  print(f'tuned settings: {pathlib.Path(given["out"]) / "tuned.json"}')
  return 0


def _anchors(given: dict[str, Any], show_progress: bool) -> int:
  """Computes anchors; returns the exit code."""
  with _stopping(given['out']):
    result = anchors.compute(**given, show_progress=show_progress)
  if result is None:
    return _interrupted(given['out'])
  for task, own in result['tasks'].items():
    told = '' if own['is_told_apart'] else ' (cannot be told apart)'
    print(
      f'{task}: random {own["random"]:.4g}, best {own["best"]} '
      f'({own["best_rule"]}){told}'
    )
  print(f'anchors: {pathlib.Path(given["out"]) / "anchors.json"}')
  return 0


_RUNNERS = {
  benchmark.KIND: _benchmark,
  tuning.KIND: _tune,
  anchors.KIND: _anchors,
}


@contextlib.contextmanager
def _stopping(out: str) -> Iterator[None]:
  """Converts errors of set-up and of training for users, within a block."""
  try:
    with errors.as_usage_errors():
      yield
  except errors.UsageError as error:
    if isinstance(error.__cause__, campaign.CellError | files.StorageError):
      advice = f'Go on with: disco-rl benchmark --resume {out}'
      raise errors.StoppedError(str(error), advice) from error.__cause__
    raise


def _interrupted(out: str) -> int:
  console.say(f'Saved. Go on with: disco-rl benchmark --resume {out}')
  return interrupts.EXIT_CODE
