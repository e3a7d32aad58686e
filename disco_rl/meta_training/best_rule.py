"""The best rule of a run of meta-training, and whether it may be replaced."""

from collections.abc import Sequence
import pathlib

from disco_rl.meta_training import evaluation_tables
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import reading
from disco_rl.runs import run_files


def check(folder: pathlib.Path) -> None:
  """Raises an error if the best rule of a run is damaged.

  Args:
    folder: folder of the run, which may not have one yet.

  Raises:
    ValueError: if it is.
  """
  if read_step(folder / run_files.BEST_RULE_FILE) is not None:
    rule_lib.load_rule(folder / run_files.BEST_RULE_FILE)


def read_step(path: pathlib.Path) -> int | None:
  """Reads of which meta-update a saved rule is.

  Args:
    path: path of a rule that a run of meta-training saves.

  Returns:
    The meta-update; None without a file.

  Raises:
    ValueError: if the file is damaged.
  """
  if not path.exists():
    return None
  step = file_format.load_metadata(path).get('step')
  if not isinstance(step, int) or step < 0:
    raise reading.UnreadableFileError(
      f'{path} is not a rule of this run: it has no number of a meta-update'
    )
  return step


def is_of_lost_evaluation(
  folder: pathlib.Path, envs: Sequence[str], done: int
) -> bool:
  """Returns whether the score of the best rule so far cannot be known.

  It must be kept then, since a later rule may be worse.

  Args:
    folder: folder of the run.
    envs: the environments of its evaluations.
    done: meta-updates done; a best rule of a later one, from before the run was
      resumed, will be evaluated again.
  """
  step = read_step(folder / run_files.BEST_RULE_FILE)
  if step is None or step >= done:
    return False
  return step not in evaluation_tables.evaluated(folder, envs)
