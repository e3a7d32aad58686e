"""Connects the processes of a run, and starts JAX's multi-process runtime.

```python
runtime.by_hand('10.0.0.1:1234', num_processes=2, process_id=0)
runtime.detected()   # On SLURM, GKE, TPU pods, ...
runtime.current()    # After the user's own `jax.distributed.initialize`, too.
```

By hand, process 0 listens on the coordinator's address. It compares numbers and
versions of all processes before JAX's runtime starts, on another port: JAX
itself lets a second coordinator listen on the same port, and waits for minutes
if the numbers are wrong. In the other cases JAX connects the processes, and
they learn the address of process 0 by JAX's key-value store.
"""

import atexit
import contextlib
import ipaddress
import os
import socket
import time
from typing import Any

import jax

import disco_rl
from disco_rl import compat
from disco_rl.processes import group as group_lib
from disco_rl.processes import links

# Seconds to wait for the other processes, as in JAX.
DEFAULT_TIMEOUT = 300.0

_MAX_PROCESSES = 1 << 16
_MAX_SHOWN = 20
_KEY = 'disco_rl/process_0'
_SECONDS_BETWEEN_TRIES = 0.2
_SECONDS_FOR_HELLO = 5.0  # For whoever connects to process 0 by mistake.


class StartError(ValueError):
  """Raised if the processes of a run cannot be connected.

  Attributes:
    is_user_facing: whether the message is written for users, so that commands
      show it without a traceback.
  """

  is_user_facing = True


_group: group_lib.Group | None = None
_was_checked = False


def current() -> group_lib.Group | None:
  """Returns the group of this process; None if it is on its own.

  If the user has called `jax.distributed.initialize`, the processes are
  connected in the first call, which all of them must make.
  """
  global _group, _was_checked
  if _group is None and not _was_checked:
    if compat.distributed_client() is None:
      return None  # It may be started later.
    _was_checked = True
    if jax.process_count() > 1:
      _group = _by_jax(DEFAULT_TIMEOUT)
      atexit.register(_group.say_goodbye)
  return _group


def is_writer() -> bool:
  """Returns whether this process writes files and shows progress."""
  group = current()
  return group is None or group.is_writer


def leave() -> None:
  """Waits until all processes are done, and shuts JAX's runtime down."""
  global _group
  if _group is not None:
    _group.leave()
    jax.distributed.shutdown()
    _group = None


def by_hand(
  coordinator: str,
  num_processes: int,
  process_id: int,
  timeout: float = DEFAULT_TIMEOUT,
) -> group_lib.Group | None:
  """Connects processes whose numbers are known, and starts JAX's runtime.

  Args:
    coordinator: `HOST:PORT`, an address of the host of process 0 that the other
      hosts can reach, and a free port there.
    num_processes: how many processes there are.
    process_id: number of this one, from 0.
    timeout: seconds to wait for the others.

  Returns:
    The group; None if there is only one process.

  Raises:
    StartError: if they cannot be connected, or do not fit together.
  """
  global _group
  host, port = _parse(coordinator)
  if not 1 <= num_processes <= _MAX_PROCESSES:
    raise StartError(
      f'num_processes must be between 1 and {_MAX_PROCESSES}, got '
      f'{num_processes}'
    )
  if not 0 <= process_id < num_processes:
    raise StartError(
      f'process_id must be between 0 and {num_processes - 1} with '
      f'num_processes {num_processes}, got {process_id}'
    )
  if num_processes == 1:
    return None
  deadline = time.monotonic() + timeout
  facts = _facts(num_processes)
  if process_id:
    link, welcome = _join(host, port, process_id, facts, deadline, timeout)
    all_links = {0: link}
    hosts, jax_port = {0: welcome['host']}, welcome['port']
  else:
    with _listen(host, port) as server:
      all_links, hosts = _accept(server, facts, deadline, timeout)
    jax_port = _free_port(host)
    _welcome(all_links, jax_port)
  # Before JAX starts, which waits for minutes for a process that was lost.
  _group = group_lib.Group(process_id, num_processes, all_links, hosts)
  address = f'{_quoted(host)}:{jax_port}'
  try:
    compat.initialize_distributed(
      address,
      num_processes,
      process_id,
      timeout=max(30, int(timeout)),
      bind_address=address,
    )
  except RuntimeError as error:
    first_line = str(error).strip().partition('\n')[0]
    raise StartError(
      f'JAX cannot connect the processes at {address}: {first_line}'
    ) from error
  return _group


def detected(timeout: float = DEFAULT_TIMEOUT) -> group_lib.Group | None:
  """Connects processes as `jax.distributed.initialize` detects them.

  Args:
    timeout: seconds to wait for the others.

  Returns:
    The group; None if there is only one process.

  Raises:
    StartError: if nothing is detected, or they cannot be connected.
  """
  global _group, _was_checked
  try:
    compat.initialize_distributed(timeout=max(30, int(timeout)))
  except (ValueError, RuntimeError, OSError) as error:
    first_line = str(error).strip().partition('\n')[0]
    raise StartError(
      'JAX has detected no cluster (SLURM, GKE, TPU pod, ...) in which this is '
      f'one of several processes ({first_line}): pass --coordinator, '
      '--num-processes and --process-id'
    ) from error
  _was_checked = True
  if jax.process_count() > 1:
    _group = _by_jax(timeout)
  return _group


def _by_jax(timeout: float) -> group_lib.Group:
  """Connects processes that JAX has connected already."""
  num_processes, process_id = jax.process_count(), jax.process_index()
  deadline = time.monotonic() + timeout
  client, facts = compat.distributed_client(), _facts(num_processes)
  assert client is not None
  if process_id:
    address = client.blocking_key_value_get(_KEY, int(timeout * 1000))
    link, welcome = _join(
      *_parse(address), process_id, facts, deadline, timeout
    )
    return group_lib.Group(
      process_id, num_processes, {0: link}, {0: welcome['host']}
    )
  host, _ = _parse(compat.coordinator_address())
  with _listen(host if _is_loopback(host) else '', 0) as server:
    port = server.getsockname()[1]
    client.key_value_set(_KEY, f'{_quoted(host)}:{port}')
    all_links, hosts = _accept(server, facts, deadline, timeout)
  _welcome(all_links, port)
  return group_lib.Group(process_id, num_processes, all_links, hosts)


def _facts(num_processes: int) -> dict[str, Any]:
  """Returns what must be the same in all processes, in words."""
  return {
    '--num-processes': num_processes,
    'disco_rl': disco_rl.__version__,
    'jax': jax.__version__,
    'jaxlib': compat.jaxlib_version(),
  }


def _parse(address: str) -> tuple[str, int]:
  host, _, port = address.rpartition(':')
  host = host.strip('[]')
  if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
    raise StartError(
      'the coordinator must be given as HOST:PORT, with a port between 1 and '
      f'{(1 << 16) - 1}, got {address[:100]!r}'
    )
  return host, int(port)


def _quoted(host: str) -> str:
  return f'[{host}]' if ':' in host else host


def _is_loopback(host: str) -> bool:
  with contextlib.suppress(ValueError):
    return ipaddress.ip_address(host).is_loopback
  return host == 'localhost'


def _family(host: str) -> socket.AddressFamily:
  return socket.AF_INET6 if ':' in host else socket.AF_INET


def _listen(host: str, port: int) -> socket.socket:
  try:
    # Without the option by which several processes share a port.
    return socket.create_server((host, port), family=_family(host))
  except OSError as error:
    raise StartError(
      f'process 0 cannot listen on the coordinator {host}:{port} '
      f'({os.strerror(error.errno) if error.errno else error}): it must be an '
      'address of its host, and a port on which nothing else listens, such as '
      'the process 0 of another run'
    ) from error


def _free_port(host: str) -> int:
  with _listen(host, 0) as server:
    return server.getsockname()[1]


def _accept(
  server: socket.socket,
  facts: dict[str, Any],
  deadline: float,
  timeout: float,
) -> tuple[dict[int, links.Link], dict[int, str]]:
  """Waits in process 0 until all others have connected.

  Args:
    server: a listening socket.
    facts: see `_facts`.
    deadline: until when to wait.
    timeout: the seconds until then, for messages.

  Returns:
    The links, and the names of the hosts.
  """
  all_links: dict[int, links.Link] = {}
  hosts: dict[int, str] = {}
  wanted = range(1, facts['--num-processes'])
  while len(all_links) < len(wanted):
    server.settimeout(max(0.01, deadline - time.monotonic()))
    try:
      connection, _ = server.accept()
    except TimeoutError:
      missing = [str(i) for i in wanted if i not in all_links]
      reason = (
        f'not all of the {len(wanted) + 1} processes have connected within '
        f'{timeout:g} s; missing: {", ".join(missing[:_MAX_SHOWN])}'
        f'{", ..." * (len(missing) > _MAX_SHOWN)}'
      )
      _refuse(all_links, reason)
      raise StartError(reason) from None
    link = links.Link(connection)
    connection.settimeout(_SECONDS_FOR_HELLO)
    hello = link.receive()
    connection.settimeout(links.SILENCE_SECONDS)
    if hello is None or hello.get('kind') != 'hello':
      link.close()  # Not one of ours.
      continue
    number, host = hello['process'], hello['host']
    reason = ''
    for name, value in facts.items():
      other = hello['facts'].get(name)
      if other != value:
        reason = (
          f'process {number} on {host} has {name} {other}, but process 0 has '
          f'{value}'
        )
        break
    if not reason and number in all_links:
      reason = f'two processes were started with --process-id {number}'
    if reason:
      _refuse({**all_links, -1: link}, reason)
      raise StartError(reason)
    all_links[number], hosts[number] = link, host
  return all_links, hosts


def _welcome(all_links: dict[int, links.Link], port: int) -> None:
  for link in all_links.values():
    link.send(kind='welcome', port=port, host=socket.gethostname())


def _refuse(all_links: dict[int, links.Link], reason: str) -> None:
  for link in all_links.values():
    link.send(kind='refused', reason=reason)
    link.close()


def _join(
  host: str,
  port: int,
  process_id: int,
  facts: dict[str, Any],
  deadline: float,
  timeout: float,
) -> tuple[links.Link, dict[str, Any]]:
  """Connects to process 0, and waits until all others have, too.

  Args:
    host: host of process 0.
    port: its port.
    process_id: number of this process.
    facts: see `_facts`.
    deadline: until when to try.
    timeout: the seconds until then, for messages.

  Returns:
    The link, and its first message.
  """
  where = f'the coordinator {host}:{port}'
  while True:
    left = deadline - time.monotonic()
    try:
      connection = socket.create_connection((host, port), max(0.01, left))
      break
    except OSError as error:
      if left < _SECONDS_BETWEEN_TRIES:
        why = os.strerror(error.errno) if error.errno else error
        raise StartError(
          f'{where} cannot be reached within {timeout:g} s ({why}): is process '
          '0 running there, and does it have this address?'
        ) from error
      time.sleep(_SECONDS_BETWEEN_TRIES)
  link = links.Link(connection)
  # Process 0 waits for the others as long as this process would.
  connection.settimeout(max(1.0, deadline - time.monotonic()) + 5.0)
  link.send(
    kind='hello', process=process_id, host=socket.gethostname(), facts=facts
  )
  answer = link.receive()
  if answer is None or answer['kind'] == 'refused':
    link.close()
  if answer is None:
    raise StartError(
      f'{where} closed the connection, or did not answer within {timeout:g} s: '
      'process 0 was stopped, or something else listens there'
    )
  if answer['kind'] == 'refused':
    raise StartError(answer['reason'])
  connection.settimeout(links.SILENCE_SECONDS)
  return link, answer
