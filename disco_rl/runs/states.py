"""Saves, finds and loads the state of a run, its last checkpoint.

```text
state.npz      of one process, see `checkpoint.py`
state.orbax/   of several processes, see `sharded_checkpoint.py`
```

A run may be resumed by another number of processes. Its first checkpoint then
has the other form, and the one before is removed after it.
"""

import pathlib
from typing import Any

from disco_rl.processes import runtime
from disco_rl.runs import checkpoint
from disco_rl.runs import files
from disco_rl.runs import sharded_checkpoint

# A note for the user.
OTHER_PROCESSES = (
  'the checkpoint is of another number of processes, so environments on the '
  'host are reset'
)


def sharded_path(path: pathlib.Path) -> pathlib.Path:
  """Returns the folder of the checkpoints of several processes.

  Args:
    path: path of the checkpoint of one process.
  """
  return path.with_suffix('.orbax')


def save(path: pathlib.Path, step: int, tree: Any) -> None:
  """Saves a state; called by all processes.

  Args:
    path: path of the checkpoint of one process.
    step: steps that are done in it.
    tree: see `checkpoint.check`.
  """
  group, sharded = runtime.current(), sharded_path(path)
  if group is None:
    checkpoint.save(path, tree)
    sharded_checkpoint.remove(sharded)
    return
  sharded_checkpoint.save(sharded, step, tree, group)
  if group.is_writer:
    with files.storing(path):
      path.unlink(missing_ok=True)


def find(path: pathlib.Path) -> pathlib.Path | None:
  """Returns the path of the last checkpoint; None if there is none.

  Args:
    path: path of the checkpoint of one process.
  """
  step = sharded_checkpoint.latest_step(sharded_path(path))
  if step is None:
    return path if path.exists() else None
  # If both exist, the run was killed before it removed the older one.
  if path.exists() and checkpoint.read_step(path) > step:
    return path
  return sharded_path(path)


def load(found: pathlib.Path, like: Any) -> tuple[Any, bool]:
  """Loads a state; called by all processes.

  Args:
    found: from `find`.
    like: a tree like the saved one.

  Returns:
    The tree, and whether it is complete: environments on the host that another
    number of processes has stepped are None.
  """
  group = runtime.current()
  if found.is_dir():
    return sharded_checkpoint.load(found, like, group)
  left_out = []
  if group is not None:
    left_out = [
      name
      for name, leaf in checkpoint.named_leaves(like)
      if not sharded_checkpoint.is_shared(leaf)
    ]
  return checkpoint.load(found, like, left_out=left_out), not left_out
