"""Functions of other people's modules, by name: `package.module:function`."""

from collections.abc import Callable, Iterable
import importlib
import os
import sys
from typing import Any

# What `import_modules` imported, for processes that must do the same.
IMPORTED: list[str] = []


def find(name: str) -> Callable[..., Any] | None:
  """The function that `name` names.

  Args:
    name: `module:function`. The module may also be a file in the current
      folder.

  Returns:
    The function, or None if `name` has another form or there is no such module
    or function in it.
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
  """Imports modules for what they register.

  Args:
    names: e.g. `my_package.environments`, or that of a file in the current
      folder.
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
  """As `python -m` does: a command is not run from one's own script."""
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())
