"""Keeps compiled programs for the next process, safely with many at once.

JAX can keep what it compiles in a folder, but writes there in place: a process
may read an entry that another is still writing. So here no two processes write
to the same folder. One folder, that of the user, has complete entries only; in
it each process has a private one, which it alone gives to JAX:

  compiled/<machine>/jit_f-<hash>-cache     complete entries, of all processes
  compiled/<machine>/process-<random>/      hard links to them, and new ones

`publish` links new entries from the private folder into the common one, which
makes them appear there whole, and picks up those of others. The private folder
is locked as long as its process lives; `enable` removes those of dead ones.

Nothing here is ever worth stopping a program for: where the folder cannot be
written to, there is no cache.
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
except ImportError:  # Not a Unix: there are no such locks, and no cache.
  fcntl = None  # type: ignore[assignment]

VARIABLE = 'DISCO_RL_COMPILATION_CACHE'
_OFF = ('off', '0', 'false', 'no')

_ENTRIES = '*-cache'
_PRIVATE = 'process-'
_UNFINISHED = '.new-'
_LOCK = 'lock'
_SECONDS_UNFINISHED = 3600.0  # After which nobody can be at work on it.
_MIN_FREE_BYTES = 1 << 28
_MAX_BYTES = 1 << 30
# Programs that old versions read from a cache write where they should not: with
# JAX 0.5.3 on CPU, runs crash or go wrong. This is the oldest that was tested.
_MIN_JAX = (0, 10)


@dataclasses.dataclass
class _Cache:
  """The cache of this process.

  Attributes:
    common: the folder of complete entries.
    private: the folder of this process, in `common`.
    lock: a file in `private` that is locked while it is open.
    process: number of the process that may use it, not a child of it.
    max_bytes: size beyond which old entries are removed from `common`.
    seen: when both folders had last changed when all of it was published.
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
  """Makes JAX keep what it compiles, for this process and later ones.

  It does nothing if a cache was set up already, by this function or through
  JAX's own settings, if the environment variable `DISCO_RL_COMPILATION_CACHE`
  is `off`, if the folder cannot be used, or if JAX is older than 0.10.

  Args:
    folder: of all processes; made if need be. By default the one that the
      environment variable names, or else `compiled` in the user's cache.
    max_bytes: size of the folder beyond which those entries are removed that
      were not used for longest.
  """
  global _cache
  named = os.environ.get(VARIABLE, '')
  if not is_supported() or named.lower() in _OFF:
    return
  if getattr(jax.config, 'jax_compilation_cache_dir', None) is not None:
    return
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
  # The programs of one operation, too: there are many of them.
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
  # Else the name of the private folder is part of what identifies a program.
  jax.config.update('jax_persistent_cache_enable_xla_caches', 'none')
  # A disk that fills up later is no reason for a warning at every compilation.
  warnings.filterwarnings(
    'ignore', 'Error writing persistent compilation cache entry'
  )
  jax_cache.reset_cache()  # It may have been found to be off.
  atexit.register(_close)


def is_supported() -> bool:
  """Returns whether this system and this version of JAX can have a cache."""
  return fcntl is not None and jax.__version_info__ >= _MIN_JAX


def publish() -> None:
  """Gives other processes what was compiled until now, and takes theirs.

  It may be called at any moment, and often: it does nothing without a cache, or
  if nothing is new.
  """
  # A child that was forked has the variable, but not the folder.
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
  """Returns the folder to name to `enable` in other processes, or None."""
  return None if _cache is None else _cache.common.parent


def _close() -> None:
  """Publishes, and removes the private folder."""
  global _cache
  publish()
  cache, _cache = _cache, None
  if cache is not None and cache.process == os.getpid():
    shutil.rmtree(cache.private, ignore_errors=True)
    cache.lock.close()


def _machine() -> str:
  """A name for what this processor can do.

  Programs are compiled for it; a folder may be that of several machines.
  """
  lines: set[str] = set()
  with contextlib.suppress(OSError):
    text = pathlib.Path('/proc/cpuinfo').read_text('utf-8', errors='replace')
    names = ('model name', 'flags', 'Features', 'CPU part')
    lines = {line for line in text.splitlines() if line.startswith(names)}
  digest = hashlib.sha256('\n'.join(sorted(lines)).encode()).hexdigest()
  return f'{platform.machine() or "machine"}-{digest[:8]}'


def _make_private(common: pathlib.Path) -> tuple[pathlib.Path, IO[bytes]]:
  """Makes a folder that is locked from the moment it has its name."""
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
  """Removes folders of processes that ended without doing so.

  What they had compiled until then is kept.
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
  """Makes the complete entries of a private folder known to all.

  Args:
    private: the folder.
    common: where to make them known.

  Returns:
    Whether all were complete.
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
  """Makes the entries of all processes known to JAX in this one."""
  own = {path.name for path in private.glob(_ENTRIES)}
  for path in common.glob(_ENTRIES):
    if path.name not in own:
      _link(path, private / path.name)


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
  """Makes an entry appear at `target`, whole or not at all."""
  with contextlib.suppress(OSError):
    try:
      os.link(source, target)
    except FileExistsError:
      return
    except OSError:  # Of a file system without hard links.
      part = target.parent / f'{_UNFINISHED}{secrets.token_hex(8)}'
      try:
        shutil.copyfile(source, part)
        part.replace(target)
      except OSError:
        part.unlink(missing_ok=True)


def _trim(common: pathlib.Path, max_bytes: int) -> None:
  """Removes entries until those that are left fit, the oldest first."""
  entries = []
  for path in common.glob(_ENTRIES):
    with contextlib.suppress(OSError):
      stat = path.stat()
      # Links share the times, so reading a private one counts as use.
      used = max(stat.st_atime, stat.st_mtime)
      entries.append((used, stat.st_size, path))
      if not stat.st_size:
        path.unlink()  # What the crash of a machine leaves of a new file.
  excess = sum(size for _, size, _ in entries) - max_bytes
  for _, size, path in sorted(entries):
    if excess <= 0:
      break
    with contextlib.suppress(OSError):
      path.unlink()
    excess -= size
