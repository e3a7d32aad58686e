"""The run loop: advances something trainable until it is done.

Everything that trains for long runs here: `disco-rl eval`, `disco-rl
meta-train`, `disco_rl.evaluate` and `disco_rl.meta_train`.

  outcome = loop.run(trainable, state, total=1000, sinks=[...], hooks=[...])

A sink takes the rows that were measured (`sinks.py`). A hook is called after
every piece of work, and does something now and then (`hooks.py`): save a
checkpoint, draw a picture, evaluate a rule.
"""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import enum
from typing import Any, Protocol

from disco_rl.runs import compilation_cache
from disco_rl.runs import metrics


class Trainable(Protocol):
  """Something that is trained piece by piece."""

  def init(self) -> Any:
    """Makes the state before the first step."""

  def done(self, state: Any) -> int:
    """Returns how many steps are done."""

  def advance(self, state: Any, total: int) -> tuple[Any, list[metrics.Row]]:
    """Does some steps, at most until `total` are done.

    Args:
      state: donated.
      total: steps in all, those already done included.

    Returns:
      The state after, and what was measured, with the column `iteration`.

    Raises:
      DivergenceError: if it cannot go on.
    """

  def to_checkpoint(self, state: Any) -> Any:
    """Returns a tree that `checkpoint.save` can save."""

  def checkpoint_like(self) -> Any:
    """Returns a tree like that of `to_checkpoint`, for `checkpoint.load`."""

  def from_checkpoint(self, saved: Any) -> Any:
    """Returns the state that `to_checkpoint` was given."""

  def close(self) -> None:
    """Frees what it holds outside of the state."""


class DivergenceError(ArithmeticError):
  """Training computed something that is not finite, and stopped.

  Attributes:
    state: the last state that is finite.
    rows: what was measured in the piece of work that went wrong.
  """

  def __init__(self, message: str, state: Any, rows: list[metrics.Row]):
    """Keeps what training ended with."""
    super().__init__(message)
    self.state = state
    self.rows = rows


class Sink(Protocol):
  """Takes the rows that were measured."""

  def write(self, rows: list[metrics.Row]) -> None:
    """Takes the rows of one piece of work."""

  def close(self) -> None:
    """Is called once, at the end."""


class Hook(Protocol):
  """Does something now and then."""

  def start(self, done: int, state: Any) -> None:
    """Is called once, before the first piece of work."""

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    """Is called after every piece of work.

    Args:
      done: steps done.
      state: not to be kept: the next piece of work reuses its memory.
      is_last: whether the run ends here, for whatever reason.
    """

  def close(self) -> None:
    """Is called once, at the end, also after an error."""


class Reason(enum.Enum):
  """Why a run ended."""

  FINISHED = 'finished'
  INTERRUPTED = 'interrupted'
  DIVERGED = 'diverged'


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a run ended.

  Attributes:
    state: the last one.
    done: steps done.
    reason: why it ended.
    error: what went wrong, if it diverged.
  """

  state: Any
  done: int
  reason: Reason
  error: DivergenceError | None = None


def run(
  trainable: Trainable,
  state: Any,
  total: int,
  *,
  sinks: Sequence[Sink] = (),
  hooks: Sequence[Hook] = (),
  should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
  """Advances something trainable until it is done, diverges or is stopped.

  Args:
    trainable: what is trained.
    state: from its `init` or a checkpoint; donated.
    total: steps in all, those already done included.
    sinks: where rows go, in this order.
    hooks: what else happens, in this order, after the sinks.
    should_stop: asked after every piece of work.

  Returns:
    The outcome. Hooks have seen its state as their last.
  """
  done = trainable.done(state)
  error: DivergenceError | None = None
  with contextlib.ExitStack() as stack:
    for sink in sinks:
      stack.callback(sink.close)
    for hook in hooks:
      stack.callback(hook.close)
    for hook in hooks:
      hook.start(done, state)
    is_last = done >= total or should_stop()
    if is_last:
      for hook in hooks:
        hook.advanced(done, state, is_last)
    while not is_last:
      try:
        state, rows = trainable.advance(state, total)
      except DivergenceError as caught:
        error, state, rows = caught, caught.state, caught.rows
      compilation_cache.publish()
      done = trainable.done(state)
      for sink in sinks:
        sink.write(rows)
      is_last = done >= total or error is not None or should_stop()
      for hook in hooks:
        hook.advanced(done, state, is_last)
  if error is not None:
    return Outcome(state, done, Reason.DIVERGED, error)
  reason = Reason.FINISHED if done >= total else Reason.INTERRUPTED
  return Outcome(state, done, reason)
