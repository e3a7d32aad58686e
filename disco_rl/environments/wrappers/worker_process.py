"""Runs streams inside a worker process of `worker_env`."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import multiprocessing
from multiprocessing import connection
import os
import signal
import threading
import traceback
from typing import Any

from disco_rl.environments import base
from disco_rl.environments import factories
from disco_rl.environments import foreign

# Makes an environment with one stream per seed.
StreamsFn = Callable[[Sequence[int]], base.Environment]

# Signals that a terminal or a cluster sends to all processes of a group. The
# main process handles them, and may still need its workers to save their state.
_SIGNALS = tuple(
  getattr(signal, name)
  for name in ('SIGINT', 'SIGTERM', 'SIGHUP')
  if hasattr(signal, name)
)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
  """Blocks signals to the process group while workers are started.

  A new process inherits the signal mask, so that no signal ends it before
  `serve` ignores them. This process receives pending signals after the block.
  """
  if not hasattr(signal, 'pthread_sigmask'):
    yield
    return
  before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(
  pipe: connection.Connection,
  make_streams: StreamsFn,
  seeds: list[int],
  modules: Sequence[str],
) -> None:
  """Builds a worker's streams, and answers requests until the pipe closes.

  Args:
    pipe: receives pairs of a method and its argument; each is answered by
      `(True, result)` or `(False, (error, text of the traceback))`.
    make_streams: makes an environment with one stream per seed.
    seeds: the seeds.
    modules: names of modules to import first.
  """
  _ignore_signals()
  _end_with_parent()
  env: base.Environment | None = None
  try:
    while True:
      method, argument = pipe.recv()
      try:
        if env is None:
          factories.import_modules(modules)
          env = make_streams(seeds)
        with foreign.boundary(f'failed in {method}'):
          answer = _answer(env, method, argument)
        pipe.send((True, answer))
      except BaseException as error:  # Reported; the streams are kept.
        pipe.send((False, _to_sendable(error)))
  except (EOFError, OSError):
    pass  # The pipe was closed.
  finally:
    if env is not None:
      env.close()


def _ignore_signals() -> None:
  for number in _SIGNALS:
    signal.signal(number, signal.SIG_IGN)
  if hasattr(signal, 'pthread_sigmask'):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _end_with_parent() -> None:
  """Ends this process when its parent ends, also in the middle of a step."""
  parent = multiprocessing.parent_process()
  if parent is None:
    return

  def wait() -> None:
    connection.wait([parent.sentinel])
    os._exit(1)

  threading.Thread(target=wait, daemon=True).start()


def _answer(env: base.Environment, method: str, argument: Any) -> Any:
  if method == 'specs':
    return (
      env.single_observation_spec(),
      env.single_action_spec(),
      env.has_action_mask,
    )
  if method == 'reset':
    return env.reset(None)[1]
  if method == 'step':
    return env.step(base.UnusedEnvState(), argument)[1]
  if method == 'snapshot':
    return env.snapshot()
  return env.restore(argument)


def _to_sendable(error: BaseException) -> tuple[Exception, str]:
  """Converts an error to a picklable one, with the text of its traceback."""
  text = ''.join(traceback.format_exception(error))
  # Exactly these types: others may need more arguments than their message.
  for kind in (foreign.InvalidEnvironmentError, foreign.ForeignCodeError):
    if isinstance(error, kind):
      return kind(str(error)), text
  if isinstance(error, ValueError):  # E.g. an invalid setting.
    return ValueError(str(error)), text
  return foreign.ForeignCodeError(foreign.describe(error)), text
