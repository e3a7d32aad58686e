"""Imports packages that import the old package `gym`, without its notice."""

import importlib
import sys
from typing import Any


def import_quietly(name: str) -> Any:
  """Imports a package, without the text that old versions of gym print.

  Args:
    name: name of the package or module.

  Returns:
    The module.
  """
  if 'gym' not in sys.modules:
    try:
      notices = importlib.import_module('gym_notices.notices')
      notices.notices.clear()
    except (ImportError, AttributeError):  # Not installed, or another version.
      pass
  return importlib.import_module(name)
