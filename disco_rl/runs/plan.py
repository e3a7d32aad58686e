"""Starts and resumes runs: what evaluation and meta-training have in common."""

import abc
from collections.abc import Callable, Mapping
import os
from typing import Any, ClassVar

from disco_rl.runs import checkpoint
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import progress
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder


class Plan(abc.ABC):
  """A run whose settings are known, and whose agents can be made.

  Attributes:
    command: the command that makes such runs.
    unit: what is counted, e.g. `'iteration'`.
    request: what was asked for, see `config.resolve`.
    settings: all settings that follow from it, a ConfigDict.
    config: what `config.json` of the run will hold.
  """

  command: ClassVar[str]
  unit: ClassVar[str]
  request: Mapping[str, Any]
  settings: Any
  config: dict[str, Any]

  @abc.abstractmethod
  def make_trainable(self) -> loop.Trainable:
    """Makes the agents; compiles nothing yet."""

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
      rows: what was measured so far; grows while the run advances.
      folder: where results are written.
      before_print: to be called before a line is printed.
    """

  @abc.abstractmethod
  def describe_rows(
    self, rows: list[metrics.Row]
  ) -> tuple[str, Mapping[str, float]]:
    """Says what a progress bar shows, see `sinks.Progress`."""

  def check_buildable(self) -> None:
    """Builds everything once, so that mistakes are found."""
    self.make_trainable().close()

  def check(self, trainable: Any, state: Any) -> None:  # noqa: B027
    """Refuses a run that could not be saved, before its folder is made."""

  def started(  # noqa: B027
    self, folder: run_folder.RunFolder, state: Any
  ) -> None:
    """Writes what a new run's folder holds from the beginning."""

  def resumed(  # noqa: B027
    self, folder: run_folder.RunFolder, done: int
  ) -> None:
    """Drops from the folder what was written after the checkpoint."""

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
    folder = run_folder.RunFolder.reopen(out)
    try:
      return self.resume(folder, show_progress=show_progress)
    except BaseException:
      folder.close()
      raise

  def start(
    self,
    out: str | os.PathLike[str] | None,
    *,
    overwrite: bool = False,
    show_progress: bool = True,
  ) -> run_lib.Run:
    """Starts a new run.

    Args:
      out: the folder for its results; None to write nothing.
      overwrite: whether a run already there is removed.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    trainable = self.make_trainable()
    try:
      state = trainable.init()
      folder = None
      if out is not None:
        # Before an old run is removed.
        self.check(trainable, state)
        folder = run_folder.RunFolder.create(out, self.config, overwrite)
        self.started(folder, state)
      return self._run(trainable, state, [], folder, show_progress)
    except BaseException:
      trainable.close()
      raise

  def resume(
    self, folder: run_folder.RunFolder, *, show_progress: bool = True
  ) -> run_lib.Run:
    """Resumes a run from its last checkpoint.

    Args:
      folder: of the run, open for writing.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    run_lib.check_same_settings(
      folder.config['settings'], self.config['settings']
    )
    trainable = self.make_trainable()
    try:
      if folder.state_path.exists():
        saved = checkpoint.load(folder.state_path, trainable.checkpoint_like())
        state = trainable.from_checkpoint(saved)
      else:
        state = trainable.init()
      done = trainable.done(state)
      if done > self.settings.steps:
        raise ValueError(
          f'{folder.path} is at {self.unit} {done} already, after '
          f'{self.settings.steps}'
        )
      folder.write_config(self.config)
      rows = folder.cut_metrics(done)
      self.resumed(folder, done)
      return self._run(trainable, state, rows, folder, show_progress)
    except BaseException:
      trainable.close()
      raise

  def _run(
    self,
    trainable: loop.Trainable,
    state: Any,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder | None,
    show_progress: bool,
  ) -> run_lib.Run:
    total, done = self.settings.steps, trainable.done(state)
    bar = progress.Progress(total, done, enabled=show_progress)
    hooks: list[loop.Hook] = []
    if folder is not None:
      hooks = self.make_hooks(trainable, rows, folder, bar.close)
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
    )


def request_of_folder(
  folder: run_folder.RunFolder, steps: int | None, is_complete: bool
) -> dict[str, Any]:
  """Returns the request that a run was made from.

  Args:
    folder: of the run.
    steps: how many there are to be in all; None to leave that as it is.
    is_complete: whether objects from Python that the run needs are at hand.

  Returns:
    The request.
  """
  config = folder.config
  if not (config['is_by_name'] or is_complete):
    raise run_folder.RunFolderError(
      f'{folder.path} was made in Python, from objects that have no name: call '
      'the function that made it again, with resume=True'
    )
  request = dict(config['request'])
  if steps is not None:
    request['steps'] = steps
  return request
