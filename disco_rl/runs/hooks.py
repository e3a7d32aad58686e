"""Hooks of the run loop: periodic actions, such as checkpoints."""

from collections.abc import Callable, Set
import os
from typing import Any

from disco_rl.runs import checkpoint
from disco_rl.runs import finite
from disco_rl.runs import loop


class Periodic:
  """Calls a function every so many steps, and at the end."""

  def __init__(
    self,
    every: int,
    action: Callable[[int, Any], None],
    *,
    at_start: bool = False,
    at_end: bool = True,
  ):
    """Sets the period.

    Args:
      every: steps between two calls, at multiples of it.
      action: called with the number of steps done and the state.
      at_start: whether to call it when no steps are done, too.
      at_end: whether to call it when the run ends, too.
    """
    self._every = every
    self._action = action
    self._at_start = at_start
    self._at_end = at_end
    self._done = 0
    self._last_call: int | None = None

  def start(self, done: int, state: Any) -> None:
    """Stores the number of steps done before the run."""
    self._done = done
    if self._at_start and done == 0:
      self._call(done, state)

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    """Calls the function if it is due."""
    is_due = done // self._every > self._done // self._every
    self._done = done
    if is_due or (is_last and self._at_end and self._last_call != done):
      self._call(done, state)

  def close(self) -> None:
    """Does nothing."""

  def _call(self, done: int, state: Any) -> None:
    self._last_call = done
    self._action(done, state)


class Checkpoint(Periodic):
  """Saves the state every so many steps, and at the end.

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
      path: path of the checkpoint, which is replaced.
      every: steps between two checkpoints.
      private: names of fields that need not be finite, see `finite.check`.
    """

    def save(done: int, state: Any) -> None:
      del done
      saved = trainable.to_checkpoint(state)
      finite.check(saved, private)
      checkpoint.save(path, saved)

    super().__init__(every, save)
