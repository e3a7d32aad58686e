"""The files of trackers in the folder of a run, which it may replace.

```text
tensorboard/run/      settings, pictures and the final table, as event files
tensorboard/seed_*/   the scalars of a seed, as event files
wandb/*run-*-disco-*  runs of wandb
```

Files of other programs in these folders are left alone.
"""

import contextlib
import os
import pathlib
import shutil

TENSORBOARD = 'tensorboard'
WANDB = 'wandb'
# Beginning of the names that runs of wandb have here.
WANDB_ID = 'disco-'

_EVENTS = ('run/events.out.tfevents.*', 'seed_*/events.out.tfevents.*')
_WANDB_RUNS = (f'*run-*-{WANDB_ID}*',)


def find(
  folder: pathlib.Path, trackers: tuple[str, ...] = (TENSORBOARD, WANDB)
) -> list[pathlib.Path]:
  """Finds the files and folders of trackers.

  Args:
    folder: folder of the run, which may not exist.
    trackers: the trackers, `TENSORBOARD` and `WANDB`.

  Returns:
    Event files, and folders of runs of wandb.
  """
  patterns = {TENSORBOARD: _EVENTS, WANDB: _WANDB_RUNS}
  return [
    path
    for tracker in trackers
    for pattern in patterns[tracker]
    for path in sorted((folder / tracker).glob(pattern))
  ]


def remove(
  folder: pathlib.Path, trackers: tuple[str, ...] = (TENSORBOARD, WANDB)
) -> None:
  """Removes the files and folders of trackers, and folders that are then empty.

  Args:
    folder: folder of the run.
    trackers: the trackers, `TENSORBOARD` and `WANDB`.
  """
  above = set()
  for path in find(folder, trackers):
    above |= {path.parent, folder / path.relative_to(folder).parts[0]}
    if path.is_dir() and not path.is_symlink():
      shutil.rmtree(path)
    else:
      path.unlink(missing_ok=True)
    if folder / WANDB in above:  # Links to the last run, which is removed.
      for path in (folder / WANDB).iterdir():
        if path.is_symlink() and not path.exists():
          path.unlink(missing_ok=True)
  for path in sorted(above, key=lambda x: len(x.parts), reverse=True):
    with contextlib.suppress(OSError):
      os.rmdir(path)
