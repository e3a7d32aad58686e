"""Files that are written whole, or not at all."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import secrets
from typing import IO


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
  """Opens a file that appears at `path` only when the block ends well.

  Until then it is a hidden `.part` file beside it. If the block raises, that
  one is removed and whatever was at `path` stays as it was.

  Args:
    path: where the file will be; its folder is made if need be.

  Yields:
    The file, open for reading and writing bytes.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  part = path.parent / f'.{path.name}.{secrets.token_hex(4)}.part'
  try:
    with open(part, 'x+b') as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    os.replace(part, path)
  except BaseException:
    part.unlink(missing_ok=True)
    raise
