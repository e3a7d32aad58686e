"""Makes runs of meta-training from requests, and resumes them."""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any

import jax
from ml_collections import config_dict
import optax

from disco_rl import parallel
from disco_rl import types
from disco_rl.config import layers as layers_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.config import resolve
from disco_rl.environments import factories
from disco_rl.environments import registry
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import pictures
from disco_rl.meta_training import rule_evaluation
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import hooks
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import progress
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_folder

COMMAND = 'meta-train'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objects:
  """What a run is made of besides its request: objects from Python.

  Attributes:
    env_fns: name to function, of environments that the registry does not know.
    agent_settings: of all agents, instead of those that follow from rule and
      environments.
    critic: settings of the agents' critics, instead of the default.
    config: sizes and weights, instead of the settings.
    regularizer: one more term of the meta-loss, see `trainer.Trainer`.
    agent_optimizer: of the agents' parameters, see `Agent`.
    meta_optimizer: of η, see `trainer.Trainer`.
    devices: over which the work is sharded, instead of their number.
  """

  env_fns: Mapping[str, registry.EnvironmentFn] = dataclasses.field(
    default_factory=dict
  )
  agent_settings: config_dict.ConfigDict | None = None
  critic: types.ValueFnConfig | None = None
  config: config_lib.Config | None = None
  regularizer: meta_loss.Regularizer | None = None
  agent_optimizer: optax.GradientTransformation | None = None
  meta_optimizer: optax.GradientTransformation | None = None
  devices: Sequence[jax.Device] | None = None

  @property
  def are_needed(self) -> bool:
    """Whether a run cannot be made again from its request alone."""
    ignored = ('devices',)
    return any(
      getattr(self, field.name)
      for field in dataclasses.fields(self)
      if field.name not in ignored
    )


class Plan:
  """A run whose settings are known, and whose agents can be made.

  Attributes:
    request: what was asked for, see `resolve.META_TRAINING`.
    rule: the initial rule; None for random η.
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
      rule: the initial rule, instead of the name in the request.
      objects: what cannot be asked for by name.
    """
    self._objects = objects = objects or Objects()
    self.request = {**resolve.META_TRAINING, **request}
    factories.import_modules(self.request['use'])
    for name in self.request['env']:
      if name not in objects.env_fns and registry.is_on_host(name):
        raise ValueError(trainer_lib.host_environment_message(name))
    if rule is None and self.request['init'] != resolve.RANDOM:
      rule = rule_lib.load_rule(self.request['init'])
    if rule is not None and rule.eta is None:
      raise ValueError(
        f'{rule.name} is a hand-designed rule: it has no parameters to train'
      )
    self.rule = rule
    self.layers: layers_lib.Layers = resolve.meta_training(
      self.request,
      rule,
      agent=objects.agent_settings,
      critic=objects.critic,
      env_objects=objects.env_fns,
    )
    self.config = run_lib.describe_config(
      COMMAND,
      self.request,
      self.layers.settings,
      self.layers.origins,
      rule=self.request['init'],
      rule_settings=dict(rule.settings) if rule else {},
      # Whether the command can make the same run from this file.
      is_by_name=not objects.are_needed,
    )

  def make_trainer(self) -> trainer_lib.Trainer:
    """Makes the agents; compiles nothing yet."""
    settings, objects = self.layers.settings, self._objects
    groups = [
      trainer_lib.Group(
        objects.env_fns.get(name)
        or registry.environment_fn(name, **env_settings),
        resolve.meta_agent_settings(settings, name),
        settings.num_agents,
        optimizer=objects.agent_optimizer,
        name=name,
      )
      for name, env_settings in settings.env.items()
    ]
    devices = objects.devices
    if devices is None and settings.devices:
      devices = parallel.first_devices(settings.devices)
    return trainer_lib.Trainer(
      groups,
      objects.config or resolve.meta_config(settings),
      placement=parallel.Placement(
        devices,
        num_lane_shards=settings.lane_shards,
        lanes_at_once=settings.lanes_at_once,
      ),
      regularizer=objects.regularizer,
      meta_optimizer=objects.meta_optimizer,
    )

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
    trainer = self.make_trainer()
    init_rng, eta_rng, _ = training.keys(self.layers.settings.seed)
    state = trainer.init(init_rng, self.initial_eta(trainer, eta_rng))
    folder, evaluation = None, None
    if out is not None:
      evaluation = self.make_evaluation()  # Before an old run is removed.
      folder = run_folder.RunFolder.create(out, self.config, overwrite)
    run = self._run(trainer, state, [], folder, evaluation, show_progress)
    if folder is not None:
      # A run can be resumed without any other file.
      self._save_rule(folder, state)
    return run

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
    trainer = self.make_trainer()
    init_rng, eta_rng, _ = training.keys(settings.seed)
    make = lambda eta: trainer.init(init_rng, eta)
    if folder.state_path.exists():
      like = jax.eval_shape(lambda: make(trainer.init_params(eta_rng)))
      state = trainer.from_checkpoint(checkpoint.load(folder.state_path, like))
    else:
      state = make(self.initial_eta(trainer, eta_rng))
    done = int(state.step)
    if done > settings.steps:
      raise ValueError(
        f'{folder.path} is at meta-update {done} already, after '
        f'{settings.steps}'
      )
    folder.write_config(self.config)
    rows = folder.cut_metrics(done)
    for env in rule_evaluation.environments(self.config):
      path = rule_evaluation.evaluations_path(folder.path, env)
      folder.cut_table(path, done)
    return self._run(
      trainer, state, rows, folder, self.make_evaluation(), show_progress
    )

  def make_evaluation(self) -> rule_evaluation.RuleEvaluation | None:
    """Makes the agents of evaluations on the way, if there are to be any."""
    if not self.layers.settings.eval.every:
      return None
    return rule_evaluation.RuleEvaluation(self.layers.settings)

  def initial_eta(
    self, trainer: trainer_lib.Trainer, rng: Any
  ) -> types.MetaParams:
    """Returns η of the initial rule, or draws it at random."""
    if self.rule is None:
      return trainer.init_params(rng)
    file_format.check_like(
      self.rule.eta, trainer.eta_spec, f'the parameters of {self.rule.name}'
    )
    return self.rule.eta

  def agent_settings(self) -> config_dict.ConfigDict:
    """Returns the settings of the agents in the first environment."""
    settings = self.layers.settings
    return resolve.meta_agent_settings(settings, next(iter(settings.env)))

  def _run(
    self,
    trainer: trainer_lib.Trainer,
    state: trainer_lib.TrainState,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder | None,
    evaluation: rule_evaluation.RuleEvaluation | None,
    show_progress: bool,
  ) -> run_lib.Run:
    settings = self.layers.settings
    trainable = training.Training(
      trainer, settings.seed, settings.max_nonfinite_updates
    )
    bar = progress.Progress(
      settings.steps, int(state.step), enabled=show_progress
    )
    all_hooks: list[Any] = []
    if folder is not None:
      if evaluation is not None:
        all_hooks.append(
          rule_evaluation.Hook(
            evaluation,
            settings,
            folder.path,
            lambda path, eta, **facts: self._save_rule(
              folder, eta=eta, path=path, **facts
            ),
            before_print=bar.close,
          )
        )
      every = settings.checkpoint_every
      all_hooks += [
        hooks.Checkpoint(trainable, folder.state_path, every),
        hooks.Periodic(every, lambda _, state: self._save_rule(folder, state)),
        hooks.Periodic(every, lambda *_: _draw(rows, folder)),
      ]
    return run_lib.Run(
      trainable=trainable,
      state=state,
      total=settings.steps,
      settings=settings,
      rows=rows,
      folder=folder,
      bar=bar,
      describe=training.describe_rows,
      hooks=all_hooks,
    )

  def _save_rule(
    self,
    folder: run_folder.RunFolder,
    state: trainer_lib.TrainState | None = None,
    **facts: Any,
  ) -> None:
    """Saves η with the settings of its agents and how it was trained."""
    path = facts.pop('path', folder.rule_path)
    eta = facts.pop('eta', None)
    if state is not None:
      eta, facts = state.eta, dict(step=int(state.step))
    metadata = dict(
      **facts,
      seed=self.layers.settings.seed,
      version=self.config['version'],
      request=self.config['request'],
    )
    settings = self.agent_settings()
    rule_lib.save_rule(path, eta, settings=settings, metadata=metadata)


def plan_of_folder(
  folder: run_folder.RunFolder,
  *,
  steps: int | None = None,
  objects: Objects | None = None,
) -> Plan:
  """Makes the plan of a run that is in a folder.

  Args:
    folder: of the run.
    steps: meta-updates in all, if there are to be more.
    objects: what the run was made of, if it was made in Python.

  Returns:
    The plan.
  """
  config = folder.config
  if not config['is_by_name'] and objects is None:
    raise run_folder.RunFolderError(
      f'{folder.path} was made in Python, from objects that have no name: call '
      'disco_rl.meta_train(..., out=..., resume=True) with them'
    )
  request = dict(config['request'])
  if steps is not None:
    request['steps'] = steps
  rule = None
  if request['init'] != resolve.RANDOM:
    # It was saved when the run began, and has been trained since.
    factories.import_modules(request['use'])
    rule = dataclasses.replace(
      rule_lib.load_rule(folder.rule_path),
      name=config['rule'],
      settings=config['rule_settings'],
    )
  return Plan(request, rule, objects)


def _draw(rows: list[metrics.Row], folder: run_folder.RunFolder) -> None:
  if plots.is_available() and rows:
    for name in pictures.PICTURES:
      plots.save(pictures.draw(name, rows), folder.path / f'{name}.png')
