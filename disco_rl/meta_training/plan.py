"""Plans of meta-training: from requests, or from the folders of runs."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
from typing import Any

import jax

from disco_rl import device_choice
from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import populations
from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.meta_training import accounts
from disco_rl.meta_training import alike
from disco_rl.meta_training import best_rule
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import footprint
from disco_rl.meta_training import groups
from disco_rl.meta_training import objects as objects_lib
from disco_rl.meta_training import pictures
from disco_rl.meta_training import rule_evaluation
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training
from disco_rl.processes import runtime
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import config_entries
from disco_rl.runs import finite
from disco_rl.runs import hooks
from disco_rl.runs import metrics
from disco_rl.runs import plan as plan_lib
from disco_rl.runs import plots
from disco_rl.runs import run_folder


class Plan(plan_lib.Plan):
  """Meta-training with resolved settings, see `runs.plan.Plan`.

  Attributes:
    rule: the initial rule; None for random η.
    agent_settings: settings of the agents in the first environment.
  """

  command = 'meta-train'
  unit = 'meta-update'
  private = actors.PRIVATE

  def __init__(
    self,
    request: Mapping[str, Any],
    rule: rule_lib.Rule | None = None,
    objects: objects_lib.Objects | None = None,
  ):
    """Resolves the settings; builds nothing yet.

    Args:
      request: see `resolve.META_TRAINING`; the modules in `use` are imported.
      rule: the initial rule; None for that of the request.
      objects: Python objects that replace parts of the request.
    """
    self._objects = objects = objects or objects_lib.Objects()
    self._evaluation: rule_evaluation.RuleEvaluation | None = None
    self.request = populations.complete(
      requests.prepare(request, resolve.META_TRAINING)
    )
    if not self.request['env']:
      raise ValueError('meta-training needs at least one environment')
    if rule is None and self.request['init'] != resolve.RANDOM:
      rule = rule_lib.load_rule(self.request['init'])
    if rule is not None and rule.eta is None:
      raise ValueError(f'{rule.name} has no parameters to train')
    self.rule = rule
    layers = resolve.meta_training(
      self.request,
      rule,
      agent=objects.agent_settings,
      critic=objects.critic,
      env_objects=objects.env_fns,
    )
    self._set_config(
      layers.settings,
      layers.origins,
      needs_objects=objects.are_needed,
      init=self.request['init'],
      update_rule=layers.settings.agent.update_rule_name,
      rule_settings=dict(rule.settings) if rule else {},
    )
    # In the order of the request; that of the settings is alphabetical.
    first_env = self.request['env'][0]
    self.agent_settings = resolve.meta_agent_settings(self.settings, first_env)

  def make_trainer(self) -> trainer_lib.Trainer:
    """Builds the agents; compiles nothing yet."""
    return self._trainer_of(*self._groups())

  def _groups(self) -> tuple[list[groups.Group], int]:
    """Returns the groups of agents, and the number of rows of devices."""
    settings, objects = self.settings, self._objects
    counts = populations.agents_by_env(settings, self.request['env'])
    one_per_env = [
      groups.Group(
        objects.env_fns.get(name)
        or registry.environment_fn(name, **settings.env[name]),
        resolve.meta_agent_settings(settings, name),
        num_agents,
        optimizer=objects.agent_optimizer,
        name=name,
      )
      for name, num_agents in counts.items()
    ]
    return alike.place(
      one_per_env,
      alike.make_probes(settings.env, objects.env_fns),
      resolve.meta_config(settings),
      self._devices(),
      settings.lane_shards,
    )

  def _devices(self) -> Sequence[jax.Device]:
    if self._objects.devices is not None:
      return self._objects.devices
    return device_choice.first_devices(self.settings.devices or 1)

  def _trainer_of(
    self, all_groups: Sequence[groups.Group], lane_shards: int
  ) -> trainer_lib.Trainer:
    """Builds the agents of groups; compiles nothing yet."""
    settings, objects = self.settings, self._objects
    config = resolve.meta_config(settings)
    if objects.weights is not None:
      config = dataclasses.replace(config, weights=objects.weights)
    return trainer_lib.Trainer(
      all_groups,
      config,
      placement=parallel.Placement(
        self._devices(),
        num_lane_shards=lane_shards,
        lanes_at_once=settings.lanes_at_once,
      ),
      regularizer=objects.regularizer,
      meta_optimizer=objects.meta_optimizer,
      env_seed=settings.seed,
      overlap_acting=settings.overlap_acting,
      acting_device=device_choice.acting_device(settings.act_on),
    )

  def make_trainable(self) -> training.Training:
    """Builds the agents and their training; compiles nothing yet."""
    trainer, settings = self.make_trainer(), self.settings
    try:
      self._check_eta(trainer)
    except BaseException:
      trainer.close()
      raise
    return training.Training(
      trainer,
      settings.seed,
      settings.max_nonfinite_updates,
      self.rule.eta if self.rule else None,
      saves_replay=settings.checkpoint_replay == 'always',
    )

  def dry_run(self, flops: float | None = None) -> plan_lib.DryRun:
    """Checks a start, also of the evaluations, see `runs.plan.Plan`.

    Groups that differ by their environment on the host only are traced once.
    """
    account = self._account()
    notes = accounts.describe(account, flops)
    parts = memory.per_process(account.parts, account.num_processes)
    estimates: dict[str, memory.Estimate] = {}
    try:
      estimates['this run'] = footprint.check_parts(parts)
      with contextlib.ExitStack() as opened:
        for env, estimate in self._open_evaluation(opened).items():
          estimates[f'an evaluation in {env}'] = estimate
    except memory.NotEnoughMemoryError as error:
      return plan_lib.DryRun(estimates, notes, error)
    return plan_lib.DryRun(estimates, notes)

  def _check_eta(self, trainer: trainer_lib.Trainer) -> None:
    """Raises a `ValueError` if the initial rule is not of the right shape."""
    if self.rule is not None:
      file_format.check_like(
        self.rule.eta, trainer.eta_spec, f'the parameters of {self.rule.name}'
      )

  def _account(self) -> accounts.Account:
    """Counts what the run needs; compiles nothing."""
    all_groups, lane_shards = self._groups()
    counts = dict.fromkeys(range(len(all_groups)), 1)
    if runtime.current() is None:
      own = alike.make_probes(self.settings.env, self._objects.env_fns)
      counts = alike.count(all_groups, own)
    trainer = self._trainer_of([all_groups[i] for i in counts], lane_shards)
    with contextlib.closing(trainer):
      self._check_eta(trainer)
      return accounts.of_trainer(trainer, list(counts.values()))

  def make_hooks(
    self,
    trainable: training.Training,
    rows: list[metrics.Row],
    folder: run_folder.RunFolder,
    before_print: Callable[[], None],
  ) -> list[Any]:
    """Makes hooks that evaluate and save the rule, and draw pictures."""
    every = self.settings.checkpoint_every
    all_hooks: list[Any] = [
      hooks.Checkpoint(
        trainable, folder.state_path, every, private=self.private
      ),
      hooks.Periodic(every, lambda _, state: self.started(folder, state)),
      hooks.Pictures(every, lambda: _draw(rows, folder)),
    ]
    if self._evaluation is not None:  # Last, since it takes long.
      all_hooks.append(
        rule_evaluation.Hook(
          self._evaluation,
          self.settings,
          folder.path,
          self._save_rule,
          before_print,
        )
      )
    return all_hooks

  def describe_rows(
    self, rows: list[metrics.Row]
  ) -> tuple[str, dict[str, float]]:
    """Summarises rows for the progress bar, see `training.describe_rows`."""
    return training.describe_rows(rows)

  def fingerprints(self) -> dict[str, str]:
    """Returns a hash of the initial η, see `runs.plan.Plan`."""
    eta = self.rule.eta if self.rule else None
    return {'the parameters of the initial rule': file_format.digest(eta)}

  def prepare(
    self,
    trainable: training.Training,
    state: Any,
    opened: contextlib.ExitStack,
  ) -> None:
    """Checks that the run can be saved, and builds agents of evaluations."""
    file_format.check_savable(state.eta, 'the parameters of the rule')
    # Snapshots of the environments. The rest can always be saved.
    checkpoint.check(trainable.snapshots(state))
    self._open_evaluation(opened)

  def _open_evaluation(
    self, opened: contextlib.ExitStack
  ) -> dict[str, memory.Estimate]:
    """Builds the agents of `eval.every`, if the rule is evaluated.

    Args:
      opened: closes them.

    Returns:
      The memory of an evaluation in each environment; none in processes that
      do not write results.
    """
    if not self.settings.eval.every or not runtime.is_writer():
      return {}
    self._evaluation = rule_evaluation.RuleEvaluation(
      self.settings, self._objects.env_fns
    )
    opened.callback(self._evaluation.close)
    return self._evaluation.check_memory()

  def started(self, folder: run_folder.RunFolder, state: Any) -> None:
    """Saves the rule, so that the run can be resumed without other files."""
    finite.check(dict(eta=state.eta))
    self._save_rule(folder.rule_path, state.eta, step=int(state.step))

  def lost_by_resuming(
    self, trainable: training.Training, saved: Any
  ) -> list[str]:
    """Returns notes on environments that are reset, see `runs.plan.Plan`."""
    names = trainable.names_without_snapshots(saved)
    if not names:
      return []
    return [
      f'environments of {", ".join(names)} make no snapshots, and were reset'
    ]

  def check_resumable(self, folder: run_folder.RunFolder) -> None:
    """Raises an error if evaluations or the best rule cannot be read."""
    super().check_resumable(folder)
    for env in evaluation_tables.environments(self.config):
      evaluation_tables.read(folder.path, env)
    best_rule.check(folder.path)

  def shown_checkpoint(self, folder: run_folder.RunFolder) -> int:
    """Returns the checkpoint that rules and evaluations show."""
    # A checkpoint comes before the rule of the same meta-update, and before its
    # evaluation if it is due then.
    evaluated = [best_rule.read_step(folder.best_rule_path) or 0]
    for env in evaluation_tables.environments(self.config):
      rows, _ = evaluation_tables.read(folder.path, env)
      evaluated += [int(row['iteration']) for row in rows]
    every = self.settings.checkpoint_every
    saved = best_rule.read_step(folder.rule_path) or 0
    return max(saved, max(evaluated) // every * every)

  def missing_results(
    self, folder: run_folder.RunFolder, done: int
  ) -> list[str]:
    """Returns notes on evaluations that are missing, see `runs.plan.Plan`."""
    sizes, notes = self.settings.eval, []
    if not sizes.every:
      return []
    envs = evaluation_tables.environments(self.config)
    for env in envs:
      rows, _ = evaluation_tables.read(folder.path, env)
      missing = evaluation_tables.first_missing(
        rows, done, sizes.every, sizes.num_seeds
      )
      if missing is not None:
        path = evaluation_tables.evaluations_path(folder.path, env)
        notes.append(
          f'{path} lacks rows of {self.unit} {missing}; they were removed, and '
          'are not computed again'
        )
    if best_rule.is_of_lost_evaluation(folder.path, envs, done):
      notes.append(
        f'{folder.best_rule_path} is kept as it is, since its evaluation was '
        'removed'
      )
    return notes

  def resumed(self, folder: run_folder.RunFolder, done: int) -> None:
    """Removes evaluations after the checkpoint, and incomplete rows."""
    for env in evaluation_tables.environments(self.config):
      for path in (
        evaluation_tables.evaluations_path(folder.path, env),
        evaluation_tables.baseline_path(folder.path, env),
      ):
        folder.cut_table(path, metrics.read_csv(path), done)

  def _save_rule(
    self, path: pathlib.Path, eta: types.MetaParams, **facts: Any
  ) -> None:
    """Saves η with the settings of its agents, and metadata on its training."""
    metadata = dict(
      **facts,
      seed=self.settings.seed,
      version=self.config['version'],
      request=self.config['request'],
    )
    rule_lib.save_rule(
      path, eta, settings=self.agent_settings, metadata=metadata
    )


def plan_of_folder(
  folder: run_folder.RunFolder,
  *,
  objects: objects_lib.Objects | None = None,
  **budget: int | None,
) -> Plan:
  """Makes the plan of the run in a folder.

  Args:
    folder: folder of the run.
    objects: the Python objects of the run, if it was made from any.
    **budget: new `steps` or `env_steps` in all, see `requests.prepare`.

  Returns:
    The plan.
  """
  request = config_entries.request_of_folder(
    folder, resolve.META_TRAINING, objects is not None
  )
  request = requests.prepare(request, resolve.META_TRAINING, **budget)
  rule = None
  if request['init'] != resolve.RANDOM:
    # Saved at the start of the run, and replaced by the rule in training since.
    path = folder.rule_path
    rule = dataclasses.replace(
      # A process killed at the very start has not saved it.
      rule_lib.load_rule(path if path.exists() else request['init']),
      name=folder.config['init'],
      settings=folder.config['rule_settings'],
    )
  return Plan(request, rule, objects)


def _draw(rows: list[metrics.Row], folder: run_folder.RunFolder) -> None:
  if plots.is_available() and rows:
    for name in pictures.PICTURES:
      plots.save(pictures.draw(name, rows), folder.path / f'{name}.png')
