"""Steps environments on the host in worker processes.

Workers are faster if a step takes longer than sending its result through a pipe
(some tenths of a millisecond).
"""

from collections.abc import Sequence
import multiprocessing
from multiprocessing import connection
import time
from typing import Any
import weakref

import chex
import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import factories
from disco_rl.environments import foreign
from disco_rl.environments import streams
from disco_rl.environments.wrappers import worker_process

# Default time limit for an answer of a worker, in seconds.
TIMEOUT = 600.0

_SECONDS_TO_CLOSE = 5.0

# Types and ranges of the settings of `get_config`.
FIELDS = dict(
  random_seed=fields.SEED,
  num_workers=fields.WORKERS,
  worker_timeout=fields.TIMEOUT,
)


class WorkerError(foreign.ForeignCodeError):
  """Raised when a worker process fails, dies or does not answer."""


class RemoteTracebackError(Exception):
  """The traceback of an error in a worker process, as the error's cause."""

  def __str__(self) -> str:
    return f'\n{self.args[0]}'


def get_config(**more: Any) -> config_dict.ConfigDict:
  """Makes the default settings of `make`.

  Args:
    **more: further settings of a kind of environment, or other defaults.

  Returns:
    The settings.
  """
  settings = dict(
    random_seed=0,  # From which the seeds of the streams are drawn.
    num_workers=0,  # Processes, which must divide B; 0 to use this process.
    # Time limit in seconds for every answer of a worker: for a step of its
    # streams and, the first time, for making them.
    worker_timeout=TIMEOUT,
  )
  return config_dict.ConfigDict({**settings, **more})


def make(
  make_streams: worker_process.StreamsFn,
  batch_size: int,
  settings: config_dict.ConfigDict,
  name: str,
  seeds: Sequence[int] | None = None,
) -> base.Environment:
  """Makes B streams, in this process or in worker processes.

  The timesteps do not depend on the number of workers.

  Args:
    make_streams: makes an environment with one stream per seed; with workers it
      must be picklable.
    batch_size: B.
    settings: see `get_config`.
    name: name of the environment, for messages.
    seeds: B seeds; None to draw them from `random_seed`.

  Returns:
    The environment.

  Raises:
    ValueError: if B is not positive, or the settings are invalid.
    WorkerError: if a worker fails to make its streams.
  """
  base.check_batch_size(batch_size)
  num_workers, timeout = settings.num_workers, settings.worker_timeout
  fields.check(fields.TIMEOUT, f'{name}.worker_timeout', timeout)
  if num_workers < 0 or (num_workers and batch_size % num_workers):
    of_all = streams.own(batch_size).total
    which = '' if of_all == batch_size else f' (of {of_all}) in each process'
    raise ValueError(
      f'num_workers must be 0 or divide the {batch_size} environments of '
      f'{name}{which}, got {num_workers}'
    )
  if seeds is None:
    sequence = np.random.SeedSequence(settings.random_seed)
    # Some environments need seeds below 2**31.
    share = streams.own(batch_size)
    all_seeds = sequence.generate_state(share.total)
    seeds = [int(seed) >> 1 for seed in share.select(all_seeds)]
  if not num_workers:
    return make_streams(seeds)
  return WorkerEnvironment(make_streams, seeds, num_workers, name, timeout)


class WorkerEnvironment(base.Environment):
  """Steps streams in processes that end by `close` or garbage collection."""

  def __init__(
    self,
    make_streams: worker_process.StreamsFn,
    seeds: Sequence[int],
    num_workers: int,
    name: str,
    timeout: float = TIMEOUT,
  ):
    """Starts the processes.

    Args:
      make_streams: picklable; makes an environment with one stream per seed.
      seeds: B seeds.
      num_workers: number of processes, which must divide B.
      name: name of the environment, for messages.
      timeout: time limit for every answer of a worker, in seconds.

    Raises:
      WorkerError: if a worker fails, dies or does not answer.
    """
    super().__init__(len(seeds))
    self._name = name
    self._timeout = timeout
    self._num = num_workers
    share = len(seeds) // num_workers
    # Not forked, which would break the threads of JAX.
    context = multiprocessing.get_context('spawn')
    self._workers: list[_Worker] = []
    self._finalizer = weakref.finalize(self, _close_all, self._workers)
    for i in range(num_workers):
      first = i * share
      streams = f'streams {first} to {first + share - 1} of {name}'
      own_seeds = list(seeds[first : first + share])
      self._workers.append(
        _Worker(context, make_streams, own_seeds, f'worker {i} ({streams})')
      )
    specs = self._ask_all('specs', [None] * self._num)
    self._observation_spec, self._action_spec, self.has_action_mask = specs[0]

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of one stream's observation."""
    return self._observation_spec

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of one stream's action."""
    return self._action_spec

  def reset(
    self, rng_key: chex.PRNGKey | None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode in every stream; `rng_key` is not used."""
    del rng_key
    timesteps = self._ask_all('reset', [None] * self._num)
    return base.UnusedEnvState(), _concatenate(timesteps)

  def step(
    self, states: Any, actions: types.Array
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Advances every stream by its action of `actions` [B]."""
    del states
    actions = base.check_actions(actions, self.batch_size)
    return base.UnusedEnvState(), _concatenate(
      self._ask_all('step', np.split(actions, self._num))
    )

  def snapshot(self) -> Any:
    """Returns one snapshot per worker; None if a stream has none."""
    parts = self._ask_all('snapshot', [None] * self._num)
    return None if any(part is None for part in parts) else parts

  def restore(self, snapshot: Any) -> base.UnusedEnvState:
    """Restores every stream from a snapshot."""
    if len(snapshot) != self._num:
      raise foreign.InvalidEnvironmentError(
        f'a snapshot of {len(snapshot)} workers of {self._name} cannot be '
        f'restored with num_workers={self._num}'
      )
    self._ask_all('restore', list(snapshot))
    return base.UnusedEnvState()

  def close(self) -> None:
    """Ends the processes."""
    self._finalizer()

  def _ask_all(self, method: str, arguments: Sequence[Any]) -> list[Any]:
    """Sends a request to every worker, then waits for all answers."""
    if not self._finalizer.alive:
      raise WorkerError(f'{self._name} was closed')
    end = time.monotonic() + self._timeout
    try:
      for worker, argument in zip(self._workers, arguments, strict=True):
        worker.send(method, argument)
      return [
        worker.receive(method, end, self._timeout) for worker in self._workers
      ]
    except BaseException:
      # Answers left in a pipe would be taken for those of the next request.
      self.close()
      raise


class _Worker:
  """A handle of one worker process."""

  def __init__(
    self,
    context: Any,
    make_streams: worker_process.StreamsFn,
    seeds: list[int],
    name: str,
  ):
    self._name = name
    self._pipe, other_end = context.Pipe()
    self._process = context.Process(
      target=worker_process.serve,
      args=(other_end, make_streams, seeds, tuple(factories.IMPORTED)),
      daemon=True,
    )
    with worker_process.signals_blocked():
      self._process.start()
    other_end.close()

  def send(self, method: str, argument: Any) -> None:
    try:
      self._pipe.send((method, argument))
    except OSError:
      raise self._death() from None

  def receive(self, method: str, end: float, timeout: float) -> Any:
    seconds = max(end - time.monotonic(), 0)
    ready = connection.wait([self._pipe, self._process.sentinel], seconds)
    if not ready:
      raise WorkerError(
        f'{self._name} did not answer {method} within {timeout:g} seconds (the '
        "environment's setting worker_timeout)"
      )
    # A worker that died may have sent an answer before, still in the pipe.
    try:
      is_ok, answer = self._pipe.recv()
    except (EOFError, OSError):
      raise self._death() from None
    except Exception as error:
      raise WorkerError(
        f'the answer of {self._name} to {method} cannot be read: '
        f'{foreign.describe(error)}'
      ) from error
    if is_ok:
      return answer
    failure, text = answer
    cause = RemoteTracebackError(text)
    if isinstance(failure, ValueError):  # The same error as without workers.
      raise failure from cause
    raise WorkerError(f'{self._name} {_after_name(failure)}') from cause

  def start_to_close(self) -> None:
    self._pipe.close()  # The worker ends when its pipe is closed.

  def close(self, end: float) -> None:
    self._process.join(max(end - time.monotonic(), 0))
    if self._process.is_alive():
      self._process.kill()
      self._process.join()
    self._process.close()

  def _death(self) -> WorkerError:
    self._process.join(_SECONDS_TO_CLOSE)
    return WorkerError(
      f'{self._name} died with exit code {self._process.exitcode} (if it is '
      'negative, the signal that killed it). If it died at its start, the '
      "usual cause is a script without `if __name__ == '__main__':`"
    )


def _after_name(error: Exception) -> str:
  message = str(error)
  return message if message.startswith('failed') else f'failed: {message}'


def _close_all(workers: list[_Worker]) -> None:
  for worker in workers:
    worker.start_to_close()
  end = time.monotonic() + _SECONDS_TO_CLOSE
  for worker in workers:
    worker.close(end)
  workers.clear()


def _concatenate(
  timesteps: list[types.EnvironmentTimestep],
) -> types.EnvironmentTimestep:
  return jax.tree.map(lambda *xs: np.concatenate(xs), *timesteps)
