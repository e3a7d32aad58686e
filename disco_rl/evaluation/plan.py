"""Plans of evaluations: from requests, or from the folders of runs."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import device_choice
from disco_rl.config import batching as batching_lib
from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.environments import showing
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.learning import actors
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import config_entries
from disco_rl.runs import hooks
from disco_rl.runs import metrics
from disco_rl.runs import plan as plan_lib
from disco_rl.runs import plots
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder
from disco_rl.runs import sharded_checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objects:
  """Python objects that replace parts of a request; None for no replacement.

  Attributes:
    env_fn: makes the environment, instead of the name in the request.
    agent_settings: settings of the agents, instead of those of the rule.
    devices: devices over which the batch is sharded, instead of their number.
  """

  env_fn: registry.EnvironmentFn | None = None
  agent_settings: config_dict.ConfigDict | None = None
  devices: Sequence[jax.Device] | None = None


class Plan(plan_lib.Plan):
  """An evaluation with resolved settings, see `runs.plan.Plan`.

  Attributes:
    rule: the rule.
  """

  command = 'eval'
  unit = 'iteration'
  private = actors.PRIVATE

  def __init__(
    self,
    request: Mapping[str, Any],
    rule: rule_lib.Rule | None = None,
    objects: Objects | None = None,
  ):
    """Resolves the settings; builds nothing yet.

    Args:
      request: see `resolve.EVALUATION`; the modules in `use` are imported.
      rule: the rule; None to load the one in the request.
      objects: Python objects that replace parts of the request.
    """
    self._objects = objects or Objects()
    self.request = requests.prepare(request, resolve.EVALUATION)
    has_env_name = self._objects.env_fn is None
    if has_env_name:  # A wrong name is reported before anything is downloaded.
      registry.default_settings(self.request['env'])
    self.rule = rule or rule_lib.load_rule(self.request['rule'])
    agent_settings = self._objects.agent_settings
    if agent_settings and agent_settings.update_rule_name != self.rule.kind:
      raise ValueError(
        f'the rule {self.rule.name} is of the kind {self.rule.kind}, but the '
        f'agent settings are for {agent_settings.update_rule_name}'
      )
    layers = resolve.evaluation(
      self.request,
      self.rule,
      agent=agent_settings,
      has_env_name=has_env_name,
    )
    self._set_config(
      layers.settings,
      layers.origins,
      needs_objects=not has_env_name or agent_settings is not None,
      rule=self.rule.name,
      update_rule=self.rule.kind,
      rule_settings=dict(self.rule.settings),
    )

  def make_trainable(self) -> training.Training:
    """Builds the agents; compiles nothing yet."""
    settings = self.settings
    env_fn = self._objects.env_fn or registry.environment_fn(
      self.request['env'], **settings.env
    )
    devices = self._objects.devices
    number = settings.devices or device_choice.default_number(0)
    if devices is None and number:
      devices = device_choice.first_devices(number)
    population = population_lib.Population(
      env_fn,
      settings.agent,
      batching_lib.from_settings(settings.batching, 'batching'),
      seeds=settings.seeds,
      devices=devices,
      lanes_at_once=settings.lanes_at_once,
      overlap_acting=settings.overlap_acting,
    )
    self.config['num_devices'] = len(population.placement.devices)
    try:
      training.check_rule_params(
        population.agent.update_rule,
        self.rule.eta,
        f'the parameters of {self.rule.name}',
      )
      return training.Training(
        population,
        self.rule.eta,
        min(settings.chunk_size, settings.steps),  # A shorter run is one chunk.
        saves_replay=settings.checkpoint_replay == 'always',
      )
    except BaseException:
      population.close()
      raise

  def make_hooks(
    self,
    trainable: training.Training,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder,
    before_print: Callable[[], None],
  ) -> list[Any]:
    """Makes hooks that save checkpoints and draw the learning curve."""
    del before_print
    every = self.settings.checkpoint_every
    return [
      hooks.Checkpoint(
        trainable, folder.state_path, every, private=self.private
      ),
      hooks.Pictures(every, lambda: self._draw(rows, folder.curve_path)),
    ]

  def describe_rows(
    self, rows: list[metrics.Row]
  ) -> tuple[str, dict[str, float]]:
    """Summarises rows for the progress bar, see `training.describe_rows`."""
    return training.describe_rows(rows)

  def prepare(
    self,
    trainable: training.Training,
    state: Any,
    opened: contextlib.ExitStack,
  ) -> None:
    """Checks that snapshots of the environments can be saved."""
    del opened
    # The rest of the state is large, and can always be saved.
    actor = trainable.to_checkpoint(state).actor
    is_shared = sharded_checkpoint.is_shared
    checkpoint.check(jax.tree.map(lambda x: None if is_shared(x) else x, actor))

  def started(self, folder: run_folder.RunFolder, state: Any) -> None:
    """Saves the rule, so that the run can be resumed without other files."""
    del state
    if self.rule.eta:
      rule_lib.save_rule(
        folder.rule_path, self.rule, metadata=dict(rule=self.rule.name)
      )

  def check_resumable(self, folder: run_folder.RunFolder) -> None:
    """Raises a `ValueError` if the run was made with another rule."""
    super().check_resumable(folder)
    if self.rule.eta and folder.rule_path.exists():
      saved = file_format.load(folder.rule_path)
      same = jax.tree.map(np.array_equal, saved, dict(self.rule.eta))
      if not all(jax.tree.leaves(same)):
        raise ValueError(
          f'{folder.path} was made with other parameters of {self.rule.name}'
        )

  def fingerprints(self) -> dict[str, str]:
    """Returns a hash of η, see `runs.plan.Plan`."""
    return {'the parameters of the rule': file_format.digest(self.rule.eta)}

  def check_built(
    self, folder: run_folder.RunFolder, trainable: training.Training
  ) -> None:
    """Raises a `ValueError` if the replay is sharded over other devices."""
    before = folder.config.get('num_devices')
    now = self.config['num_devices']
    # Each device has the oldest trajectories of its own shard.
    if before != now and not trainable.population.batching.on_policy:
      raise ValueError(
        f'{folder.path} has a replay that is sharded over {before} devices, '
        f'and here it would be {now}: resume it with {before}'
      )

  def resumed(self, folder: run_folder.RunFolder, done: int) -> None:
    """Removes the final parameters of a run that is continued."""
    if done < self.settings.steps:
      folder.remove_params()

  def _draw(self, rows: list[metrics.Row], path: pathlib.Path) -> None:
    if plots.is_available() and rows:
      env = str(self.request['env'])
      figure = plots.learning_curves(
        {self.rule.name: rows},
        title=f'Learning curves of {self.rule.name} on {env}',
        limits=showing.return_range(env),
      )
      plots.save(figure, path)


def plan_of_folder(
  folder: run_folder.RunFolder,
  *,
  steps: int | None = None,
  objects: Objects | None = None,
) -> Plan:
  """Makes the plan of the run in a folder.

  Args:
    folder: folder of the run.
    steps: new number of iterations in all; None for that of the run.
    objects: the Python objects of the run, if it was made from any.

  Returns:
    The plan.
  """
  request = config_entries.request_of_folder(
    folder, resolve.EVALUATION, objects is not None
  )
  request = requests.prepare(request, resolve.EVALUATION, steps=steps)
  return Plan(request, _rule_of_folder(folder, request['rule']), objects)


def _rule_of_folder(
  folder: run_folder.RunFolder, requested: str
) -> rule_lib.Rule:
  """Loads the rule that the agents of a run learn with."""
  config = folder.config
  if not folder.rule_path.exists():
    # It has no parameters, or a process killed at the very start has not saved
    # it. `check_resumable` compares its name.
    return rule_lib.load_rule(requested)
  return dataclasses.replace(
    rule_lib.load_rule(folder.rule_path),
    name=config['rule'],
    settings=config['rule_settings'],
  )


def save_final_params(run: run_lib.Run, state: Any) -> None:
  """Saves the final parameters of every agent, one file per seed.

  Args:
    run: a run with a folder, to which only one of its processes writes.
    state: its last state.
  """
  assert run.folder is not None
  assert isinstance(run.trainable, training.Training)
  if not run.folder.is_writable:
    return
  placement = run.trainable.population.placement
  all_params = placement.own(state.learner.params)
  for k, seed in enumerate(run.settings.seeds):
    params = jax.tree.map(lambda x, k=k: x[k], all_params)
    checkpoint.save(run.folder.params_path(seed), params)
