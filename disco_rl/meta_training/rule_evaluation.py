"""Evaluates a rule in meta-training: trains fresh agents with it.

For every environment of its evaluations, a run of meta-training writes

  evaluations_ENV.csv   returns of fresh agents, one row per evaluation and
                        seed; those of the initial η are at meta-update 0
  baseline_ENV.csv      the same for a hand-designed rule, evaluated once
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import pathlib
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import memory
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.config import networks
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.meta_training import pictures
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import console
from disco_rl.runs import hooks
from disco_rl.runs import interrupts
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import reading
from disco_rl.runs import run_folder
from disco_rl.runs import sinks
from disco_rl.update_rules import registry as rule_registry

# Fraction of the larger of two returns below which differences are noise.
_LEAST_SCALE = 0.1

# Iterations per compiled program.
_CHUNK_SIZE = 20


class BaselineError(RuntimeError):
  """Raised if agents cannot be trained with the baseline of evaluations.

  Attributes:
    is_user_facing: see `runs.files.StorageError`.
  """

  is_user_facing = True


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
    self._populations = {}
    for name in self._envs:
      agent_settings = resolve.meta_agent_settings(settings, name)
      with agent_settings.unlocked():
        # Rules that do not need a critic have one in meta-training only.
        if not _needs_critic(agent_settings):
          del agent_settings['value_fn']
        agent_settings.learning_rate = settings.eval.learning_rate
      self._populations[name] = self._population(name, agent_settings)

  def check_memory(self) -> None:
    """Raises a `ValueError` if there is not enough memory for an evaluation."""
    num_iterations = min(_CHUNK_SIZE, self._settings.eval.steps)
    for env, population in self._populations.items():
      eta = training.params_spec(population.agent.update_rule)
      with _naming(env):
        population.check_memory(eta, num_iterations)
      if self._settings.eval.baseline is not None:
        with contextlib.closing(self._baseline_population(env)) as baseline:
          with _naming(env):
            baseline.check_memory({}, num_iterations)

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

    Raises:
      BaselineError: if the agents cannot be built.
    """
    with contextlib.closing(self._baseline_population(env)) as population:
      return self._train(population, None)

  def _baseline_population(self, env: str) -> population_lib.Population:
    network = self._settings.net[env]
    rule = rule_lib.load_rule(self._settings.eval.baseline)
    agent_settings = resolve.agent_settings(rule)
    networks.choose(agent_settings, network.name, network.net_args.get('core'))
    try:
      return self._population(env, agent_settings)
    except ValueError as error:
      raise BaselineError(
        f'cannot train agents with the baseline {rule.name} in {env}: {error}'
      ) from error

  def _check_baseline(self) -> None:
    """Raises a `ValueError` for a baseline that would have to be trained."""
    name = self._settings.eval.baseline
    if name is None:
      return
    population = self._baseline_population(next(iter(self._envs)))
    population.close()
    if jax.tree.leaves(training.params_spec(population.agent.update_rule)):
      raise BaselineError(
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
  """Says that it is evaluations which do not fit into memory."""
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

  def start(self, done: int, state: Any) -> None:
    """Evaluates the baseline, unless its results exist."""
    for env in self._envs:
      path = baseline_path(self._folder, env)
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

  def close(self) -> None:
    """Closes environments on the host."""
    self._evaluation.close()

  def _evaluate(self, done: int, state: Any) -> None:
    """Trains fresh agents with the rule, and saves it if it is the best."""
    for env in self._envs:
      path = evaluations_path(self._folder, env)
      if any(row['iteration'] == done for row in metrics.read_csv(path)):
        continue  # Evaluated before the run was killed.
      rows = self._evaluation(state.eta, env)
      if rows is None:
        return
      self._keep(path, done, rows, f'meta-update {done}, fresh agents', env)
    all_scores = scores(self._folder, self._envs)
    score = all_scores.pop(done, -float('inf'))
    if score > max(all_scores.values(), default=-float('inf')):
      path = self._folder / run_folder.BEST_RULE_FILE
      self._save_rule(path, state.eta, step=done, score=score)
    if plots.is_available():
      tables = {env: read(self._folder, env) for env in self._envs}
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
    value = mean_return([row['final_return'] for row in rows])
    self._before_print()
    console.say(f'{what}: {value:.3f} in {env}')


def _needs_critic(agent_settings: config_dict.ConfigDict) -> bool:
  rule = rule_registry.UPDATE_RULES[agent_settings.update_rule_name]
  return bool(getattr(rule, 'needs_value_out', False))


def evaluations_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Returns the path of a run's evaluations in an environment."""
  return folder / f'evaluations_{run_folder.as_file_name(env)}.csv'


def baseline_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Returns the path of a run's baseline in an environment."""
  return folder / f'baseline_{run_folder.as_file_name(env)}.csv'


def mean_return(returns: Sequence[float]) -> float:
  """Averages returns, without those that are NaN; NaN if all are."""
  known = [value for value in returns if np.isfinite(value)]
  return float(np.mean(known)) if known else float('nan')


def returns_by_update(
  rows: Sequence[Mapping[str, float]],
) -> dict[int, float]:
  """Averages every evaluation over seeds; returns meta-update to average."""
  by_update: dict[int, list[float]] = {}
  for row in rows:
    by_update.setdefault(int(row['iteration']), []).append(row['final_return'])
  return {done: mean_return(x) for done, x in sorted(by_update.items())}


def normalized_score(value: float, initial: float, baseline: float) -> float:
  """Normalises a return, to compare environments.

  The score is `(value − initial) / scale`: 0 for the initial η, and 1 for a
  baseline that is better. The scale is `|baseline − initial|`, but at least a
  tenth of the larger of the two in absolute value, so that noise is not
  amplified if they are close; and 1 if that is 0. If only one of the two is
  known, it takes the place of both; if neither is, the score is the value.

  Args:
    value: average return of fresh agents.
    initial: average return with the initial η; NaN if not known.
    baseline: average return with the baseline; NaN if not known.

  Returns:
    The score; NaN if the value is.
  """
  known = [x for x in (initial, baseline) if np.isfinite(x)]
  if not known:
    return value
  distance = abs(known[-1] - known[0])
  scale = max(distance, _LEAST_SCALE * max(map(abs, known)))
  return (value - known[0]) / (scale or 1.0)


def environments(config: Mapping[str, Any]) -> list[str]:
  """Returns the environments of a run's evaluations.

  Args:
    config: contents of the run's `config.json`.

  Returns:
    Their names.
  """
  request = config['request']
  return list(request.get('eval_env') or request['env'])


def read(folder: pathlib.Path, env: str) -> tuple[list[metrics.Row], float]:
  """Reads the evaluations of a run in an environment.

  Args:
    folder: folder of the run.
    env: the environment's name.

  Returns:
    The table of `evaluations_ENV.csv`, and the average return of the baseline,
    NaN if there is none.

  Raises:
    UnreadableFileError: if a file is not such a table.
  """
  tables = []
  for path in (evaluations_path(folder, env), baseline_path(folder, env)):
    tables.append(metrics.read_csv(path))
    if tables[-1] and 'final_return' not in tables[-1][0]:
      raise reading.UnreadableFileError(f'{path} has no column final_return')
  rows, baseline = tables
  return rows, mean_return([row['final_return'] for row in baseline])


def scores(folder: pathlib.Path, envs: Sequence[str]) -> dict[int, float]:
  """Computes the score of the rule at every evaluation of a run.

  Args:
    folder: folder of the run.
    envs: the environments of its evaluations.

  Returns:
    Meta-update to the average of `normalized_score` over environments.
    Environments in which no agent ever ended an episode are left out; an
    evaluation that has no return in another environment has no score.
  """
  tables = []
  for env in envs:
    rows, baseline = read(folder, env)
    values = returns_by_update(rows)
    if not np.isfinite([*values.values(), baseline]).any():
      continue
    initial = values.get(0, float('nan'))
    tables.append(
      {
        done: normalized_score(value, initial, baseline)
        for done, value in values.items()
      }
    )
  if not tables:
    return {}
  complete = set.intersection(*map(set, tables))
  means = {
    done: float(np.mean([table[done] for table in tables]))
    for done in sorted(complete)
  }
  return {done: mean for done, mean in means.items() if np.isfinite(mean)}
