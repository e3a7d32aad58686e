"""Lists the known rules: what they are, and whether they are on this machine.

A rule that is not here is downloaded when it is first used, or found in the
folder named by the environment variable DISCO_RL_WEIGHTS.
"""

import argparse

from disco_rl.cli import errors
from disco_rl.cli import tables
from disco_rl.rule_zoo import rule as rule_lib


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """There are no options."""
  del parser


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  del arguments
  with errors.as_usage_errors():
    rules = rule_lib.list_rules()
  rows = []
  for rule in rules:
    where = 'part of the library'
    if rule.path is not None:
      where = str(rule.path)
    elif rule.url is not None:
      where = f'not here; from {rule.url}'
    rows.append(
      (rule.name, rule.origin, 'yes' if rule.is_here else 'no', where)
    )
  print(tables.format_table(('rule', 'kind', 'here', 'where'), rows))
  for rule in rules:
    if rule.description:
      print(f'\n{rule.name}: {rule.description}')
  return 0
