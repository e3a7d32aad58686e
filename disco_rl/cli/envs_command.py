"""Lists the environments that can be made by name.

PATTERN is a pattern as in a shell ('atari:S*') or a part of the name. Of many
environments, observations and actions are listed as far as they are known
without making them; of at most twelve, as they are.
"""

import argparse
from collections.abc import Sequence
import dataclasses
import json

from disco_rl import fields
from disco_rl import installation
from disco_rl.cli import errors
from disco_rl.cli import tables
from disco_rl.environments import listing

_WIDTH = 80
_HEADER = ('environment', 'observation', 'actions', 'where', 'extra')


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the options."""
  parser.add_argument(
    'pattern', nargs='?', metavar='PATTERN', help='which of them; default: all'
  )
  parser.add_argument(
    '--json', action='store_true', help='print a list in JSON'
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  with errors.as_usage_errors():
    listed = listing.list_environments(arguments.pattern or '')
  if not listed:
    raise errors.UsageError(
      f'no environment matches {fields.shorten(arguments.pattern)}; '
      '`disco-rl envs` lists all'
    )
  if arguments.json:
    print(json.dumps([dataclasses.asdict(x) for x in listed], indent=2))
    return 0
  print(tables.format_table(_HEADER, _fitted([_row(x) for x in listed])))
  for extra in sorted({x.extra for x in listed if not x.is_installed}):
    print(f'\n* not installed: {installation.install_hint(extra)}')
  for x in listed:
    if x.problem:
      print(f'\n{x.name}: {x.problem}')
  return 0


def _row(listed: listing.Listed) -> tuple[str, ...]:
  mark = '' if listed.is_installed else '*'
  observation = 'cannot be made' if listed.problem else listed.observation
  return (
    listed.name,
    observation,
    listed.actions,
    listed.where,
    listed.extra + mark,
  )


def _fitted(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
  """Cuts observations off, so that lines fit into a terminal."""
  others = [i for i in range(len(_HEADER)) if i != 1]
  taken = sum(max(len(row[i]) for row in (_HEADER, *rows)) + 2 for i in others)
  room = max(_WIDTH - taken, len(_HEADER[1]))

  def cut(text: str) -> str:
    return text if len(text) <= room else f'{text[: room - 3]}...'

  return [(row[0], cut(row[1]), *row[2:]) for row in rows]
