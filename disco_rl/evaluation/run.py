"""Makes runs of evaluation from requests, and resumes them."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import pathlib
from typing import Any

import jax
from ml_collections import config_dict

from disco_rl import parallel
from disco_rl.config import batching as batching_lib
from disco_rl.config import resolve
from disco_rl.environments import factories
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import hooks
from disco_rl.runs import metrics
from disco_rl.runs import plan as plan_lib
from disco_rl.runs import plots
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder


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


class Plan(plan_lib.Plan):
  """An evaluation whose settings are known, see `runs.plan.Plan`.

  Attributes:
    rule: the rule.
  """

  command = 'eval'
  unit = 'iteration'

  def __init__(
    self,
    request: Mapping[str, Any],
    rule: rule_lib.Rule | None = None,
    objects: Objects | None = None,
  ):
    """Resolves the settings; makes nothing yet.

    Args:
      request: see `resolve.EVALUATION`; modules of `use` are imported.
      rule: the rule, instead of the name in the request.
      objects: what has no name.
    """
    self._objects = objects or Objects()
    self.request = {**resolve.EVALUATION, **request}
    factories.import_modules(self.request['use'])
    has_env_name = self._objects.env_fn is None
    if has_env_name:  # A wrong name is reported before anything is downloaded.
      registry.default_settings(self.request['env'])
    self.rule = rule or rule_lib.load_rule(self.request['rule'])
    layers = resolve.evaluation(
      self.request,
      self.rule,
      agent=self._objects.agent_settings,
      has_env_name=has_env_name,
    )
    self.settings = layers.settings
    self.config = run_lib.describe_config(
      self.command,
      self.request,
      layers.settings,
      layers.origins,
      rule=self.rule.name,
      update_rule=self.rule.kind,
      rule_settings=dict(self.rule.settings),
      # Whether the command can make the same run from this file.
      is_by_name=has_env_name and self._objects.agent_settings is None,
    )

  def make_trainable(self) -> training.Training:
    """Makes the agents; compiles nothing yet."""
    settings = self.settings
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
      hooks.Checkpoint(trainable, folder.state_path, every),
      hooks.Periodic(every, lambda *_: self._draw(rows, folder.curve_path)),
    ]

  def describe_rows(
    self, rows: list[metrics.Row]
  ) -> tuple[str, dict[str, float]]:
    """Says what a progress bar shows, see `training.describe_rows`."""
    return training.describe_rows(rows)

  def check(self, trainable: training.Training, state: Any) -> None:
    """Refuses environments whose snapshots cannot be saved."""
    # The rest of the state is large, and always fit.
    checkpoint.check(trainable.to_checkpoint(state).actor)

  def started(self, folder: run_folder.RunFolder, state: Any) -> None:
    """Saves the rule, so that the run can be resumed without other files."""
    del state
    if self.rule.eta:
      rule_lib.save_rule(
        folder.rule_path, self.rule, metadata=dict(rule=self.rule.name)
      )

  def _draw(self, rows: list[metrics.Row], path: pathlib.Path) -> None:
    if plots.is_available() and rows:
      figure = plots.learning_curves(
        {self.rule.name: rows}, title=str(self.request['env'])
      )
      plots.save(figure, path)


def plan_of_folder(
  folder: run_folder.RunFolder,
  *,
  steps: int | None = None,
  objects: Objects | None = None,
) -> Plan:
  """Makes the plan of a run that is in a folder.

  Args:
    folder: of the run.
    steps: iterations in all, if there are to be more.
    objects: what the run was made of, if it was made in Python.

  Returns:
    The plan.
  """
  request = plan_lib.request_of_folder(folder, steps, objects is not None)
  factories.import_modules(request['use'])
  return Plan(request, _rule_of_folder(folder), objects)


def _rule_of_folder(folder: run_folder.RunFolder) -> rule_lib.Rule:
  """Loads the rule that the agents of a run learn with."""
  config = folder.config
  if not folder.rule_path.exists():
    return rule_lib.load_rule(config['rule'])
  return dataclasses.replace(
    rule_lib.load_rule(folder.rule_path),
    name=config['rule'],
    settings=config['rule_settings'],
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
