"""Finds and calls functions of user modules, `package.module:function`."""

from collections.abc import Callable, Iterable
import contextlib
import importlib
import os
import sys
from typing import Any

from disco_rl import utils
from disco_rl.environments import foreign

# Modules that `import_modules` imported, for worker processes to import, too.
IMPORTED: list[str] = []


def find(name: str) -> Callable[..., Any] | None:
  """Finds a function by name.

  Args:
    name: `module:function`. The module may be a file in the current folder.

  Returns:
    The function; None if `name` has another form, or if there is no such module
    or function.

  Raises:
    ForeignCodeError: if the module cannot be imported.
  """
  module_name, separator, attribute = name.partition(':')
  if not separator or not attribute.isidentifier():
    return None
  try:
    module = _import(module_name)
  except _NoSuchModuleError:
    return None
  function = getattr(module, attribute, None)
  return function if callable(function) else None


def make(
  factory: Callable[[], Any], name: str, kind: str, members: Iterable[str]
) -> Any:
  """Calls a factory, and checks the kind of the object that it returns.

  Args:
    factory: makes the object.
    name: name of the environment, for messages.
    kind: the kind of object that is needed, for messages.
    members: names of attributes that such an object has.

  Returns:
    The object.

  Raises:
    ForeignCodeError: if the factory raises an error.
    InvalidEnvironmentError: if it returns a class, or an object that lacks one
      of the members.
  """
  with foreign.boundary(f'cannot make {name}'):
    made = factory()
  has_members = all(hasattr(made, member) for member in members)
  if isinstance(made, type) or not has_members:
    raise foreign.InvalidEnvironmentError(
      f'{name} must make a {kind}, got {type(made).__name__}'
    )
  return made


def nearest(module: str, function: str) -> str:
  """Suggests a function of a module for one that it does not have.

  Args:
    module: name of a module that was imported.
    function: name of the function that is missing.

  Returns:
    The end of a message, see `utils.did_you_mean`.
  """
  members = vars(sys.modules[module]) if module in sys.modules else {}
  functions = [k for k, x in members.items() if k[:1] != '_' and callable(x)]
  return utils.did_you_mean(function, functions)


def import_modules(names: Iterable[str]) -> None:
  """Imports modules that register environments, rules or networks.

  Args:
    names: names of modules, e.g. `my_package.environments`, which may be files
      in the current folder.

  Raises:
    ValueError: if there is no such module.
    ForeignCodeError: if a module cannot be imported.
  """
  for name in names:
    _import(name)
    if name not in IMPORTED:
      IMPORTED.append(name)


class _NoSuchModuleError(ValueError):
  """Raised if no module of a given name exists."""


def _import(name: str) -> Any:
  """Imports a module, see `import_modules`."""
  is_name = isinstance(name, str) and all(
    part.isidentifier() for part in name.split('.')
  )
  if not is_name:
    raise _NoSuchModuleError(
      f'cannot import {name!r}: it is not the name of a module, such as '
      'my_package.environments'
    )
  # Modules in the current folder are importable, as with `python -m`.
  with contextlib.suppress(OSError):  # It may have been removed.
    if os.getcwd() not in sys.path:
      sys.path.append(os.getcwd())
  with foreign.boundary(f'cannot import {name}', passes=_NoSuchModuleError):
    try:
      return importlib.import_module(name)
    except ModuleNotFoundError as error:
      # The missing module may also be one that `name` itself imports.
      if error.name and f'{name}.'.startswith(f'{error.name}.'):
        raise _NoSuchModuleError(
          f'cannot import {name}: there is no module {error.name}, neither '
          'installed nor in the current folder'
        ) from None
      raise
