"""Checks packages of environments before they are imported.

```python
check('gymnax:CartPole-v1', Package('gymnax', extra='gymnax', minimum='1.0.1'))
```
"""

import dataclasses
import importlib.metadata
import importlib.util
import re
import shlex

import jax

from disco_rl import installation


@dataclasses.dataclass(frozen=True)
class Package:
  """A package that a family of environments needs.

  Attributes:
    name: the name under which it is imported.
    extra: the extra of this library that installs it.
    minimum: its oldest version that works; None for any.
    jax_below: the version of JAX that it declares to be too new, although it
      works there; None if it declares none.
    needs: packages that it needs, installed without which pip would replace
      JAX; only with `jax_below`.
  """

  name: str
  extra: str
  minimum: str | None = None
  jax_below: str | None = None
  needs: tuple[str, ...] = ()


def check(environment: str, package: Package) -> str:
  """Checks that a package is installed, in a version that works.

  Args:
    environment: name of the environment that needs it, for messages.
    package: the package. It is not imported.

  Returns:
    Its name and installed version, as far as it is known.

  Raises:
    ValueError: if it is not installed, or too old.
  """
  if importlib.util.find_spec(package.name) is None:
    raise ValueError(
      f'{environment} needs the package {package.name}, which is not '
      f'installed: {install_hint(package)}'
    )
  try:
    installed = importlib.metadata.version(package.name)
  except importlib.metadata.PackageNotFoundError:
    return package.name  # Imported from a folder.
  if package.minimum and _numbers(installed) < _numbers(package.minimum):
    raise ValueError(
      f'{environment} needs {package.name} {package.minimum} or newer, but '
      f'{installed} is installed: {install_hint(package)}'
    )
  return f'{package.name} {installed}'


def install_hint(package: Package) -> str:
  """Makes the command that installs a package.

  Args:
    package: the package.

  Returns:
    A shell command, which keeps the installed version of JAX.
  """
  newest = package.jax_below
  if newest is None or _numbers(jax.__version__) < _numbers(newest):
    return installation.install_hint(package.extra)
  requirement = f'{package.name}>={package.minimum}'
  commands = [['pip', 'install', '--no-deps', requirement]]
  if package.needs:
    commands.insert(0, ['pip', 'install', *package.needs])
  return (
    f'{" && ".join(map(shlex.join, commands))} (it declares JAX below '
    f'{newest}, so that pip would otherwise replace JAX {jax.__version__})'
  )


def _numbers(version: str) -> tuple[int, ...]:
  """Returns the leading numbers of a version, e.g. (1, 0, 1) of `1.0.1rc2`."""
  match = re.match(r'\d+(\.\d+)*', version)
  parts = [int(part) for part in match.group().split('.')] if match else []
  while parts and not parts[-1]:
    parts.pop()  # 1.0 is 1.
  return tuple(parts)
