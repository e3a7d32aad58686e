"""The folder of a run of several processes, to which process 0 writes.

In an ordinary process, these functions do no more than that process alone.
"""

from collections.abc import Callable
import os
import pathlib
import secrets
import time
from typing import Any

from disco_rl.processes import runtime
from disco_rl.runs import files
from disco_rl.runs import run_folder

# Other hosts see a new file of a network file system only after some time.
_SECONDS_TO_SEE = 30.0


def check(path: str | os.PathLike[str]) -> None:
  """Raises an error if processes have different folders; called by all.

  Process 0 makes a temporary file, which the others must see.

  Args:
    path: path of the folder, which may not exist.

  Raises:
    DifferenceError: if the paths differ.
    RunFolderError: if the path is that of another folder on another host.
  """
  group = runtime.current()
  if group is None:
    return
  path = pathlib.Path(path).absolute()
  group.check_same({'folder for the results': str(path)})
  near = next(p for p in (path, *path.parents) if p.is_dir() or p == p.parent)
  token = near / f'.{secrets.token_hex(8)}.part'
  try:
    if group.is_writer:
      with files.storing(path):
        token.touch()
    token = pathlib.Path(group.gather('token', str(token))[0])
    sees = group.gather('sees', _appears(token))
  finally:
    if group.is_writer:
      token.unlink(missing_ok=True)
  if not all(sees):
    raise run_folder.RunFolderError(
      f'process {sees.index(False)} has another folder {path} than process 0: '
      'it must be on a file system that all hosts share'
    )


def create(
  path: str | os.PathLike[str],
  config: dict[str, Any],
  overwrite: bool,
  numbered: bool,
  started: Callable[[run_folder.RunFolder], None],
) -> run_folder.RunFolder:
  """Makes the folder of a new run; called by all processes.

  Args:
    path: see `run_folder.RunFolder.create`, as for the next three.
    config: contents of `config.json`.
    overwrite: whether to remove a run that the folder already holds.
    numbered: whether to append a number to the path if it exists.
    started: writes the first files. If that fails, the folder is removed.

  Returns:
    The folder, to which only process 0 may write.
  """
  group = runtime.current()
  if group is not None and not group.is_writer:
    return run_folder.RunFolder.view(group.gather('folder', '')[0])
  folder = run_folder.RunFolder.create(path, config, overwrite, numbered)
  try:
    started(folder)
  except BaseException:
    folder.discard()
    folder.close()
    raise
  if group is not None:
    group.gather('folder', str(folder.path))
  return folder


def reopen(path: str | os.PathLike[str]) -> run_folder.RunFolder:
  """Opens the folder of a run to resume it; called by all processes.

  Args:
    path: path of the folder.

  Returns:
    The folder, to which only process 0 may write.
  """
  check(path)
  if runtime.is_writer():
    return run_folder.RunFolder.reopen(path)
  return run_folder.RunFolder.view(path)


def wait_for_readers() -> None:
  """Waits until all processes have read the folder, before it is changed."""
  group = runtime.current()
  if group is not None:
    group.gather('all have read', None)


def _appears(path: pathlib.Path) -> bool:
  deadline = time.monotonic() + _SECONDS_TO_SEE
  while time.monotonic() < deadline:
    if path.exists():
      return True
    time.sleep(0.1)
    # Lists the folder, which makes network file systems look again.
    if path.parent.is_dir():
      os.listdir(path.parent)
  return False
