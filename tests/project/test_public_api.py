"""The functions at the top of the package."""

import ast
import inspect
import re
import subprocess
import sys

import pytest

import disco_rl


def test_importing_the_package_does_not_import_jax():
  program = (
    'import sys, disco_rl; '
    "assert 'evaluate' in dir(disco_rl); "
    "sys.exit('jax' in sys.modules)"
  )
  subprocess.run([sys.executable, '-c', program], check=True)


@pytest.mark.parametrize('name', sorted(disco_rl._HOMES))
def test_public_names_are_there_and_documented(name):
  value = getattr(disco_rl, name)
  assert value.__name__ == name
  text = inspect.getdoc(value)
  assert text.splitlines()[0].endswith('.')
  for parameter in inspect.signature(value).parameters:
    assert re.search(rf'^  {parameter}: ', text, re.MULTILINE), parameter


def test_type_checkers_see_the_same_names():
  tree = ast.parse(inspect.getsource(disco_rl))
  seen = {
    alias.asname: node.module.removeprefix('disco_rl.')
    for node in ast.walk(tree)
    if isinstance(node, ast.ImportFrom) and node.module.startswith('disco_rl.')
    for alias in node.names
  }
  assert seen == disco_rl._HOMES


def test_other_names_are_refused_as_usual():
  with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
    disco_rl.no_such  # noqa: B018
