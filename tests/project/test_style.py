"""Habits that the linter cannot check."""

import ast
import importlib
import pathlib
import pkgutil

import pytest

import disco_rl

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(
  path
  for folder in ('disco_rl', 'tests', 'examples', 'benchmarks')
  for path in (ROOT / folder).rglob('*.py')
  # The public functions are gathered there, for type checkers by name.
  if path != ROOT / 'disco_rl' / '__init__.py'
)


@pytest.mark.parametrize('path', FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_our_own_code_is_imported_by_module(path):
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if not isinstance(node, ast.ImportFrom):
      continue
    assert node.level == 0, 'relative import'
    package = (node.module or '').split('.')[0]
    if package not in ('disco_rl', 'tests', 'benchmarks'):
      continue
    for alias in node.names:
      importlib.import_module(f'{node.module}.{alias.name}')


def test_every_module_says_what_it_is():
  names = [
    module.name
    for module in pkgutil.walk_packages(disco_rl.__path__, 'disco_rl.')
  ]
  assert 'disco_rl.update_rules.disco' in names
  for name in names:
    assert importlib.import_module(name).__doc__, name
