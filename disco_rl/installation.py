"""Commands that install optional dependencies, for messages.

On the package index, the name `disco_rl` belongs to an unrelated library: a
message must never send anybody there.
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
    extra: one of those in `pyproject.toml`, e.g. `'gym'`.

  Returns:
    A command for a shell: it names the source checkout that the package runs
    from, or else the packages themselves.
  """
  root = pathlib.Path(__file__).resolve().parents[1]
  if _is_checkout(root):
    return f'pip install -e {shlex.quote(f"{root}[{extra}]")}'
  packages = _packages(extra)
  if packages:
    return shlex.join(['pip', 'install', *packages])
  # A copy of the sources alone: only a checkout knows the packages.
  return f"pip install -e '.[{extra}]' (in a checkout of this library)"


def _is_checkout(root: pathlib.Path) -> bool:
  """Whether a folder is the source checkout of this library."""
  try:
    project = tomllib.loads((root / 'pyproject.toml').read_text('utf-8'))
  except (OSError, ValueError):
    return False
  return project.get('project', {}).get('name') == DISTRIBUTION


def _packages(extra: str) -> list[str]:
  """The requirements of an extra, from the metadata of the installation."""
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
