"""A check for tracer leaks that cannot be fooled by JAX's caches."""

from collections.abc import Callable
from typing import Any

import jax
import pytest


def check_none(fn: Callable[..., Any], *args: Any) -> None:
  """Traces `fn` anew, under JAX's own leak checker."""
  with jax.checking_leaks():
    # A new function: one that was traced before is not traced again.
    jax.jit(lambda *a: fn(*a)).lower(*args)


def check_some(fn: Callable[..., Any], *args: Any) -> None:
  """The opposite, to know that the check above can fail."""
  with pytest.raises(Exception, match=r'[Ll]eaked'):
    check_none(fn, *args)
