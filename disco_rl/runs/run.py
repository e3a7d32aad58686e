"""A run: a trainable with its state, its rows and its folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
from typing import Any

from disco_rl.processes import runtime
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import progress
from disco_rl.runs import run_folder
from disco_rl.runs import sharded_checkpoint
from disco_rl.runs import sinks
from disco_rl.runs import trackers as trackers_lib
from disco_rl.runs import tracking


@dataclasses.dataclass
class Run:
  """A run that is ready to be executed.

  Attributes:
    trainable: the trainable.
    state: its state before the run.
    total: steps in all.
    settings: all settings, a ConfigDict.
    rows: rows of metrics so far, to which the run appends.
    folder: folder for the results; None to write nothing.
    bar: the progress bar.
    describe: summarises rows for the bar, see `sinks.Progress`.
    hooks: the hooks, see `loop.run`.
    note: a note for the user on how it was resumed; empty for none.
    trackers: trackers that get the rows, too, in the process that writes them.
    opened: closes all that was opened for the run.
  """

  trainable: loop.Trainable
  state: Any
  total: int
  settings: Any
  rows: list[metrics.Row]
  folder: run_folder.RunFolder | None
  bar: progress.Progress
  describe: Callable[[list[metrics.Row]], tuple[str, Mapping[str, float]]]
  hooks: Sequence[loop.Hook] = ()
  note: str = ''
  trackers: Sequence[trackers_lib.Chosen] = ()
  opened: contextlib.ExitStack = dataclasses.field(
    default_factory=contextlib.ExitStack
  )

  def execute(
    self, should_stop: Callable[[], bool] = lambda: False
  ) -> loop.Outcome:
    """Runs to the end, until `should_stop`, or until Ctrl-C.

    Args:
      should_stop: whether to stop, see `loop.run`. Several processes stop
        together, if one of them is to.

    Returns:
      The outcome; the state of this object is donated.

    Raises:
      KeyboardInterrupt: after Ctrl-C, when the run is saved. In a command, the
        outcome is `INTERRUPTED` instead, see `interrupts.of_run`.
    """
    all_sinks: list[loop.Sink] = [sinks.Rows(self.rows)]
    if self.folder is not None and self.folder.is_writable:
      all_sinks.append(sinks.Guard(self.folder.check_in_place))
      all_sinks.append(sinks.Csv(self.folder.metrics_path))
      info = trackers_lib.RunInfo(self.folder.path, self.folder.config)
      all_sinks += [
        tracking.Tracking(chosen, info, self.rows, self.bar.close)
        for chosen in self.trackers
      ]
    all_sinks.append(sinks.Progress(self.bar, self.describe))
    state, self.state = self.state, None
    with (
      _together() as is_true_in_any,
      interrupts.of_run(self.folder is not None) as is_interrupted,
    ):
      is_own = False

      def is_any_to_stop() -> bool:
        nonlocal is_own
        is_own = is_interrupted() or should_stop()
        return is_true_in_any(is_own)

      outcome = loop.run(
        self.trainable,
        state,
        self.total,
        sinks=all_sinks,
        hooks=self.hooks,
        should_stop=is_any_to_stop,
      )
    is_interrupted_elsewhere = (
      outcome.reason is loop.Reason.INTERRUPTED and not is_own
    )
    if is_interrupted_elsewhere and not interrupts.is_command():
      raise KeyboardInterrupt  # As in the process that received the signal.
    return outcome

  def close(self) -> None:
    """Frees the environments and unlocks the folder."""
    self.opened.close()

  def __enter__(self) -> 'Run':
    return self

  def __exit__(self, *exception: object) -> None:
    self.close()


@contextlib.contextmanager
def _together() -> Iterator[Callable[[bool], bool]]:
  """Makes the processes of a run end a block together.

  If one of them fails, it ends the others.

  Yields:
    A function that returns whether something is true in any process.
  """
  group = runtime.current()
  if group is None:
    yield bool
    return
  try:
    yield group.any
    group.gather('the end of the run', None)
  except BaseException as error:
    group.fail(error)
    raise


def check_same_in_all(
  config: Mapping[str, Any], fingerprints: Mapping[str, str]
) -> None:
  """Raises an error if several processes would make different runs.

  Args:
    config: contents of `config.json`.
    fingerprints: hashes of what else must be the same, by name.

  Raises:
    DifferenceError: if they differ.
    CheckpointError: if they could not save checkpoints.
  """
  group = runtime.current()
  if group is None:
    return
  sharded_checkpoint.check_installed()
  first = dict(command=config['command'], env=config['request'].get('env'))
  # By their names, before the lists of a request that they were given in.
  settings = flatten(config['settings'])
  group.check_same({**first, **settings, **flatten(config), **fingerprints})


def check_same_settings(
  recorded: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
  """Raises a `ValueError` if a run would be resumed with other settings.

  Args:
    recorded: the settings in its `config.json`.
    now: the settings that its request resolves to now.
  """
  before, after = flatten(recorded), flatten(now)
  updates = 'agent.optimizer.total_updates'
  if updates in before and not _same(before[updates], after.get(updates)):
    raise ValueError(
      'the learning-rate schedule of this run ends with its last step, so it '
      'cannot be resumed for another number of steps; to allow that, set '
      f'{updates} when a run is started'
    )
  changed = [
    f'{name} was {before.get(name)!r}, is {after.get(name)!r}'
    for name in sorted(before.keys() | after.keys())
    if not _same(before.get(name), after.get(name)) and name != 'steps'
  ]
  if changed:
    raise ValueError(
      'the run was made with other settings (by other arguments, by another '
      'version, or config.json was edited since): '
      f'{"; ".join(changed[:5])}'
    )


def _same(old: Any, new: Any) -> bool:
  """Returns whether two plain values are equal; NaN is equal to NaN."""
  return old == new or json.dumps(old) == json.dumps(new)


def flatten(tree: Any, path: str = '') -> dict[str, Any]:
  """Returns path to value, for all settings of a tree.

  Args:
    tree: settings, a mapping with mappings in it.
    path: prefix of the paths.
  """
  if not isinstance(tree, Mapping):
    return {path: tree}
  flat: dict[str, Any] = {}
  for name, inner in tree.items():
    flat |= flatten(inner, f'{path}.{name}' if path else name)
  return flat
