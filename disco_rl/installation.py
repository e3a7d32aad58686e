"""Makes the commands that install optional dependencies, for error messages.

On the package index, the name `disco_rl` belongs to an unrelated library, so
messages must never suggest installing it from there.
"""

import importlib.metadata
import pathlib
import re
import shlex
import tomllib

# The name under which the package is installed; it is imported as `disco_rl`.
DISTRIBUTION = 'discovered-rl'


def install_hint(extra: str) -> str:
  """Makes the command that installs the packages of an extra.

  Args:
    extra: name of an extra in `pyproject.toml`, e.g. `'gym'`.

  Returns:
    A shell command. It installs the source checkout in use, if there is one,
    and otherwise the packages of the extra.
  """
  root = pathlib.Path(__file__).resolve().parents[1]
  if _is_checkout(root):
    return f'pip install -e {shlex.quote(f"{root}[{extra}]")}'
  packages = _packages(extra)
  if packages:
    return shlex.join(['pip', 'install', *packages])
  # Copied sources without metadata: the packages are not known.
  return f"pip install -e '.[{extra}]' (in a checkout of this library)"


def _is_checkout(root: pathlib.Path) -> bool:
  """Returns whether a folder is the source checkout of this library."""
  try:
    project = tomllib.loads((root / 'pyproject.toml').read_text('utf-8'))
  except (OSError, ValueError):
    return False
  return project.get('project', {}).get('name') == DISTRIBUTION


def _packages(extra: str) -> list[str]:
  """Returns the requirements of an extra, from the installed metadata."""
  try:
    requirements = importlib.metadata.requires(DISTRIBUTION) or []
  except importlib.metadata.PackageNotFoundError:
    return []
  condition = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
  return [
    requirement.partition(';')[0].replace(' ', '')
    for requirement in requirements
    if condition.search(requirement.partition(';')[2])
  ]
