"""Hooks of the run loop: periodic actions, such as checkpoints."""

from collections.abc import Callable, Set
import os
import pathlib
import time
from typing import Any

from disco_rl.runs import console
from disco_rl.runs import files
from disco_rl.runs import finite
from disco_rl.runs import loop
from disco_rl.runs import states


class Periodic:
  """Calls a function at multiples of a number of steps, and at the end."""

  def __init__(
    self,
    every: int,
    action: Callable[[int, Any], None],
    *,
    at_start: bool = False,
    at_end: bool = True,
    min_seconds: float = 0.0,
  ):
    """Sets the period.

    Args:
      every: steps between two calls, which are made at its multiples.
      action: called with the number of steps done and the state.
      at_start: whether to call it when no steps are done, too.
      at_end: whether to call it when the run ends, too.
      min_seconds: least time between two calls, in seconds; the call at the end
        is made anyway. For actions that take as long as many steps.
    """
    self._every = every
    self._action = action
    self._at_start = at_start
    self._at_end = at_end
    self._min_seconds = min_seconds
    self._last_time = -float('inf')
    self._done = 0
    self._last_call: int | None = None

  def start(self, done: int, state: Any) -> None:
    """Stores the number of steps done; with `at_start`, calls the function."""
    self._done = done
    if self._at_start and done == 0:
      self._call(done, state)

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    """Calls the function if it is due."""
    is_due = done // self._every > self._done // self._every
    if time.monotonic() - self._last_time < self._min_seconds:
      is_due = False
    self._done = done
    if is_due or (is_last and self._at_end and self._last_call != done):
      self._call(done, state)

  def close(self) -> None:
    """Does nothing."""

  def _call(self, done: int, state: Any) -> None:
    self._last_call = done
    self._action(done, state)
    self._last_time = time.monotonic()


class Drawing:
  """Draws pictures; the first failure is reported, and none stops a run."""

  def __init__(self, draw: Callable[[], None]):
    """Initialises it.

    Args:
      draw: draws and writes the pictures.
    """
    self._draw = draw
    self._has_failed = False

  def __call__(self) -> None:
    """Draws the pictures; raises a `StorageError` if they cannot be written."""
    try:
      self._draw()
    except files.StorageError:
      raise
    except Exception as error:
      if not self._has_failed:
        console.complain(f'no pictures: {type(error).__name__}: {error}')
      self._has_failed = True


class Pictures(Periodic):
  """Draws periodically, at most twice a minute, and at the end."""

  def __init__(self, every: int, draw: Callable[[], None]):
    """Sets the period.

    Args:
      every: steps between two pictures.
      draw: draws and writes the pictures.
    """
    # A picture takes as long as hundreds of iterations of a small agent.
    drawing = Drawing(draw)
    super().__init__(every, lambda *_: drawing(), min_seconds=30.0)


class Checkpoint(Periodic):
  """Saves the state periodically, and at the end.

  A state that is not finite is not saved, and ends the run with a
  `finite.NonFiniteStateError`.
  """

  def __init__(
    self,
    trainable: loop.Trainable,
    path: str | os.PathLike[str],
    every: int,
    *,
    private: Set[str] = frozenset(),
  ):
    """Sets the period.

    Args:
      trainable: the trainable whose state is saved.
      path: path of the checkpoint, which is replaced; see `states.py` for
        that of several processes.
      every: steps between two checkpoints.
      private: names of fields that need not be finite, see `finite.check`.
    """

    def save(done: int, state: Any) -> None:
      saved = trainable.to_checkpoint(state)
      finite.check(saved, private)
      states.save(pathlib.Path(path), done, saved)

    super().__init__(every, save)
