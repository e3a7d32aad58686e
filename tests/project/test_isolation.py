"""Test files do not depend on what others register."""

import subprocess
import sys

import disco_rl
from disco_rl.update_rules import registry
from tests.support import runs


def _collect(*paths):
  """Returns the names of the tests of some files, collected in that order."""
  options = ['-q', '--collect-only']
  result = subprocess.run(
    [sys.executable, '-m', 'pytest', *options, *paths],
    cwd=runs.ROOT,
    env=runs.environment(),
    capture_output=True,
    text=True,
    check=True,
  )
  return {line for line in result.stdout.splitlines() if '::' in line}


def test_registered_rules_are_not_in_the_tests_of_other_files():
  """An example registers a rule when it is imported."""
  names = _collect('tests/project/test_examples.py', 'tests/contracts')
  assert any('test_rules.py' in name for name in names)
  assert not [name for name in names if 'reinforce' in name]


def test_a_test_registers_a_rule():
  disco_rl.register_rule('of_one_test', registry.UPDATE_RULES['actor_critic'])


def test_the_next_test_does_not_have_it():
  assert 'of_one_test' not in registry.UPDATE_RULES
