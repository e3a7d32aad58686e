"""Makes runs of evaluation from requests, and resumes them."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import pathlib
from typing import Any

import jax
from ml_collections import config_dict

from disco_rl import parallel
from disco_rl.config import batching as batching_lib
from disco_rl.config import layers as layers_lib
from disco_rl.config import resolve
from disco_rl.environments import factories
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import hooks
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import progress
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder

COMMAND = 'eval'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objects:
  """What a run is made of besides its request: objects from Python.

  Attributes:
    env_fn: makes the environment, instead of the name in the request.
    agent_settings: of the agents, instead of those that follow from the rule.
    devices: over which the batch is sharded, instead of their number.
  """

  env_fn: registry.EnvironmentFn | None = None
  agent_settings: config_dict.ConfigDict | None = None
  devices: Sequence[jax.Device] | None = None


class Plan:
  """A run whose settings are known, and whose agents can be made.

  Attributes:
    request: what was asked for, see `resolve.EVALUATION`.
    rule: the rule.
    layers: all settings that follow from it.
    config: what `config.json` of the run will hold.
  """

  def __init__(
    self,
    request: Mapping[str, Any],
    rule: rule_lib.Rule | None = None,
    objects: Objects | None = None,
  ):
    """Resolves the settings; makes nothing yet.

    Args:
      request: what was asked for; modules of `use` are imported.
      rule: the rule, instead of the name in the request.
      objects: what cannot be asked for by name.
    """
    self._objects = objects or Objects()
    self.request = {**resolve.EVALUATION, **request}
    factories.import_modules(self.request['use'])
    has_env_name = self._objects.env_fn is None
    if has_env_name:  # A wrong name is reported before anything is downloaded.
      registry.default_settings(self.request['env'])
    self.rule = rule or rule_lib.load_rule(self.request['rule'])
    self.layers: layers_lib.Layers = resolve.evaluation(
      self.request,
      self.rule,
      agent=self._objects.agent_settings,
      has_env_name=has_env_name,
    )
    is_by_name = has_env_name and self._objects.agent_settings is None
    self.config = run_lib.describe_config(
      COMMAND,
      self.request,
      self.layers.settings,
      self.layers.origins,
      rule=self.rule.name,
      update_rule=self.rule.kind,
      rule_settings=dict(self.rule.settings),
      # Whether the command can make the same run from this file.
      is_by_name=is_by_name,
    )

  def make_training(self) -> training.Training:
    """Makes the agents; compiles nothing yet."""
    settings = self.layers.settings
    env_fn = self._objects.env_fn or registry.environment_fn(
      self.request['env'], **settings.env
    )
    devices = self._objects.devices
    if devices is None and settings.devices:
      devices = parallel.first_devices(settings.devices)
    population = population_lib.Population(
      env_fn,
      settings.agent,
      batching_lib.Batching(**settings.batching),
      seeds=settings.seeds,
      devices=devices,
      lanes_at_once=settings.lanes_at_once,
      overlap_acting=settings.overlap_acting,
    )
    try:
      training.check_rule_params(
        population.agent.update_rule,
        self.rule.eta,
        f'the parameters of {self.rule.name}',
      )
      return training.Training(population, self.rule.eta, settings.chunk_size)
    except ValueError:
      population.close()
      raise

  def start(
    self,
    out: str | os.PathLike[str] | None,
    *,
    overwrite: bool = False,
    show_progress: bool = True,
  ) -> run_lib.Run:
    """Begins a new run.

    Args:
      out: the folder for its results; None to write nothing.
      overwrite: whether a run already there is removed.
      show_progress: whether to show a progress bar.

    Returns:
      The run.
    """
    trainable = self.make_training()
    try:
      state = trainable.init()  # Before an old run is removed.
      folder = None
      if out is not None:
        # Only what environments show of themselves could be unfit; the rest is
        # large.
        checkpoint.check(trainable.to_checkpoint(state).actor)
        folder = run_folder.RunFolder.create(out, self.config, overwrite)
        self._save_rule(folder)
    except BaseException:
      trainable.close()
      raise
    return self._run(trainable, state, [], folder, show_progress)

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
    settings = self.layers.settings
    run_lib.check_same_settings(
      folder.config['settings'], self.config['settings']
    )
    trainable = self.make_training()
    try:
      state = trainable.init()
      if folder.state_path.exists():
        like = trainable.to_checkpoint(state)
        saved = checkpoint.load(folder.state_path, like)
        state = trainable.from_checkpoint(saved)
      done = trainable.done(state)
      if done > settings.steps:
        raise ValueError(
          f'{folder.path} is at iteration {done} already, after '
          f'{settings.steps}'
        )
      folder.write_config(self.config)
      rows = folder.cut_metrics(done)
    except BaseException:
      trainable.close()
      raise
    return self._run(trainable, state, rows, folder, show_progress)

  def _run(
    self,
    trainable: training.Training,
    state: Any,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder | None,
    show_progress: bool,
  ) -> run_lib.Run:
    settings = self.layers.settings
    all_hooks = []
    if folder is not None:
      every = settings.checkpoint_every
      all_hooks = [
        hooks.Checkpoint(trainable, folder.state_path, every),
        hooks.Periodic(every, lambda *_: self._draw(rows, folder.curve_path)),
      ]
    return run_lib.Run(
      trainable=trainable,
      state=state,
      total=settings.steps,
      settings=settings,
      rows=rows,
      folder=folder,
      bar=progress.Progress(
        settings.steps, trainable.done(state), enabled=show_progress
      ),
      describe=training.describe_rows,
      hooks=all_hooks,
    )

  def _save_rule(self, folder: run_folder.RunFolder) -> None:
    """Saves the rule, so that the run can be resumed without other files."""
    if self.rule.eta:
      rule_lib.save_rule(
        folder.rule_path,
        self.rule.eta,
        settings={**self.rule.settings, 'update_rule_name': self.rule.kind},
        metadata=dict(rule=self.rule.name),
      )

  def _draw(self, rows: list[metrics.Row], path: pathlib.Path) -> None:
    if plots.is_available() and rows:
      figure = plots.learning_curves(
        {self.rule.name: rows}, title=str(self.request['env'])
      )
      plots.save(figure, path)


def plan_of_folder(
  folder: pathlib.Path,
  config: Mapping[str, Any],
  *,
  steps: int | None = None,
  objects: Objects | None = None,
) -> Plan:
  """Makes the plan of a run that is in a folder.

  Args:
    folder: of the run.
    config: what its `config.json` holds.
    steps: iterations in all, if there are to be more.
    objects: what the run was made of, if it was made in Python.

  Returns:
    The plan.
  """
  if not config['is_by_name'] and objects is None:
    raise run_folder.RunFolderError(
      f'{folder} was made in Python, from an environment or settings that have '
      'no name: call disco_rl.evaluate(..., out=..., resume=True) with them'
    )
  request = dict(config['request'])
  if steps is not None:
    request['steps'] = steps
  factories.import_modules(request['use'])
  return Plan(request, rule_of_folder(folder, config), objects)


def rule_of_folder(
  folder: pathlib.Path, config: Mapping[str, Any]
) -> rule_lib.Rule:
  """Loads the rule that the agents of a run learn with.

  Args:
    folder: of the run.
    config: what its `config.json` holds.

  Returns:
    The rule, with its name and settings.
  """
  path = folder / run_folder.RULE_FILE
  if not path.exists():
    return rule_lib.load_rule(config['rule'])
  rule = rule_lib.load_rule(path)
  return dataclasses.replace(
    rule, name=config['rule'], settings=config['rule_settings']
  )


def save_final_params(run: run_lib.Run, state: Any) -> None:
  """Saves the final parameters of every agent, one file per seed.

  Args:
    run: with a folder.
    state: the last one.
  """
  assert run.folder is not None
  for k, seed in enumerate(run.settings.seeds):
    params = jax.tree.map(lambda x, k=k: x[k], state.learner.params)
    checkpoint.save(run.folder.params_path(seed), params)
