"""The functions at the top of the package."""

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
def test_public_functions_are_there_and_documented(name):
  function = getattr(disco_rl, name)
  assert function.__name__ == name
  first_line = function.__doc__.splitlines()[0]
  assert first_line.endswith('.') and 'Args:' in function.__doc__


def test_other_names_are_refused_as_usual():
  with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
    disco_rl.no_such  # noqa: B018
