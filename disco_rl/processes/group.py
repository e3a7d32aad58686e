"""The processes of one run: they agree, and end together.

```python
group = runtime.current()          # None in an ordinary process.
paths = group.gather('path', str(path))
```

Process 0 is connected to all others. If a process is lost, the others end with
one sentence that names it: they could only wait for it in their next collective
operation. JAX ends them, too, but later, and by aborting them.
"""

from collections.abc import Callable, Mapping
import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from disco_rl.processes import links

# An error that all processes have is reported by process 0 alone. The others
# wait this long to learn that it has it, too.
_SECONDS_FOR_SAME_ERROR = 2.0
_SECONDS_FOR_NEWS = 3.0
_SECONDS_FOR_OWN_SIGNAL = 0.5
_END = 'the end'
_LONGEST = 100  # Characters of a value in a message.


class DifferenceError(ValueError):
  """Raised in all processes if what must be the same is not."""


class Group:
  """The processes of one run.

  Attributes:
    process_id: number of this process, from 0.
    num_processes: how many there are.
    program: name of the program, for messages of this object.
    advice: returns a further line for the message that ends this process, e.g.
      how to resume; empty for none.
  """

  def __init__(
    self,
    process_id: int,
    num_processes: int,
    all_links: Mapping[int, links.Link],
    hosts: Mapping[int, str],
  ):
    """Starts to watch the other processes.

    Args:
      process_id: number of this process.
      num_processes: how many there are.
      all_links: in process 0, the links to all others by their number; in
        others, the one to process 0.
      hosts: names of the hosts of the linked processes.
    """
    self.process_id = process_id
    self.num_processes = num_processes
    self.program = 'disco_rl'
    self.advice: Callable[[], str] = str
    self._links = dict(all_links)
    self._hosts = dict(hosts)
    self._changed = threading.Condition()
    self._number = 0  # Of the last `gather`.
    self._given: dict[int, dict[int, Any]] = {}  # By number and process.
    self._results: dict[int, list[Any]] = {}
    self._announced: dict[int, str] = {}  # Errors by process.
    self._is_over = False
    self._is_ending = False
    self._abort_handler = _set_abort_handler()
    for number, link in self._links.items():
      _start_thread(self._read, number, link)
    _start_thread(self._ping)

  @property
  def is_writer(self) -> bool:
    """Whether this process writes the files of the run: process 0."""
    return self.process_id == 0

  def gather(self, name: str, value: Any) -> list[Any]:
    """Gathers one value of every process; all must call this.

    Args:
      name: what is gathered, the same in all processes.
      value: of a JSON type.

    Returns:
      The values, by process.
    """
    self._number += 1
    number = self._number
    if not self.is_writer:
      self._links[0].send(kind='value', number=number, value=[name, value])
      with self._changed:
        self._changed.wait_for(lambda: number in self._results)
        return self._results.pop(number)
    with self._changed:
      given = self._given.setdefault(number, {})
      given[0] = [name, value]
      self._changed.wait_for(lambda: len(given) == self.num_processes)
      del self._given[number]
    self._is_over = name == _END
    for other, (what, _) in given.items():
      if what != name:
        raise RuntimeError(
          f'process {other} is at {what!r}, but process 0 at {name!r}'
        )
    values = [given[i][1] for i in range(self.num_processes)]
    self._send_all(
      kind='values', number=number, values=values, is_over=self._is_over
    )
    return values

  def check_same(self, facts: Mapping[str, Any]) -> None:
    """Compares facts between all processes; all must call this.

    Args:
      facts: name of each fact to its value, of a JSON type.

    Raises:
      DifferenceError: if they differ, with the first one that does.
    """
    for process, others in enumerate(self.gather('facts', dict(facts))):
      if process == 0:
        first = others
      for name in [*first, *others]:
        if name not in first or name not in others:
          raise DifferenceError(
            f'only one of process {process} and process 0 has {name}'
          )
        if _text(others[name]) != _text(first[name]):
          raise DifferenceError(
            f'process {process} has another {name} than process 0: '
            f'{str(others[name])[:_LONGEST]}, not {str(first[name])[:_LONGEST]}'
          )

  def any(self, value: bool) -> bool:
    """Returns whether a value is true in any process; all must call this."""
    return any(self.gather('any', bool(value)))

  def announce(self, reason: str, exit_code: int) -> bool:
    """Tells the other processes that an error ends this one, and so them.

    Args:
      reason: the error, in one sentence.
      exit_code: the exit code of all processes.

    Returns:
      Whether process 0 reports the same error, so that this one need not.
    """
    self._is_ending = True
    self._send_all(
      kind='stopped', process=self.process_id, reason=reason, code=exit_code
    )
    if self.is_writer:
      return False
    with self._changed:
      return self._changed.wait_for(
        lambda: self._announced.get(0) == reason, _SECONDS_FOR_SAME_ERROR
      )

  def leave(self) -> None:
    """Waits until all processes are done, and stops watching them."""
    self.gather(_END, None)
    self._is_over = True
    for link in self._links.values():
      link.close()
    _set_abort_handler(self._abort_handler)

  def fail(self, error: BaseException) -> None:
    """Announces an error, unless it is due to a process that was lost.

    If a process is lost, a collective operation may fail before the news
    arrive. So this waits for them, and they then end this process.

    Args:
      error: the error.
    """
    if self._is_ending:
      return
    reason = str(error)
    self.wait_for_news()
    if not getattr(error, 'is_user_facing', False):
      reason = f'{type(error).__name__}: {reason}'.partition('\n')[0][:500]
    self.announce(reason, 1)

  def wait_for_news(self) -> None:
    """Waits for the news that a process is lost, which end this one."""
    time.sleep(_SECONDS_FOR_NEWS)

  def say_goodbye(self) -> None:
    """Tells the others that this process ends in order, without waiting."""
    if not (self._is_ending or self._is_over):
      self._send_all(kind='bye')

  def _send_all(self, **message: Any) -> None:
    for link in self._links.values():
      link.send(**message)

  def _ping(self) -> None:
    while not self._is_over:
      self._send_all(kind='ping')
      time.sleep(links.PING_SECONDS)

  def _read(self, number: int, link: links.Link) -> None:
    """Handles the messages of one process until it is done or lost."""
    while True:
      message = link.receive()
      if self._is_over:
        return
      if message is None:
        # A signal to all processes may be on its way to this one, too.
        time.sleep(_SECONDS_FOR_OWN_SIGNAL)
        self._stop(number, '', 1)
        return
      kind = message.get('kind')
      if kind == 'bye':
        return  # It takes part in no more runs; `gather` would wait.
      with self._changed:
        if kind == 'value':
          given = self._given.setdefault(message['number'], {})
          given[number] = message['value']
        elif kind == 'values':
          self._is_over = message['is_over']
          self._results[message['number']] = message['values']
        elif kind == 'stopped':
          self._announced[message['process']] = message['reason']
        self._changed.notify_all()
      if kind == 'stopped':
        self._stop(message['process'], message['reason'], message['code'])

  def _stop(self, process: int, reason: str, code: int) -> None:
    """Ends this process, since another one was lost or had an error.

    Args:
      process: the other process.
      reason: its error; empty if it was lost.
      code: the exit code.
    """
    if self.is_writer:
      self._send_all(kind='stopped', process=process, reason=reason, code=code)
    if reason:  # This process may have the same error, and report it.
      time.sleep(_SECONDS_FOR_SAME_ERROR / 2)
    if self._is_ending:
      return
    self._is_ending = True
    what = f'stopped: {reason}'
    if not reason:
      what = 'was lost: it was killed, or cannot be reached any more'
    host = self._hosts.get(process)
    where = f' on {host}' if host else ''
    word = 'error' if code == 2 else 'stopped'
    sentence = (
      f'{self.program}: {word}: process {process} of {self.num_processes}'
      f'{where} {what}'
    )
    lines = [sentence, self.advice() if code != 2 else '']
    for stream in (sys.stdout, sys.stderr):
      with contextlib.suppress(Exception):
        stream.flush()
    with contextlib.suppress(OSError):
      os.write(2, ''.join(f'{line}\n' for line in lines if line).encode())
    os._exit(code)


def _text(value: Any) -> str:
  """Returns a value as a text, which is the same for NaN, too."""
  return json.dumps(value, sort_keys=True)


def _start_thread(function: Callable[..., None], *args: Any) -> None:
  name = 'disco_rl processes'
  threading.Thread(target=function, args=args, name=name, daemon=True).start()


def _set_abort_handler(handler: int | None = None) -> int | None:
  """Delays aborts of this process by some seconds, or no longer.

  JAX's runtime aborts a process as soon as process 0 is lost, and no callback
  can prevent it. The C function `sleep` as the signal's handler gives `_stop`
  time to end the process with a sentence: it is called with the number of the
  signal, which is the number of seconds, 6; afterwards the abort goes on.

  Args:
    handler: address of the handler to restore; None to delay aborts.

  Returns:
    The address of the handler before.
  """
  with contextlib.suppress(AttributeError, OSError):
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    if handler is None:
      handler = ctypes.cast(libc.sleep, ctypes.c_void_p).value
    return libc.signal(int(signal.SIGABRT), handler) or 0
  return None
