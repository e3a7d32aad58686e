"""Manages the folder of a run: its settings, metrics and state.

  config.json    the request, and all settings that are resolved from it
  metrics.csv    the table of metrics, see `metrics.py`
  state.npz      the last checkpoint, see `checkpoint.py`
  rule.npz       η, if the rule has parameters
  curve.png      the learning curve
  params_*.npz   the final parameters of the agents, one file per seed

Runs of meta-training have other pictures, evaluations of the rule in training
(evaluations_*.csv, baseline_*.csv) and the best rule so far (best_rule.npz).

Files are replaced atomically or grow by whole rows, so that a process may be
killed at any time. Only one process at a time can write to a folder.
"""

from collections.abc import Sequence
import contextlib
import errno
import fcntl
import json
import os
import pathlib
from typing import Any

from disco_rl import fields
from disco_rl.runs import files
from disco_rl.runs import metrics
from disco_rl.runs import reading

# Version of `config.json` and of the files of a run; others cannot be opened.
FORMAT = 3

RULE_FILE = 'rule.npz'
BEST_RULE_FILE = 'best_rule.npz'

# All files that a run may write; the state is removed last.
_FILES = (
  'metrics.csv',
  'evaluations_*.csv',
  'baseline_*.csv',
  'curve.png',
  'evaluations.png',
  'returns.png',
  'rewards.png',
  'training.png',
  'params_*.npz',
  BEST_RULE_FILE,
  RULE_FILE,
  'config.json',
  'state.npz',
)


# Files that are only written after a checkpoint.
_AFTER_CHECKPOINT = (
  *('curve.png', 'returns.png', 'rewards.png', 'training.png'),
  'params_*.npz',
)

# Locked by the process that writes to the folder; the system unlocks it when
# that process ends, even if it is killed.
_LOCK = '.lock'


class RunFolderError(ValueError):
  """Raised for folders without a run, or with one that cannot be used."""


class RunFolder:
  """The folder of a run; a context manager.

  Attributes:
    path: path of the folder.
    config: contents of `config.json`.
  """

  def __init__(self, path: pathlib.Path, config: dict[str, Any], lock: Any):
    """Initialises the folder; see `create`, `reopen` and `view`."""
    self.path = path
    self.config = config
    self._lock = lock

  @classmethod
  def create(
    cls,
    path: str | os.PathLike[str],
    config: dict[str, Any],
    overwrite: bool = False,
    numbered: bool = False,
  ) -> 'RunFolder':
    """Makes the folder of a new run.

    Args:
      path: path of the folder, made if it does not exist.
      config: contents of `config.json`, of JSON types.
      overwrite: whether to remove a run that the folder already holds.
      numbered: whether to append a number to the path if it exists, so that
        the folder is a new one.

    Returns:
      The folder.
    """
    path = pathlib.Path(path)
    is_new = numbered or not path.exists()
    if numbered:
      path = _make_numbered(path)
    if path.exists() and not path.is_dir():
      raise RunFolderError(f'{path} is a file, not a folder')
    if not overwrite:
      _check_empty(path)
    with files.storing(path):
      path.mkdir(parents=True, exist_ok=True)
    folder = cls(path, config, _lock(path))
    try:
      if not overwrite:
        # Another process may have made a run here before the lock was taken.
        _check_empty(path)
      with files.storing(path):
        folder._remove_run()
      folder.write_config(config)
    except BaseException:
      if is_new:  # A run that could not start leaves nothing behind.
        folder._remove_empty()
      folder.close()
      raise
    return folder

  @classmethod
  def reopen(cls, path: str | os.PathLike[str]) -> 'RunFolder':
    """Opens the folder of a run for writing, to resume it.

    Args:
      path: path of the folder.

    Returns:
      The folder.
    """
    path = pathlib.Path(path)
    config = read_config(path)
    folder = cls(path, config, _lock(path))
    files.remove_parts(path)  # Left by a process killed while writing.
    return folder

  @classmethod
  def view(cls, path: str | os.PathLike[str]) -> 'RunFolder':
    """Opens the folder of a run for reading only.

    Args:
      path: path of the folder. Another process may write to it.

    Returns:
      The folder, to which the caller must not write.
    """
    return cls(pathlib.Path(path), read_config(path), None)

  def __enter__(self) -> 'RunFolder':
    return self

  def __exit__(self, *exception: object) -> None:
    self.close()

  def close(self) -> None:
    """Unlocks the folder for other processes."""
    if self._lock is not None:
      self._lock.close()

  def check_in_place(self) -> None:
    """Raises a `StorageError` if the folder was removed or replaced."""
    if self._lock is None:
      return
    try:
      found = os.stat(self.path / _LOCK)
    except OSError as error:
      if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
        return  # If the folder cannot be used, writing reports why.
    else:
      if os.path.samestat(found, os.fstat(self._lock.fileno())):
        return
    raise files.StorageError(
      f'cannot write to {self.path}: the folder was removed, moved or replaced '
      'since the run started'
    )

  def discard(self) -> None:
    """Removes a run that could not start, and its folder if that is empty."""
    with contextlib.suppress(OSError):
      self._remove_run()
    self._remove_empty()

  @property
  def metrics_path(self) -> pathlib.Path:
    """The path of the table of metrics."""
    return self.path / 'metrics.csv'

  @property
  def state_path(self) -> pathlib.Path:
    """The path of the checkpoint."""
    return self.path / 'state.npz'

  @property
  def rule_path(self) -> pathlib.Path:
    """The path of the rule."""
    return self.path / RULE_FILE

  @property
  def best_rule_path(self) -> pathlib.Path:
    """The path of the rule with the best evaluation."""
    return self.path / BEST_RULE_FILE

  @property
  def curve_path(self) -> pathlib.Path:
    """The path of the learning curve."""
    return self.path / 'curve.png'

  def params_path(self, seed: int) -> pathlib.Path:
    """Returns the path of the final parameters of one agent."""
    return self.path / f'params_{seed}.npz'

  def remove_params(self) -> None:
    """Removes the final parameters of all agents."""
    with files.storing(self.path):
      for path in self.path.glob('params_*.npz'):
        path.unlink(missing_ok=True)

  def shows_checkpoint(self) -> bool:
    """Returns whether files show that there was a checkpoint."""
    return any(
      next(self.path.glob(pattern), None) for pattern in _AFTER_CHECKPOINT
    )

  def write_config(self, config: dict[str, Any]) -> None:
    """Replaces `config.json`."""
    self.config = config
    text = json.dumps(config, indent=2) + '\n'
    with files.atomic_writer(self.path / 'config.json') as file:
      file.write(text.encode())

  def cut_table(
    self,
    path: pathlib.Path,
    rows: Sequence[metrics.Row],
    last_iteration: int,
  ) -> list[metrics.Row]:
    """Removes the rows after a checkpoint, which will be computed again.

    Args:
      path: path of a table of this run, which may not exist.
      rows: its rows.
      last_iteration: iteration of the checkpoint.

    Returns:
      The remaining rows.
    """
    kept = [row for row in rows if row['iteration'] <= last_iteration]
    content = metrics.to_csv(kept).encode()
    if path.exists() and path.read_bytes() != content:
      with files.atomic_writer(path) as file:
        file.write(content)
    return kept

  def _remove_empty(self) -> None:
    """Removes the lock, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
      (self.path / _LOCK).unlink()
      self.path.rmdir()

  def _remove_run(self) -> None:
    """Removes the files of a run, the state last, and no other files."""
    for pattern in _FILES:
      for path in self.path.glob(pattern):
        path.unlink(missing_ok=True)


def as_file_name(name: str) -> str:
  """Converts a name, e.g. of an environment, to a valid file name."""
  return name.replace(':', '_').replace('/', '_')


def holds_run(path: str | os.PathLike[str]) -> bool:
  """Returns whether a folder holds a run."""
  return (pathlib.Path(path) / 'config.json').exists()


def check_free(path: str | os.PathLike[str]) -> None:
  """Raises a `RunFolderError` if a folder already holds a run."""
  if holds_run(path):
    raise RunFolderError(
      f'{path} already holds a run: resume it (--resume {path}; in Python: '
      'resume=True), choose another folder, or remove the run (in the command: '
      '--overwrite)'
    )


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
  """Reads the config of the run in a folder.

  Args:
    path: path of the folder.

  Returns:
    The contents of `config.json`.
  """
  path = pathlib.Path(path)
  if not holds_run(path):
    raise RunFolderError(f'{path} holds no run: there is no config.json in it')
  try:
    config = reading.read_json(path / 'config.json')
  except reading.UnreadableFileError as error:
    raise RunFolderError(f'cannot read {path}/config.json: {error}') from None
  if config.get('format') != FORMAT:
    found = fields.shorten(config.get('format', 1))
    raise RunFolderError(
      f'{path} was made by another version of disco_rl: its config.json has '
      f'the format {found}, and this version reads {FORMAT}. Its '
      'rule files can still be loaded by their paths'
    )
  return config


def _check_empty(path: pathlib.Path) -> None:
  """Raises a `RunFolderError` if a folder has files of a run."""
  check_free(path)
  for pattern in _FILES:
    for found in path.glob(pattern):
      raise RunFolderError(
        f'{path} holds {found.name}, a file of a run: choose another folder, '
        'or remove such files (in the command: --overwrite)'
      )


def _make_numbered(path: pathlib.Path) -> pathlib.Path:
  """Makes a new folder, with a number appended if the path exists already."""
  with files.storing(path.parent):
    path.parent.mkdir(parents=True, exist_ok=True)
  free, number = path, 1
  with files.storing(path):
    while True:
      try:
        # Fails if it exists, so that no two processes get the same one.
        free.mkdir()
      except FileExistsError:
        number += 1
        free = path.with_name(f'{path.name}-{number}')
      else:
        return free


def _lock(path: pathlib.Path) -> Any:
  """Locks a folder until the result is closed, or this process ends."""
  flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
  with files.storing(path):
    file = os.fdopen(os.open(path / _LOCK, flags, 0o666), 'r+b', buffering=0)
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    file.close()
    raise RunFolderError(
      f'{path} is being written to by another process'
    ) from None
  except OSError:
    pass  # The file system has no locks.
  return file
