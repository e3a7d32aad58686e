"""Checks that all processes of a run mean the same folder."""

import os
import pathlib
import secrets
import time

from disco_rl.processes import runtime
from disco_rl.runs import files
from disco_rl.runs import run_folder

# Other hosts see a new file of a network file system only after some time.
_SECONDS_TO_SEE = 30.0


def check(path: str | os.PathLike[str]) -> None:
  """Raises an error if processes have different folders; called by all.

  Process 0 makes a temporary file, which the others must see. Nothing happens
  in an ordinary process.

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
