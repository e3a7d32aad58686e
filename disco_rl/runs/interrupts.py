"""Handles Ctrl-C, SIGTERM and SIGHUP without raising inside running code.

An exception in the middle of a compilation crashes the process, and one in the
middle of a write loses work. So signals only set a flag that the run loop
reads: it finishes its chunk, saves and stops.

- A signal ends a command (`start_command`) at once until it calls `defer`,
  before it writes its first file. Afterwards a signal requests a stop, and a
  second Ctrl-C ends the process at once. Files stay intact, since they are
  replaced atomically.
- In a run of the library (`of_run`) in the main thread, a signal requests a
  stop, too. When the run is saved, the signal is sent again, so that Ctrl-C
  raises `KeyboardInterrupt` there.

Python calls signal handlers between two of its instructions, but compiling a
program is a single one, which may take minutes. So a thread waits for the
number of a signal, which Python writes to a pipe (`signal.set_wakeup_fd`) as
soon as it arrives.
"""

from collections.abc import Callable, Iterator
import contextlib
import math
import os
import select
import signal
import threading
import time
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_CODE = 130

_END = 0  # Ends the thread; no signal has this number.
# One Ctrl-C arrives twice if a parent process forwards it, so a second one
# counts only after this time.
_SECONDS_BETWEEN_TWO = 0.1
_STOPPING = (
  '\nStopping after the current work; press Ctrl-C again to stop at once.\n'
)


class Interrupts:
  """Receives signals between `start` and `stop`.

  Attributes:
    received: number of the signal that came first; None for none.
  """

  def __init__(self, *, ends_process: bool):
    """Sets the effect of signals.

    Args:
      ends_process: whether this is a command: signals before `defer`, and a
        second Ctrl-C after it, end the process. Otherwise signals are deferred
        from the start, and a second Ctrl-C is left to the previous handler.
    """
    self.received: int | None = None
    self._ends_process = ends_process
    self._is_deferred = not ends_process
    # Times of the last Ctrl-C, in the thread and in Python's own handler.
    self._last_seen = math.inf
    self._last_handled = math.inf
    self._previous: dict[int, Any] = {}
    self._previous_fd = -1
    self._pipe = (-1, -1)
    self._watcher: threading.Thread | None = None

  def start(self) -> None:
    """Installs the handlers; in the main thread only."""
    self._pipe = os.pipe()
    os.set_blocking(self._pipe[1], False)
    self._previous_fd = signal.set_wakeup_fd(
      self._pipe[1], warn_on_full_buffer=False
    )
    self._watcher = threading.Thread(
      target=self._watch, name='disco_rl interrupts', daemon=True
    )
    self._watcher.start()
    for number in SIGNALS:
      if self._may_handle(number):
        self._previous[number] = signal.getsignal(number)
    self.install()

  def install(self) -> None:
    """Installs the handlers again, which other code may have replaced."""
    for number in self._previous:
      signal.signal(number, self._handle)

  def stop(self) -> None:
    """Restores the previous handlers."""
    for number, handler in self._previous.items():
      signal.signal(number, handler)
    signal.set_wakeup_fd(self._previous_fd)
    assert self._watcher is not None
    os.write(self._pipe[1], bytes([_END]))
    self._watcher.join()
    for end in self._pipe:
      os.close(end)

  def defer(self) -> None:
    """Makes signals request a stop, instead of ending the process."""
    self._is_deferred = True

  def raise_again(self) -> None:
    """Sends the received signal again, if there is one; called after `stop`.

    Raises:
      KeyboardInterrupt: if a signal was received, even if its handler returns:
        the run is not complete.
    """
    if self.received is None:
      return
    if self._previous.get(self.received) != signal.default_int_handler:
      signal.raise_signal(self.received)
    raise KeyboardInterrupt

  def _may_handle(self, number: int) -> bool:
    """Returns whether the handler of a signal may be replaced."""
    previous = signal.getsignal(number)
    if previous is None:  # It was not installed from Python.
      return False
    # `nohup` ignores SIGHUP, which stays ignored. Shells ignore SIGINT for
    # commands in the background, which should be saved if they receive it.
    is_ours = self._ends_process and number != signal.SIGHUP
    return previous != signal.SIG_IGN or is_ours

  def _handle(self, number: int, frame: Any) -> None:
    """Calls the previous handler for a second Ctrl-C in the library."""
    if self._ends_process or number != signal.SIGINT:
      return
    last, self._last_handled = self._last_handled, time.monotonic()
    previous = self._previous[number]
    if self._last_handled - last > _SECONDS_BETWEEN_TWO and callable(previous):
      previous(number, frame)

  def _watch(self) -> None:
    while True:
      numbers = os.read(self._pipe[0], 512)
      for number in numbers:
        if number == _END:
          return
        if number in self._previous:
          self._receive(number)
      if self._previous_fd >= 0:
        with contextlib.suppress(OSError):
          os.write(self._previous_fd, numbers)

  def _receive(self, number: int) -> None:
    """Records a signal, or ends the process; called in the thread."""
    is_second = False
    if number == signal.SIGINT:
      last, self._last_seen = self._last_seen, time.monotonic()
      is_second = self._last_seen - last > _SECONDS_BETWEEN_TWO
    if not self._is_deferred or (is_second and self._ends_process):
      os._exit(EXIT_CODE)
    if self.received is None:
      self.received = number
      _print(_STOPPING)


_command: Interrupts | None = None
_of_library: Interrupts | None = None  # Of the current run, if any.


def hold() -> None:
  """Blocks signals until `start_command` has installed its handlers."""
  signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def start_command() -> None:
  """Installs the handlers of a command, until its process ends."""
  global _command
  _command = Interrupts(ends_process=True)
  _command.start()
  signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # See `hold`.


def install_again() -> None:
  """Installs the handlers of a command again; in C++, JAX may replace them."""
  if _command is not None:
    _command.install()


def is_command() -> bool:
  """Returns whether this process is a command."""
  return _command is not None


def end_command() -> None:
  """Ignores signals from now on, since all work is done.

  Otherwise Python, while it ends, would leave them to the system, which ends
  the process with another exit code.
  """
  for number in SIGNALS:
    signal.signal(number, signal.SIG_IGN)


def defer() -> None:
  """Makes signals request a stop from now on, if this process is a command."""
  if _command is not None:
    _command.defer()


def is_requested() -> bool:
  """Returns whether a signal has requested that the current run stops."""
  active = _command or _of_library
  return active is not None and active.received is not None


@contextlib.contextmanager
def of_run(is_saved: bool) -> Iterator[Callable[[], bool]]:
  """Makes signals request a stop within a block.

  In the library, a signal that was received is sent again after the block.
  Outside the main thread, the library leaves signals as they are.

  Args:
    is_saved: whether the run has a folder; otherwise, the library leaves
      signals as they are.

  Yields:
    A function that returns whether to stop.
  """
  if _command is not None:
    command = _command
    command.defer()
    yield lambda: command.received is not None
  elif is_saved and threading.current_thread() is threading.main_thread():
    global _of_library
    own, before = Interrupts(ends_process=False), _of_library
    own.start()
    _of_library = own
    try:
      yield lambda: own.received is not None
    finally:
      _of_library = before
      own.stop()
    own.raise_again()
  else:
    yield lambda: False


def _print(text: str) -> None:
  """Prints to the standard error, unless that would block."""
  with contextlib.suppress(OSError, ValueError):
    if select.select([], [2], [], 0)[1]:
      os.write(2, text.encode())
