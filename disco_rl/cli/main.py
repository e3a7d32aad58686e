"""`disco-rl`: trains agents with discovered rules, and compares them."""

import argparse
from collections.abc import Sequence
import sys

import disco_rl
from disco_rl.cli import compare_command
from disco_rl.cli import errors
from disco_rl.cli import eval_command
from disco_rl.cli import meta_train_command
from disco_rl.cli import rules_command
from disco_rl.runs import compilation_cache

_COMMANDS = {
  'eval': eval_command,
  'meta-train': meta_train_command,
  'compare': compare_command,
  'rules': rules_command,
}


# Those that compile for long.
_COMPILING = ('eval', 'meta-train')


def build_parser() -> argparse.ArgumentParser:
  """The parser of all commands."""
  parser = argparse.ArgumentParser(prog='disco-rl', description=__doc__)
  parser.add_argument(
    '--version', action='version', version=f'disco_rl {disco_rl.__version__}'
  )
  subparsers = parser.add_subparsers(
    dest='command', required=True, metavar='COMMAND'
  )
  for name, module in _COMMANDS.items():
    module.add_arguments(
      subparsers.add_parser(
        name,
        help=module.HELP,
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
      )
    )
  return parser


def main(argv: Sequence[str] | None = None) -> int:
  """Runs one command.

  Args:
    argv: its words; None for those of this process.

  Returns:
    The exit code: 0 if all went well, 1 if training failed, 2 if something
    asked for cannot be done, 130 if it was interrupted.
  """
  arguments = build_parser().parse_args(argv)
  if arguments.command in _COMPILING:
    compilation_cache.enable()
  try:
    return _COMMANDS[arguments.command].run(arguments)
  except errors.UsageError as error:
    print(f'disco-rl {arguments.command}: error: {error}', file=sys.stderr)
    return 2


if __name__ == '__main__':
  sys.exit(main())
