"""`disco-rl`: trains agents with discovered rules, and compares them."""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import importlib
import os
import sys
import traceback
from typing import Any

import disco_rl
from disco_rl.cli import errors
from disco_rl.cli import options
from disco_rl.runs import console
from disco_rl.runs import interrupts

# Command to its module and help. Modules are imported when they are used, since
# JAX takes long to import, and `disco-rl --help` should not.
_COMMANDS = {
  'eval': ('eval_command', 'train fresh agents with a rule'),
  'meta-train': ('meta_train_command', 'discover or improve a rule'),
  'benchmark': (
    'benchmark_command',
    'compare rules over environments and seeds',
  ),
  'compare': ('compare_command', 'draw several runs in one picture'),
  'inspect': ('inspect_command', 'look inside a rule: what it knows and needs'),
  'play': ('play_command', 'play episodes with a trained agent, and show them'),
  'report': ('report_command', 'show runs on one page, a file of HTML'),
  'conformance': (
    'conformance_command',
    'check another implementation against numbers',
  ),
  'rules': ('rules_command', 'list the known rules'),
  'envs': ('envs_command', 'list the environments'),
}

# Commands that compile large programs.
_COMPILING = ('eval', 'meta-train', 'benchmark', 'inspect', 'play')
# Those whose runs may have several devices and processes.
_SHARDED = ('eval', 'meta-train')

# Bytes of address space that Python and JAX reserve before any work. With much
# less, JAX waits for ever for threads that it could not start.
_LEAST_ADDRESS_SPACE = 10**9


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
  """Builds the parser, with the options of one command.

  Args:
    command: the command whose options are added; None for no options.

  Returns:
    The parser.
  """
  parser = options.Parser(prog='disco-rl', description=__doc__)
  parser.add_argument(
    '--version', action='version', version=f'disco_rl {disco_rl.__version__}'
  )
  subparsers = parser.add_subparsers(
    dest='command', required=True, metavar='COMMAND'
  )
  for name, (_, help_text) in _COMMANDS.items():
    module = _import(name) if name == command else None
    subparser = subparsers.add_parser(
      name,
      help=help_text,
      description=module and module.__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if module is not None:
      module.add_arguments(subparser)
    subparser.add_argument(
      '--traceback',
      action='store_true',
      help='also print the traceback of an error',
    )
  return parser


def main(argv: Sequence[str] | None = None) -> int:
  """Runs one command.

  Args:
    argv: its command-line arguments; None for those of this process.

  Returns:
    The exit code: 0 for success, 1 if training failed or its results could not
    be written, 2 for usage errors, 130 if it was interrupted.
  """
  words = list(sys.argv[1:] if argv is None else argv)
  command = next((word for word in words if word in _COMMANDS), None)
  try:
    if command is not None:
      _check_address_space()
      with _starting_jax():
        importlib.import_module('jax')
      with _importing():
        _import(command)
    arguments = build_parser(command).parse_args(words)
    if arguments.command in _COMPILING:
      if arguments.command in _SHARDED:
        with _starting_jax():
          _simulate_devices(arguments)
        _import_from_cli('process_options').connect(arguments)
      interrupts.install_again()
      with _starting_jax():
        importlib.import_module('jax').devices()
      compilation_cache = importlib.import_module(
        'disco_rl.runs.compilation_cache'
      )
      compilation_cache.enable()
    return _import(arguments.command).run(arguments)
  except (errors.UsageError, errors.StoppedError) as error:
    group = _group()
    if group is not None and group.announce(str(error), error.exit_code):
      return error.exit_code  # Reported by process 0.
    return errors.report(command or '', error, '--traceback' in words)
  except Exception as error:
    group = _group()
    if group is not None:
      group.fail(error)
    raise


def _simulate_devices(arguments: argparse.Namespace) -> None:
  """Provides devices on CPU for `--devices`, given now or when a run began."""
  number: Any = arguments.devices
  if number is None and arguments.resume:
    run_folder = importlib.import_module('disco_rl.runs.run_folder')
    try:
      number = run_folder.read_config(arguments.resume)['settings']['devices']
    except (run_folder.RunFolderError, OSError, KeyError, TypeError):
      return  # Reported when the run is resumed.
  if isinstance(number, int):
    device_choice = importlib.import_module('disco_rl.device_choice')
    # The processes have as many each; others are refused later.
    device_choice.simulate_cpu_devices(
      number // (arguments.num_processes or 1), not arguments.dry_run
    )


def _group() -> Any:
  """Returns the group of this process, if it has been made."""
  runtime = sys.modules.get('disco_rl.processes.runtime')
  return runtime and runtime.current()


@contextlib.contextmanager
def _starting_jax() -> Iterator[None]:
  """Converts errors of JAX, which fails if its variables are wrong."""
  try:
    yield
  except Exception as error:
    first_line = str(error).strip().partition('\n')[0]
    reason = ': '.join(filter(None, [type(error).__name__, first_line]))
    raise errors.UsageError(
      f'JAX cannot start ({reason}). Its settings are the environment '
      'variables that begin with JAX_ and XLA_'
    ) from error


@contextlib.contextmanager
def _importing() -> Iterator[None]:
  """Converts errors of packages that cannot be imported as Python was started.

  For example, TensorFlow Probability cannot be imported if warnings are errors.
  """
  try:
    yield
  except Exception as error:
    reason = ': '.join(filter(None, [type(error).__name__, str(error)]))
    raise errors.UsageError(
      f'a package that disco_rl needs cannot be imported ({reason}). Variables '
      'that begin with PYTHON, or another version of the package, may be the '
      'cause'
    ) from error


def _check_address_space() -> None:
  """Raises a `UsageError` if JAX could not even start, see `ulimit -v`."""
  try:
    import resource
  except ImportError:  # Not on this system.
    return
  limit, _ = resource.getrlimit(resource.RLIMIT_AS)
  if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
    raise errors.UsageError(
      f'the address space is limited to {limit / 1e6:.0f} MB (ulimit -v), but '
      f'JAX needs at least {_LEAST_ADDRESS_SPACE / 1e6:.0f} MB to start'
    )


def start() -> int:
  """Runs the command of this process.

  Signals never raise an exception here, and output never fails.

  Returns:
    The exit code, see `main`.
  """
  interrupts.hold()
  console.set_up()
  interrupts.start_command()
  code = 1
  try:
    code = main()
  finally:
    interrupts.end_command()
    if _group() is not None:
      _leave(code)
  return code


def _leave(code: int) -> None:
  """Ends one of several processes, together with the others unless it failed.

  Args:
    code: the exit code.
  """
  if code in (0, interrupts.EXIT_CODE):
    sys.modules['disco_rl.processes.runtime'].leave()
    return
  if sys.exc_info()[1] is not None:
    traceback.print_exc()
  # JAX would wait for the others, which may have ended.
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(Exception):
      stream.flush()
  os._exit(code)


def _import_from_cli(module: str) -> Any:
  return importlib.import_module(f'disco_rl.cli.{module}')


def _import(command: str) -> Any:
  module, _ = _COMMANDS[command]
  return _import_from_cli(module)


if __name__ == '__main__':
  sys.exit(start())
