"""The files of a run in its folder: their names, and which of them exist."""

from collections.abc import Sequence
import fnmatch
import hashlib
import os
import pathlib

from disco_rl.runs import reading

RULE_FILE = 'rule.npz'
BEST_RULE_FILE = 'best_rule.npz'

# Locked by the process that writes to the folder; the system unlocks it when
# that process ends, even if it is killed.
LOCK = '.lock'

# All files that a run may write; the state is removed last.
ALL = (
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

# Folders that a run may write, with checkpoints of several processes.
FOLDERS = ('state.orbax',)

# Files that are only written after a checkpoint.
AFTER_CHECKPOINT = (
  *('curve.png', 'returns.png', 'rewards.png', 'training.png'),
  'params_*.npz',
)

# Bytes of a file name that is made from another name; systems allow 255, and
# names of files have a few more before and after it.
_MAX_NAME_BYTES = 150


def find(
  folder: pathlib.Path, patterns: Sequence[str] = ALL
) -> list[pathlib.Path]:
  """Finds the files of a run, also links that lead nowhere.

  Args:
    folder: folder of the run, which may not exist.
    patterns: patterns of their names.

  Returns:
    Their paths, in the order of the patterns.
  """
  names = sorted(os.listdir(folder)) if folder.is_dir() else []
  return [
    folder / name
    for pattern in patterns
    for name in names
    if fnmatch.fnmatchcase(name, pattern)
  ]


def check(folder: pathlib.Path) -> None:
  """Raises an error if a run could not write or remove its files in a folder.

  Args:
    folder: folder of the run, which may not exist.

  Raises:
    UnreadableFileError: if something has the name of a file of a run, and is no
      ordinary file. The lock may not be a link, either.
  """
  for path in find(folder, FOLDERS):
    if path.is_symlink() or not path.is_dir():
      raise reading.UnreadableFileError(
        f'{path} is not a folder, but a run has a folder of that name: rename '
        'or remove it'
      )
  for path in find(folder, (LOCK, *ALL)):
    kind = reading.other_kind(path)
    if kind is None and path.name == LOCK and path.is_symlink():
      kind = 'a symbolic link'
    if kind is not None:
      raise reading.UnreadableFileError(
        f'{path} is {kind}, but a run has a file of that name: rename or '
        'remove it'
      )


def as_file_name(name: str) -> str:
  """Converts a name, e.g. of an environment, to a valid file name.

  Args:
    name: the name, of any length.

  Returns:
    The file name. Long names are cut, and end in a part of their hash, so that
    no two are the same.
  """
  name = name.replace(':', '_').replace('/', '_')
  encoded = os.fsencode(name)
  if len(encoded) <= _MAX_NAME_BYTES:
    return name
  end = f'-{hashlib.sha256(encoded).hexdigest()[:8]}'
  return encoded[: _MAX_NAME_BYTES - len(end)].decode(errors='ignore') + end
