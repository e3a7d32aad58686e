"""The run loop: advances a `Trainable` until it is done.

It is the loop of `disco-rl eval`, `disco-rl meta-train`, `disco_rl.evaluate`
and `disco_rl.meta_train`.

```python
outcome = loop.run(trainable, state, total=1000, sinks=[...], hooks=[...])
```

The trainable advances by chunks of steps. After each chunk, sinks take the rows
of metrics (`sinks.py`), and hooks are called (`hooks.py`), which save
checkpoints, draw pictures or evaluate a rule.
"""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import enum
from typing import Any, Protocol

from disco_rl import memory
from disco_rl.runs import compilation_cache
from disco_rl.runs import metrics


class Trainable(Protocol):
  """Training that advances in chunks of steps, as the run loop needs it."""

  def init(self) -> Any:
    """Makes the state before the first step."""

  def check_memory(self) -> memory.Estimate:
    """Estimates the memory of the state and of a step; makes no state.

    Raises:
      ValueError: if there is not enough.
    """

  def columns(self) -> tuple[str, ...]:
    """Returns the columns of the rows of `advance`, without advancing.

    Called after `init`, `check_memory` or `checkpoint_like`.
    """

  def done(self, state: Any) -> int:
    """Returns how many steps are done."""

  def advance(self, state: Any, total: int) -> tuple[Any, list[metrics.Row]]:
    """Trains for one chunk of steps, at most until `total` are done.

    Args:
      state: the state before; donated.
      total: steps in all, including those already done.

    Returns:
      The state after, and rows of metrics, with the column `iteration`.

    Raises:
      DivergenceError: if training diverged.
    """

  def to_checkpoint(self, state: Any) -> Any:
    """Returns a tree that `checkpoint.save` can save."""

  def checkpoint_like(self) -> Any:
    """Returns a tree like that of `to_checkpoint`, for `checkpoint.load`."""

  def from_checkpoint(self, saved: Any) -> Any:
    """Returns the state to resume from, given a tree of `to_checkpoint`."""

  def close(self) -> None:
    """Frees resources that are not part of the state."""


class DivergenceError(ArithmeticError):
  """Raised when training computes non-finite numbers, and stops.

  Attributes:
    state: the last state, with finite θ or η.
    rows: metrics of the last chunk.
  """

  def __init__(self, message: str, state: Any, rows: list[metrics.Row]):
    """Stores the last state and rows."""
    super().__init__(message)
    self.state = state
    self.rows = rows


class Sink(Protocol):
  """Takes rows of metrics."""

  def write(self, rows: list[metrics.Row]) -> None:
    """Takes the rows of one chunk."""

  def close(self) -> None:
    """Closes the sink; called once, at the end, also after an error."""


class Hook(Protocol):
  """Acts on the state of a run, e.g. saves a checkpoint."""

  def start(self, done: int, state: Any) -> None:
    """Starts the hook; called once, before the first chunk."""

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    """Handles a new state; called after every chunk that did not diverge.

    Args:
      done: steps done.
      state: the state, which must not be kept: the next chunk donates it.
      is_last: whether the run ends here, finished or interrupted.
    """

  def close(self) -> None:
    """Closes the hook; called once, at the end, also after an error."""


class Reason(enum.Enum):
  """Why a run ended."""

  FINISHED = 'finished'
  INTERRUPTED = 'interrupted'
  DIVERGED = 'diverged'


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a run ended.

  Attributes:
    state: the last state.
    done: steps done.
    reason: why it ended.
    error: the error, if it diverged; else None.
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
  """Advances a trainable until it is done, diverges or is stopped.

  Args:
    trainable: the trainable.
    state: its state, from `init` or a checkpoint; donated.
    total: steps in all, including those already done.
    sinks: called with the rows of each chunk, in this order.
    hooks: called after the sinks, in this order.
    should_stop: whether to stop; called before the first and after every chunk,
      after its hooks, and at the end.

  Returns:
    The outcome. Hooks were called with its state last, unless it diverged:
    then the last checkpoint stays, from which the run diverges again.
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
      if error is not None:
        # The state misses the updates that were not finite. Saved, it would be
        # resumed as if nothing had happened.
        return Outcome(state, done, Reason.DIVERGED, error)
      is_last = done >= total or should_stop()
      for hook in hooks:
        hook.advanced(done, state, is_last)
      if not is_last and should_stop():
        # While a hook worked: what it left undone, such as an evaluation of
        # this state, can be done again only from this state.
        is_last = True
        for hook in hooks:
          hook.advanced(done, state, is_last)
  # A hook may have left work undone after the last step, when interrupted.
  is_complete = done >= total and not (hooks and should_stop())
  reason = Reason.FINISHED if is_complete else Reason.INTERRUPTED
  return Outcome(state, done, reason)
