"""Finds functions of user modules by name, `package.module:function`."""

from collections.abc import Callable, Iterable
import importlib
import os
import sys
from typing import Any

# Modules that `import_modules` imported, for worker processes to import, too.
IMPORTED: list[str] = []


def find(name: str) -> Callable[..., Any] | None:
  """Finds a function by name.

  Args:
    name: `module:function`. The module may be a file in the current folder.

  Returns:
    The function; None if `name` has another form, or if there is no such module
    or function.
  """
  module_name, separator, attribute = name.partition(':')
  if not separator or not attribute.isidentifier():
    return None
  _see_current_folder()
  try:
    module = importlib.import_module(module_name)
  except ModuleNotFoundError as error:
    if error.name and f'{module_name}.'.startswith(f'{error.name}.'):
      return None
    raise
  function = getattr(module, attribute, None)
  return function if callable(function) else None


def import_modules(names: Iterable[str]) -> None:
  """Imports modules that register environments, rules or networks.

  Args:
    names: names of modules, e.g. `my_package.environments`, which may be files
      in the current folder.
  """
  _see_current_folder()
  for name in names:
    try:
      importlib.import_module(name)
    except ImportError as error:
      raise ValueError(f'cannot import {name}: {error}') from error
    if name not in IMPORTED:
      IMPORTED.append(name)


def _see_current_folder() -> None:
  """Makes modules in the current folder importable, as `python -m` does."""
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())
