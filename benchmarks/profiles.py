"""Records what JAX's profiler sees, as events of every thread."""

from collections.abc import Callable
import pathlib
import tempfile
from typing import Any, NamedTuple

import jax


class Event(NamedTuple):
  """Something that took time; both times are in nanoseconds."""

  name: str
  start: float
  end: float


def record(
  function: Callable[[], Any], threads: str
) -> tuple[Any, list[list[Event]]]:
  """Profiles a function.

  Args:
    function: it should have done all its work when it returns.
    threads: how the names of the threads begin; those of XLA with `tf_`.

  Returns:
    Its result, and the events of each of these threads.
  """
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
      result = function()
    (path,) = pathlib.Path(folder).rglob('*.xplane.pb')
    profile = jax.profiler.ProfileData.from_file(str(path))
  return result, [
    [Event(e.name, e.start_ns, e.start_ns + e.duration_ns) for e in line.events]
    for plane in profile.planes
    for line in plane.lines
    if line.name.startswith(threads)
  ]
