"""Lists the known rules: what they are, and whether they are on this machine.

A rule that is not here is downloaded when it is first used, or found in the
folder named by the environment variable DISCO_RL_WEIGHTS.
"""

import argparse

from disco_rl.rule_zoo import rule as rule_choice
from disco_rl.rule_zoo import store as rule_store
from disco_rl.cli import errors
from disco_rl.cli import tables

HELP = 'list the known rules'


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """There are no options."""
  del parser


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  del arguments
  rows = []
  with errors.as_usage_errors():
    for info in rule_store.known_rules().values():
      path = rule_store.find(info.name)
      where = str(path) if path else f'not here; from {info.url}'
      rows.append((info.name, 'discovered', 'yes' if path else 'no', where))
    for path in rule_store.own_files():
      rows.append((path.stem, 'your own', 'yes', str(path)))
  for name in rule_choice.hand_designed():
    rows.append((name, 'hand-designed', 'yes', 'part of the library'))
  print(tables.format_table(('rule', 'kind', 'here', 'where'), rows))
  for info in rule_store.known_rules().values():
    print(f'\n{info.name} ({info.license}): {info.provenance}')
  return 0
