"""Evaluates a rule in meta-training: trains fresh agents with it."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import pathlib
from typing import Any

import jax
from ml_collections import config_dict

from disco_rl import memory
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.config import networks
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.meta_training import best_rule
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import pictures
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import console
from disco_rl.runs import hooks
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import run_files
from disco_rl.runs import sinks
from disco_rl.update_rules import registry as rule_registry

# Iterations per compiled program.
_CHUNK_SIZE = 20


class RuleEvaluation:
  """Trains fresh agents with a rule, in the environments of evaluations.

  Programs are compiled in the first evaluation and reused.
  """

  def __init__(
    self,
    settings: config_dict.ConfigDict,
    env_fns: Mapping[str, registry.EnvironmentFn] | None = None,
  ):
    """Builds the agents.

    Args:
      settings: settings of the run, see `resolve.meta_training`.
      env_fns: environments that are not in the registry, by name.
    """
    self._settings = settings
    self._env_fns = env_fns or {}
    self._envs = dict(settings.eval.env or settings.env)
    self._check_baseline()
    self._populations: dict[str, population_lib.Population] = {}
    try:
      for name in self._envs:
        agent_settings = resolve.meta_agent_settings(settings, name)
        with agent_settings.unlocked():
          # Rules that do not need a critic have one in meta-training only.
          if not _needs_critic(agent_settings):
            del agent_settings['value_fn']
          agent_settings.learning_rate = settings.eval.learning_rate
        self._populations[name] = self._population(name, agent_settings)
    except BaseException:
      self.close()  # Environments on the host may have processes.
      raise

  def check_memory(self) -> dict[str, memory.Estimate]:
    """Raises a `ValueError` if there is not enough memory for an evaluation.

    Returns:
      Name of each environment to the estimate of the larger of its evaluations,
      with the rule or with the baseline.
    """
    estimates = {}
    num_iterations = min(_CHUNK_SIZE, self._settings.eval.steps)
    for env, population in self._populations.items():
      eta = training.params_spec(population.agent.update_rule)
      with _naming(env):
        estimates[env] = population.check_memory(eta, num_iterations)
      if self._settings.eval.baseline is not None:
        with contextlib.closing(self._baseline_population(env)) as baseline:
          with _naming(env):
            other = baseline.check_memory({}, num_iterations)
        estimates[env] = max(estimates[env], other, key=lambda x: x.needed)
    return estimates

  def close(self) -> None:
    """Closes environments on the host."""
    for population in self._populations.values():
      population.close()

  def __call__(
    self, eta: types.MetaParams, env: str
  ) -> list[metrics.Row] | None:
    """Trains fresh agents with a rule.

    Args:
      eta: the rule's parameters η.
      env: name of an environment.

    Returns:
      One row per seed, with the average return of its last iterations; None if
      the run is interrupted.
    """
    # η is on the devices of meta-training.
    return self._train(self._populations[env], jax.device_get(eta))

  def baseline(self, env: str) -> list[metrics.Row] | None:
    """Trains fresh agents with the baseline, for as many iterations.

    They have the settings of `disco-rl eval`, with the torso and the core of
    the other agents.

    Args:
      env: name of an environment.

    Returns:
      One row per seed, or None, as in `__call__`.
    """
    with contextlib.closing(self._baseline_population(env)) as population:
      return self._train(population, None)

  def _baseline_population(self, env: str) -> population_lib.Population:
    network = self._settings.net[env]
    rule = rule_lib.load_rule(self._settings.eval.baseline)
    agent_settings = resolve.agent_settings(rule)
    networks.choose(agent_settings, network.name, network.net_args.get('core'))
    return self._population(env, agent_settings)

  def _check_baseline(self) -> None:
    """Raises a `ValueError` for a baseline that would have to be trained."""
    name = self._settings.eval.baseline
    if name is None:
      return
    population = self._baseline_population(next(iter(self._envs)))
    population.close()
    if jax.tree.leaves(training.params_spec(population.agent.update_rule)):
      raise ValueError(
        f'eval.baseline must be a rule without parameters, but {name} has some'
      )

  def _population(
    self, env: str, agent_settings: config_dict.ConfigDict
  ) -> population_lib.Population:
    env_fn = self._env_fns.get(env)
    sizes = self._settings.eval.batching
    with _naming(env):
      return population_lib.Population(
        env_fn or registry.environment_fn(env, **self._envs[env]),
        agent_settings,
        batching_lib.from_settings(sizes, 'eval.batching'),
        seeds=range(self._settings.eval.num_seeds),
      )

  def _train(
    self, population: population_lib.Population, eta: types.MetaParams | None
  ) -> list[metrics.Row] | None:
    rows: list[metrics.Row] = []
    steps = self._settings.eval.steps
    trainable = training.Training(population, eta, min(_CHUNK_SIZE, steps))
    # With a rule in training, agents may diverge; earlier returns count.
    outcome = loop.run(
      trainable,
      trainable.init(),
      steps,
      sinks=[sinks.Rows(rows)],
      should_stop=interrupts.is_requested,
    )
    if outcome.reason is loop.Reason.INTERRUPTED:
      return None
    returns = metrics.average_returns(rows, metrics.LAST)
    return [dict(seed=k, final_return=value) for k, value in returns.items()]


@contextlib.contextmanager
def _naming(env: str) -> Iterator[None]:
  """Names the environment in the error of an evaluation without memory."""
  try:
    yield
  except memory.NotEnoughMemoryError as error:
    raise memory.NotEnoughMemoryError(
      f'an evaluation of the rule in {env}, whose settings begin with eval, '
      f'does not fit: {error}'
    ) from error


class Hook(hooks.Periodic):
  """Evaluates the rule periodically, and saves the best one so far."""

  def __init__(
    self,
    evaluation: RuleEvaluation,
    settings: config_dict.ConfigDict,
    folder: pathlib.Path,
    save_rule: Callable[..., None],
    before_print: Callable[[], None],
  ):
    """Initialises the hook.

    Args:
      evaluation: the evaluation.
      settings: settings of the run, see `resolve.meta_training`.
      folder: folder of the run, to which results are written.
      save_rule: called with a path, η, and `step` and `score` as keywords.
      before_print: called before a line is printed.
    """
    super().__init__(
      settings.eval.every, self._evaluate, at_start=True, at_end=False
    )
    self._evaluation = evaluation
    self._envs = list(settings.eval.env or settings.env)
    self._baseline = settings.eval.baseline
    self._folder = folder
    self._save_rule = save_rule
    self._before_print = before_print
    self._draw = hooks.Drawing(self._draw_evaluations)

  def start(self, done: int, state: Any) -> None:
    """Evaluates the baseline, unless its results exist."""
    for env in self._envs:
      path = evaluation_tables.baseline_path(self._folder, env)
      if self._baseline is None or metrics.read_csv(path):
        continue
      rows = self._evaluation.baseline(env)
      if rows is None:
        return  # Interrupted; a resumed run evaluates it.
      self._keep(path, 0, rows, f'baseline {self._baseline}', env)
    super().start(done, state)
    if done and done % self._every == 0:
      # The run may have stopped during this evaluation; completes it.
      self._evaluate(done, state)

  def _evaluate(self, done: int, state: Any) -> None:
    """Trains fresh agents with the rule, and saves it if it is the best."""
    for env in self._envs:
      path = evaluation_tables.evaluations_path(self._folder, env)
      if any(row['iteration'] == done for row in metrics.read_csv(path)):
        continue  # Evaluated before the run was killed.
      rows = self._evaluation(state.eta, env)
      if rows is None:
        return
      self._keep(path, done, rows, f'meta-update {done}, fresh agents', env)
    all_scores = evaluation_tables.scores(self._folder, self._envs)
    score = all_scores.pop(done, -float('inf'))
    is_best = score > max(all_scores.values(), default=-float('inf'))
    if is_best and not best_rule.is_of_lost_evaluation(
      self._folder, self._envs, done
    ):
      path = self._folder / run_files.BEST_RULE_FILE
      self._save_rule(path, state.eta, step=done, score=score)
    if plots.is_available():
      self._draw()

  def _draw_evaluations(self) -> None:
    tables = {
      env: evaluation_tables.read(self._folder, env) for env in self._envs
    }
    figure = pictures.draw_evaluations(
      {env: rows for env, (rows, _) in tables.items()},
      {env: value for env, (_, value) in tables.items() if value == value},
      str(self._baseline),
    )
    plots.save(figure, self._folder / f'{pictures.EVALUATIONS}.png')

  def _keep(
    self,
    path: pathlib.Path,
    done: int,
    rows: list[metrics.Row],
    what: str,
    env: str,
  ) -> None:
    """Appends rows to a table, and prints their average."""
    metrics.append_csv(path, [dict(iteration=done, **row) for row in rows])
    value = evaluation_tables.mean_return([row['final_return'] for row in rows])
    self._before_print()
    console.say(f'{what}: {value:.3f} in {env}')


def _needs_critic(agent_settings: config_dict.ConfigDict) -> bool:
  rule = rule_registry.UPDATE_RULES[agent_settings.update_rule_name]
  return bool(getattr(rule, 'needs_value_out', False))
