"""Starts and resumes runs of evaluation and of meta-training."""

import abc
from collections.abc import Callable, Mapping, Sequence, Set
import contextlib
import os
from typing import Any, ClassVar, NamedTuple
import warnings

import disco_rl
from disco_rl import memory
from disco_rl.processes import runtime
from disco_rl.runs import config_entries
from disco_rl.runs import finite
from disco_rl.runs import hooks as hooks_lib
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import machine
from disco_rl.runs import metrics
from disco_rl.runs import plain_settings
from disco_rl.runs import progress
from disco_rl.runs import resuming
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder
from disco_rl.runs import shared_folder
from disco_rl.runs import states

_NO_REPLAY = (
  'the replay is not part of the checkpoint (--checkpoint-replay never; in '
  "Python: settings={'checkpoint_replay': 'never'}), and is filled again"
)


class DryRun(NamedTuple):
  """What a run needs."""

  # Words for the run, and for what else it does, to the memory it takes.
  estimates: Mapping[str, memory.Estimate]
  notes: Sequence[str] = ()  # On its devices and its time.
  error: memory.NotEnoughMemoryError | None = None  # If it does not fit.


class Plan(abc.ABC):
  """A run with resolved settings, which can be started or resumed.

  Attributes:
    command: the command that makes such runs.
    unit: name of a step, e.g. `'iteration'`.
    private: names of fields of a state that need not be finite.
    request: the request, see `config.resolve`.
    settings: all settings, resolved from the request; a ConfigDict.
    config: contents of the run's `config.json`.
  """

  command: ClassVar[str]
  unit: ClassVar[str]
  private: ClassVar[Set[str]]
  request: Mapping[str, Any]
  settings: Any
  config: dict[str, Any]

  def _set_config(
    self,
    settings: Any,
    origins: Mapping[str, str],
    *,
    needs_objects: bool,
    **facts: Any,
  ) -> None:
    """Sets the settings, and the contents of `config.json`.

    Args:
      settings: all settings, resolved from the request; a ConfigDict.
      origins: path of a setting to the origin of its value, without defaults.
      needs_objects: whether Python objects replace parts of the request, so
        that the command cannot make the same run from `config.json`.
      **facts: further entries of `config.json`.
    """
    self.settings = settings
    is_plain = plain_settings.is_plain(self.request['settings'])
    self.config = dict(
      format=run_folder.FORMAT,
      command=self.command,
      version=disco_rl.__version__,
      **facts,
      is_by_name=is_plain and not needs_objects,
      request=plain_settings.to_plain(dict(self.request)),
      settings=plain_settings.to_plain(settings),
      origins=dict(origins),
    )

  @abc.abstractmethod
  def make_trainable(self) -> loop.Trainable:
    """Builds the agents; compiles nothing yet."""

  @abc.abstractmethod
  def make_hooks(
    self,
    trainable: Any,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder,
    before_print: Callable[[], None],
  ) -> list[loop.Hook]:
    """Makes the hooks of a run that writes its results.

    Args:
      trainable: from `make_trainable`.
      rows: rows of metrics so far, to which the run appends.
      folder: folder for the results.
      before_print: must be called before a line is printed.
    """

  @abc.abstractmethod
  def describe_rows(
    self, rows: list[metrics.Row]
  ) -> tuple[str, Mapping[str, float]]:
    """Summarises rows for the progress bar; `describe` of `sinks.Progress`."""

  def dry_run(self, flops: float | None = None) -> DryRun:
    """Checks that the run can be started, without starting it.

    Everything is built and traced, and environments on the host are reset;
    nothing is compiled or written, and no state is allocated.

    Args:
      flops: FLOP/s of a device, for notes on time; None to measure it.

    Returns:
      What the run needs; a `ValueError` if something cannot be built.
    """
    del flops
    try:
      with contextlib.closing(self.make_trainable()) as trainable:
        return DryRun({'this run': trainable.check_memory()})
    except memory.NotEnoughMemoryError as error:
      return DryRun({}, error=error)

  def prepare(  # noqa: B027
    self, trainable: Any, state: Any, opened: contextlib.ExitStack
  ) -> None:
    """Builds everything else that the run needs, before its folder is made.

    Args:
      trainable: from `make_trainable`.
      state: its state before the first step.
      opened: closes what is opened here, when the run is closed or cannot be
        started.

    Raises:
      ValueError: if the run cannot be saved.
    """

  def started(  # noqa: B027
    self, folder: run_folder.RunFolder, state: Any
  ) -> None:
    """Writes the first files of a new run."""

  def resumed(  # noqa: B027
    self, folder: run_folder.RunFolder, done: int
  ) -> None:
    """Removes results that were written after the checkpoint."""

  def shown_checkpoint(self, folder: run_folder.RunFolder) -> int:
    """Returns the step of a checkpoint that other files than rows show.

    Args:
      folder: folder of a run without a checkpoint.

    Returns:
      The step of a checkpoint that must have existed; 0 for none.
    """
    del folder
    return 0

  def missing_results(
    self, folder: run_folder.RunFolder, done: int
  ) -> list[str]:
    """Returns notes on results of a run, besides its rows, that are missing.

    Args:
      folder: folder of the run.
      done: steps done in its checkpoint.
    """
    del folder, done
    return []

  def lost_by_resuming(self, trainable: Any, saved: Any) -> list[str]:
    """Returns notes on what a resumed run lacks, because it was not saved.

    Args:
      trainable: from `make_trainable`.
      saved: the checkpoint.
    """
    del trainable, saved
    return []

  def check_built(  # noqa: B027
    self, folder: run_folder.RunFolder, trainable: Any
  ) -> None:
    """Raises a `ValueError` if a trainable cannot resume the run in a folder.

    Args:
      folder: folder of the run.
      trainable: from `make_trainable`.
    """

  def check_resumable(self, folder: run_folder.RunFolder) -> None:
    """Raises a `ValueError` if the run in a folder is not this one.

    Args:
      folder: folder of the run.
    """
    before, now = folder.config, self.config
    for name in ('rule', 'init', 'update_rule', 'env'):
      old, new = (x.get(name, x['request'].get(name)) for x in (before, now))
      if old != new:
        raise ValueError(
          f'{folder.path} was made with {name} = {old}, not {new}'
        )
    run_lib.check_same_settings(before['settings'], now['settings'])

  def open(
    self,
    out: str | os.PathLike[str] | None,
    *,
    resume: bool = False,
    show_progress: bool = True,
  ) -> run_lib.Run:
    """Starts a new run, or resumes the one in a folder.

    Args:
      out: the folder of the run; None to write nothing.
      resume: whether to resume.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    if not resume:
      return self.start(out, show_progress=show_progress)
    if out is None:
      raise ValueError('resume=True needs the folder of the run, out=...')
    folder = shared_folder.reopen(out)
    try:
      run = self.resume(folder, show_progress=show_progress)
    except BaseException:
      folder.close()
      raise
    if run.note:
      warnings.warn(run.note, stacklevel=3)
    return run

  def start(
    self,
    out: str | os.PathLike[str] | None,
    *,
    overwrite: bool = False,
    numbered: bool = False,
    show_progress: bool = True,
  ) -> run_lib.Run:
    """Starts a new run.

    Args:
      out: the folder for its results; None to write nothing.
      overwrite: whether to remove a run that the folder already holds.
      numbered: whether to append a number to `out` if it exists.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    with contextlib.ExitStack() as opened:
      run_lib.check_same_in_all(self.config, self.fingerprints())
      if out is not None:
        shared_folder.check(out)
      trainable = self.make_trainable()
      opened.callback(trainable.close)
      state = trainable.init()
      folder = None
      if out is not None:
        # Before an old run is removed.
        self.prepare(trainable, state, opened)
        interrupts.defer()  # From here on there is something to save.
        folder = shared_folder.create(
          *(out, machine.add_to(self.config), overwrite, numbered),
          lambda folder: self.started(folder, state),
        )
        opened.callback(folder.close)
      return self._run(trainable, state, [], folder, show_progress, opened)

  def fingerprints(self) -> dict[str, str]:
    """Returns hashes of large arrays that must be the same in all processes."""
    return {}

  def resume(
    self, folder: run_folder.RunFolder, *, show_progress: bool = True
  ) -> run_lib.Run:
    """Resumes a run from its last checkpoint.

    Args:
      folder: folder of the run, open for writing.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    self.check_resumable(folder)
    with contextlib.ExitStack() as opened:
      run_lib.check_same_in_all(self.config, self.fingerprints())
      trainable = self.make_trainable()
      opened.callback(trainable.close)
      self.check_built(folder, trainable)
      found, is_complete = states.find(folder.state_path), True
      lost: list[str] = []
      if found is not None:
        saved, is_complete = states.load(found, trainable.checkpoint_like())
        finite.check_loaded(folder.state_path, saved, self.private)
        state = trainable.from_checkpoint(saved)
        lost = self.lost_by_resuming(trainable, saved)
      else:
        state = trainable.init()
      done = trainable.done(state)
      rows = metrics.read_csv(folder.metrics_path, trainable.columns())
      note = resuming.check(
        folder,
        rows,
        done if found else None,
        resuming.Periods(
          unit=self.unit,
          total=config_entries.recorded_steps(folder),
          chunk_size=self.settings.get('chunk_size', 1),
          checkpoint_every=self.settings.checkpoint_every,
          seeds=self._seeds(),
        ),
        shown=0 if found else self.shown_checkpoint(folder),
      )
      notes = [note] * bool(note) + self.missing_results(folder, done) + lost
      if done > self.settings.steps:
        raise ValueError(
          f'{folder.path} is at {self.unit} {done} already, beyond the '
          f'{self.settings.steps} of this run: ask for more (--steps; in '
          'Python: num_iterations or num_updates)'
        )
      self.prepare(trainable, state, opened)  # Before anything is changed.
      shared_folder.wait_for_readers()
      folder.write_config(machine.add_to(self.config))
      rows = folder.cut_table(folder.metrics_path, rows, done)
      self.resumed(folder, done)
      run = self._run(trainable, state, rows, folder, show_progress, opened)
      run.opened.callback(folder.close)
      if done and self._leaves_out_replay():
        notes.append(_NO_REPLAY)
      notes += [states.OTHER_PROCESSES] * (not is_complete)
      run.note = '; '.join(notes)
      return run

  def _seeds(self) -> Sequence[int] | None:
    """Returns the seeds of rows of metrics; None if there are none."""
    seed = self.settings.get('seed')
    return self.settings.get('seeds', None if seed is None else (seed,))

  def _leaves_out_replay(self) -> bool:
    """Returns whether the run has a replay that its checkpoints leave out."""
    if self.settings.get('checkpoint_replay') != 'never':
      return False
    sizes = self.settings.batching
    return sizes.num_envs != sizes.batch_size

  def _run(
    self,
    trainable: loop.Trainable,
    state: Any,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder | None,
    show_progress: bool,
    opened: contextlib.ExitStack,
  ) -> run_lib.Run:
    """Makes the run, which takes over what was opened for it."""
    total, done = self.settings.steps, trainable.done(state)
    is_shown = show_progress and runtime.is_writer()
    bar = progress.Progress(total, done, enabled=is_shown)
    hooks: list[loop.Hook] = []
    if folder is not None:
      hooks = self.make_hooks(trainable, rows, folder, bar.close)
      if not folder.is_writable:
        # All processes write checkpoints, and one of them everything else.
        hooks = [x for x in hooks if isinstance(x, hooks_lib.Checkpoint)]
    return run_lib.Run(
      trainable=trainable,
      state=state,
      total=total,
      settings=self.settings,
      rows=rows,
      folder=folder,
      bar=bar,
      describe=self.describe_rows,
      hooks=hooks,
      opened=opened.pop_all(),
    )
