"""A check for tracer leaks that does not depend on JAX's caches."""

from collections.abc import Callable
from typing import Any

import jax
import pytest


def check_none(fn: Callable[..., Any], *args: Any) -> None:
  """Traces `fn` again, with JAX's leak checker."""
  with jax.checking_leaks():
    # A new function: one that was traced before is not traced again.
    jax.jit(lambda *a: fn(*a)).lower(*args)


def check_some(fn: Callable[..., Any], *args: Any) -> None:
  """Leaks a tracer, to test that the check can fail."""
  with pytest.raises(Exception, match=r'[Ll]eaked'):
    check_none(fn, *args)
