"""Manages the folder of a run: its settings, metrics and state.

```text
config.json    the request, and all settings that are resolved from it
metrics.csv    the table of metrics, see `metrics.py`
state.npz      the last checkpoint, see `checkpoint.py`; of several processes,
state.orbax/   see `sharded_checkpoint.py`
rule.npz       η, if the rule has parameters
curve.png      the learning curve
params_*.npz   the final parameters of the agents, one file per seed
```

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
import shutil
from typing import Any

from disco_rl import fields
from disco_rl.runs import files
from disco_rl.runs import metrics
from disco_rl.runs import reading
from disco_rl.runs import run_files
from disco_rl.runs import states

# Version of `config.json` and of the files of a run; others cannot be opened.
FORMAT = 3


class RunFolderError(ValueError):
  """Raised for folders without a run, or with one that cannot be used."""


class RunFolder:
  """The folder of a run; a context manager.

  Attributes:
    path: path of the folder.
    config: contents of `config.json`.
  """

  def __init__(
    self,
    path: pathlib.Path,
    config: dict[str, Any],
    lock: Any,
    made: Sequence[pathlib.Path] = (),
  ):
    """Initialises the folder; see `create`, `reopen` and `view`."""
    self.path = path
    self.config = config
    self._lock = lock
    self._made = made

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
    path, made = _make(pathlib.Path(path), overwrite, numbered)
    folder = cls(path, config, _lock(path), made)
    try:
      if not overwrite:
        # Another process may have made a run here before the lock was taken.
        _check_empty(path)
      with files.storing(path):
        folder._remove_run()
      folder.write_config(config)
    except BaseException:
      if made:  # A run that could not start leaves nothing behind.
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
    run_files.check(path)
    folder = cls(path, config, _lock(path))
    files.remove_parts(path)  # Left by a process killed while writing.
    return folder

  @classmethod
  def view(cls, path: str | os.PathLike[str]) -> 'RunFolder':
    """Opens the folder of a run for reading only.

    Args:
      path: path of the folder. Another process may write to it.

    Returns:
      The folder. The methods that write change no file of it.
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
      found = os.stat(self.path / run_files.LOCK)
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
    """Removes a run that could not start, and folders that were made for it."""
    with contextlib.suppress(OSError):
      self._remove_run()
    self._remove_empty()

  @property
  def metrics_path(self) -> pathlib.Path:
    """The path of the table of metrics."""
    return self.path / 'metrics.csv'

  @property
  def state_path(self) -> pathlib.Path:
    """The path of the checkpoint of one process, see `states.py`."""
    return self.path / 'state.npz'

  @property
  def last_state_path(self) -> pathlib.Path:
    """The path of the last checkpoint; that of one process if there is none."""
    return states.find(self.state_path) or self.state_path

  @property
  def is_writable(self) -> bool:
    """Whether this process may write to the folder."""
    return self._lock is not None

  @property
  def rule_path(self) -> pathlib.Path:
    """The path of the rule."""
    return self.path / run_files.RULE_FILE

  @property
  def best_rule_path(self) -> pathlib.Path:
    """The path of the rule with the best evaluation."""
    return self.path / run_files.BEST_RULE_FILE

  @property
  def curve_path(self) -> pathlib.Path:
    """The path of the learning curve."""
    return self.path / 'curve.png'

  def params_path(self, seed: int) -> pathlib.Path:
    """Returns the path of the final parameters of one agent."""
    return self.path / f'params_{seed}.npz'

  def remove_params(self) -> None:
    """Removes the final parameters of all agents."""
    if not self.is_writable:
      return
    with files.storing(self.path):
      for path in run_files.find(self.path, ('params_*.npz',)):
        path.unlink(missing_ok=True)

  def remove_checkpoint(self) -> None:
    """Removes the checkpoint of one process, if the run is not to go on."""
    if self.is_writable:
      with files.storing(self.path):
        self.state_path.unlink(missing_ok=True)

  def shows_checkpoint(self) -> bool:
    """Returns whether files show that there was a checkpoint."""
    return bool(run_files.find(self.path, run_files.AFTER_CHECKPOINT))

  def write_config(self, config: dict[str, Any]) -> None:
    """Replaces `config.json`."""
    self.config = config
    if not self.is_writable:
      return
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
    is_changed = path.exists() and path.read_bytes() != content
    if is_changed and self.is_writable:
      with files.atomic_writer(path) as file:
        file.write(content)
    return kept

  def _remove_empty(self) -> None:
    """Removes the lock, and folders that were made if nothing is in them."""
    with contextlib.suppress(OSError):
      (self.path / run_files.LOCK).unlink()
    _remove_folders(self._made)

  def _remove_run(self) -> None:
    """Removes the files of a run, the state last, and no other files."""
    for path in run_files.find(self.path):
      path.unlink(missing_ok=True)
    for path in run_files.find(self.path, run_files.FOLDERS):
      shutil.rmtree(path)


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
  for found in run_files.find(path, (*run_files.ALL, *run_files.FOLDERS)):
    raise RunFolderError(
      f'{path} holds {found.name}, a file of a run: choose another folder, '
      'or remove such files (in the command: --overwrite)'
    )


def _make(
  path: pathlib.Path, overwrite: bool, numbered: bool
) -> tuple[pathlib.Path, list[pathlib.Path]]:
  """Makes the folder of a new run; see `RunFolder.create`.

  Returns:
    Its path, and the folders that did not exist before, innermost first.
  """
  with files.storing(path):
    made = [
      folder for folder in (path, *path.parents) if not os.path.lexists(folder)
    ]
    if not numbered:
      if path.exists() and not path.is_dir():
        raise RunFolderError(f'{path} is a file, not a folder')
      if not overwrite:
        _check_empty(path)
      run_files.check(path)
  try:
    with files.storing(path):
      if not numbered:
        path.mkdir(parents=True, exist_ok=True)
        return path, made
      free = _make_numbered(path)
      # Another process may have made `path` since.
      return free, [free, *(folder for folder in made if folder != path)]
  except BaseException:
    _remove_folders(made)
    raise


def _make_numbered(path: pathlib.Path) -> pathlib.Path:
  """Makes a new folder, with a number appended if the path exists already."""
  free, number = path, 1
  while True:
    try:
      # Fails if it exists, so that no two processes get the same one.
      free.mkdir(parents=True)
    except FileExistsError:
      number += 1
      free = path.with_name(f'{path.name}-{number}')
    else:
      return free


def _remove_folders(folders: Sequence[pathlib.Path]) -> None:
  """Removes the folders among these that are empty."""
  for folder in folders:
    with contextlib.suppress(OSError):
      folder.rmdir()


def _lock(path: pathlib.Path) -> Any:
  """Locks a folder until the result is closed, or this process ends."""
  flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
  lock = path / run_files.LOCK
  with files.storing(lock):
    file = os.fdopen(os.open(lock, flags, 0o666), 'r+b', buffering=0)
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
