"""Caches compiled programs across processes, safely with many at once.

JAX can cache compiled programs in a folder, but writes entries in place: a
process may read an entry that another is still writing. So no two processes
write to the same folder here. The common folder of a user has complete entries
only; each process has a private folder in it, which it passes to JAX:

```text
compiled/<machine>/jit_f-<hash>-cache     complete entries, of all processes
compiled/<machine>/process-<random>/      hard links to them, and new ones
```

`publish` links new entries from the private folder into the common one, which
is atomic, and links those of others back. The private folder is locked as long
as its process runs; `enable` removes those of processes that ended.

No error here stops a program: if the folder cannot be written to, there is no
cache.
"""

import atexit
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import platform
import secrets
import shutil
import tempfile
import time
from typing import IO
import warnings

import jax
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from disco_rl.runs import cache_entries
from disco_rl.runs import files

try:
  import fcntl
except ImportError:  # Not on Unix: there are no such locks, and no cache.
  fcntl = None  # type: ignore[assignment]

VARIABLE = 'DISCO_RL_COMPILATION_CACHE'
_OFF = ('off', '0', 'false', 'no')

_ENTRIES = '*-cache'
_PRIVATE = 'process-'
_UNFINISHED = '.new-'
_LOCK = 'lock'
_SECONDS_UNFINISHED = 3600.0  # Older unfinished files are abandoned.
_MIN_FREE_BYTES = 1 << 28
_MAX_BYTES = 1 << 30
# In old versions, programs from a cache corrupt memory: with JAX 0.5.3 on CPU,
# runs crash or give wrong results. This is the oldest tested version.
_MIN_JAX = (0, 10)


@dataclasses.dataclass
class _Cache:
  """The cache of this process.

  Attributes:
    common: the folder of complete entries.
    private: the folder of this process, in `common`.
    lock: a file in `private` that is locked while it is open.
    process: id of the process that may use it; children may not.
    max_bytes: size above which old entries are removed from `common`.
    seen: modification times of both folders at the last complete `publish`.
  """

  common: pathlib.Path
  private: pathlib.Path
  lock: IO[bytes]
  process: int
  max_bytes: int
  seen: tuple[int, int] | None = None


_cache: _Cache | None = None


def enable(
  folder: str | os.PathLike[str] | None = None, max_bytes: int = _MAX_BYTES
) -> None:
  """Makes JAX cache compiled programs, for this process and later ones.

  Does nothing if a cache is enabled already, by this function or through JAX's
  own settings, if the environment variable `DISCO_RL_COMPILATION_CACHE` is
  `off`, if the folder cannot be used, or if JAX is older than 0.10.

  Args:
    folder: the folder of all processes, made if it does not exist. By default
      the one that the environment variable names, or else `compiled` in the
      user's cache folder.
    max_bytes: size of the folder above which the least recently used entries
      are removed.
  """
  global _cache
  named = os.environ.get(VARIABLE, '')
  if not is_supported() or named.lower() in _OFF:
    return
  if getattr(jax.config, 'jax_compilation_cache_dir', None) is not None:
    return
  if not (folder or named or files.has_private_cache()):
    return  # Another user could have put programs there.
  base = folder or named or files.cache_folder() / 'compiled'
  common = pathlib.Path(base).absolute() / _machine()
  try:
    common.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(common).free < _MIN_FREE_BYTES:
      return
    private, lock = _make_private(common)
  except OSError:
    return
  _cache = _Cache(common, private, lock, os.getpid(), max_bytes)
  _remove_dead(common)
  _trim(common, max_bytes)
  _link_entries(common, private)
  jax.config.update('jax_compilation_cache_dir', str(private))
  # Also programs of a single operation, of which there are many.
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
  # Otherwise the name of the private folder is part of a program's key.
  jax.config.update('jax_persistent_cache_enable_xla_caches', 'none')
  # No warnings at every compilation if the disk fills up later.
  warnings.filterwarnings(
    'ignore', 'Error writing persistent compilation cache entry'
  )
  jax_cache.reset_cache()  # JAX may have initialised it as disabled.
  atexit.register(_close)


def is_supported() -> bool:
  """Returns whether this system and this version of JAX can have a cache."""
  return fcntl is not None and jax.__version_info__ >= _MIN_JAX


def publish() -> None:
  """Shares new entries with other processes, and links theirs.

  It may be called often: it does nothing without a cache or new entries.
  """
  # A forked child has the variable, but must not use the folder.
  if _cache is None or _cache.process != os.getpid():
    return
  common, private = _cache.common, _cache.private
  try:
    now = private.stat().st_mtime_ns, common.stat().st_mtime_ns
  except OSError:
    return
  if now == _cache.seen:
    return
  all_complete = _publish(private, common)
  _link_entries(common, private)
  _trim(common, _cache.max_bytes)
  _cache.seen = now if all_complete else None


def common_folder() -> pathlib.Path | None:
  """Returns the folder to pass to `enable` in other processes, or None."""
  return None if _cache is None else _cache.common.parent


def _close() -> None:
  """Publishes new entries, and removes the private folder."""
  global _cache
  publish()
  cache, _cache = _cache, None
  if cache is not None and cache.process == os.getpid():
    shutil.rmtree(cache.private, ignore_errors=True)
    cache.lock.close()


def _machine() -> str:
  """Returns a name for the instruction set of this processor.

  Programs are compiled for it, and several machines may share a folder.
  """
  lines: set[str] = set()
  with contextlib.suppress(OSError):
    text = pathlib.Path('/proc/cpuinfo').read_text('utf-8', errors='replace')
    names = ('model name', 'flags', 'Features', 'CPU part')
    lines = {line for line in text.splitlines() if line.startswith(names)}
  digest = hashlib.sha256('\n'.join(sorted(lines)).encode()).hexdigest()
  return f'{platform.machine() or "machine"}-{digest[:8]}'


def _make_private(common: pathlib.Path) -> tuple[pathlib.Path, IO[bytes]]:
  """Makes a private folder, which is locked before it gets its name."""
  unfinished = pathlib.Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=common))
  private = common / f'{_PRIVATE}{secrets.token_hex(8)}'
  lock = (unfinished / _LOCK).open('wb')
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unfinished.rename(private)
  except OSError:
    lock.close()
    shutil.rmtree(unfinished, ignore_errors=True)
    raise
  return private, lock


def _remove_dead(common: pathlib.Path) -> None:
  """Removes private folders of processes that ended without removing them.

  Their complete entries are published first.
  """
  for folder in common.glob(f'{_PRIVATE}*'):
    with contextlib.suppress(OSError), (folder / _LOCK).open('rb') as lock:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
      _publish(folder, common)
      shutil.rmtree(folder, ignore_errors=True)
  for path in common.glob(f'{_UNFINISHED}*'):
    with contextlib.suppress(OSError):
      if time.time() - path.stat().st_mtime < _SECONDS_UNFINISHED:
        continue
      if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
      else:
        path.unlink()


def _publish(private: pathlib.Path, common: pathlib.Path) -> bool:
  """Links the complete entries of a private folder into the common one.

  Args:
    private: the private folder.
    common: the common folder.

  Returns:
    Whether all entries were complete.
  """
  known = {path.name for path in common.glob(_ENTRIES)}
  all_complete = True
  for path in private.glob(_ENTRIES):
    if path.name in known:
      continue
    if cache_entries.is_complete(path):
      _link(path, common / path.name)
    else:
      all_complete = False
  return all_complete


def _link_entries(common: pathlib.Path, private: pathlib.Path) -> None:
  """Links the entries of the common folder into a private one."""
  own = {path.name for path in private.glob(_ENTRIES)}
  for path in common.glob(_ENTRIES):
    if path.name not in own:
      _link(path, private / path.name)


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
  """Links or copies an entry to `target`, atomically."""
  with contextlib.suppress(OSError):
    try:
      os.link(source, target)
    except FileExistsError:
      return
    except OSError:  # The file system has no hard links.
      part = target.parent / f'{_UNFINISHED}{secrets.token_hex(8)}'
      try:
        shutil.copyfile(source, part)
        part.replace(target)
      except OSError:
        part.unlink(missing_ok=True)


def _trim(common: pathlib.Path, max_bytes: int) -> None:
  """Removes the least recently used entries until the rest fits."""
  entries = []
  for path in common.glob(_ENTRIES):
    with contextlib.suppress(OSError):
      stat = path.stat()
      # Links share the times, so reading a private one counts as use.
      used = max(stat.st_atime, stat.st_mtime)
      entries.append((used, stat.st_size, path))
      if not stat.st_size:
        path.unlink()  # A crash of the machine may leave new files empty.
  excess = sum(size for _, size, _ in entries) - max_bytes
  for _, size, path in sorted(entries):
    if excess <= 0:
      break
    with contextlib.suppress(OSError):
      path.unlink()
    excess -= size
