"""Lists the known rules: their kind, and whether they are on this machine.

A rule that is not on this machine is downloaded on first use. Rule files in the
folder named by the environment variable DISCO_RL_WEIGHTS are found by name.
"""

import argparse

from disco_rl.cli import errors
from disco_rl.cli import tables
from disco_rl.rule_zoo import rule as rule_lib


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds no options."""
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
