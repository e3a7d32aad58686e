"""Connections between processes, over which small JSON messages are sent."""

import contextlib
import json
import socket
import threading
from typing import Any

_MAX_BYTES = 1 << 26  # Of one message.

# Every process sends something at least this often, and one that is silent for
# longer than `SILENCE` is lost, e.g. since its host has no power.
PING_SECONDS = 5.0
SILENCE_SECONDS = 50.0


class Link:
  """A connection to another process; it may be used from several threads."""

  def __init__(self, connection: socket.socket):
    """Takes over a connected socket."""
    with contextlib.suppress(OSError):  # No option of other kinds of sockets.
      connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(SILENCE_SECONDS)
    self._socket = connection
    self._file = connection.makefile('rb')
    self._lock = threading.Lock()

  def send(self, **message: Any) -> None:
    """Sends a message; does nothing if the connection is broken.

    Broken connections are noticed by the reader.

    Args:
      **message: values of JSON types.
    """
    line = json.dumps(message).encode() + b'\n'
    with self._lock, contextlib.suppress(OSError):
      self._socket.sendall(line)

  def receive(self) -> dict[str, Any] | None:
    """Waits for a message.

    Returns:
      The message; None if the connection is closed, broken or silent, or if
      what came is no message.
    """
    try:
      line = self._file.readline(_MAX_BYTES)
      message = json.loads(line) if line.endswith(b'\n') else None
    except (OSError, ValueError):
      return None
    return message if isinstance(message, dict) else None

  def close(self) -> None:
    """Closes the connection."""
    with contextlib.suppress(OSError):
      self._socket.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
      self._file.close()
      self._socket.close()
