"""How good a rule is: fresh agents learn with it, beside a baseline.

A run of meta-training keeps, for every environment of its evaluations,

  evaluations_ENV.csv   returns of fresh agents, one row per meta-update and
                        seed; those of the initial η are at meta-update 0
  baseline_ENV.csv      the same of a hand-designed rule, trained once
"""

from collections.abc import Callable, Mapping, Sequence
import pathlib
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.config import batching as batching_lib
from disco_rl.config import networks
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.evaluation import training
from disco_rl.meta_training import pictures
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import hooks
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import run_folder
from disco_rl.runs import sinks
from disco_rl.update_rules import registry as rule_registry

# Of the larger of two returns: differences below it are taken for noise.
_LEAST_SCALE = 0.1


class RuleEvaluation:
  """Trains fresh agents with an η, in all environments chosen for that.

  The programs are compiled in the first evaluation and kept.
  """

  def __init__(self, settings: config_dict.ConfigDict):
    """Builds the agents.

    Args:
      settings: of the run, see `resolve.meta_training`.
    """
    self._settings = settings
    self._envs = dict(settings.eval.env or settings.env)
    self._populations = {}
    baseline = settings.eval.baseline
    if baseline is not None:
      known = dict.fromkeys(rule_registry.hand_designed())
      utils.lookup(known, baseline, 'baseline')
    for name in self._envs:
      agent_settings = resolve.meta_agent_settings(settings, name)
      with agent_settings.unlocked():
        # It measures agents in meta-training only.
        if not _needs_critic(agent_settings):
          del agent_settings['value_fn']
        agent_settings.learning_rate = settings.eval.learning_rate
      self._populations[name] = self._population(name, agent_settings)

  def close(self) -> None:
    """Frees what environments on the host hold."""
    for population in self._populations.values():
      population.close()

  def __call__(self, eta: types.MetaParams, env: str) -> list[metrics.Row]:
    """Trains fresh agents with a rule.

    Args:
      eta: the rule's parameters.
      env: one of the environments.

    Returns:
      One row per seed: the average return of its last iterations.
    """
    # It is on the devices of meta-training.
    return self._train(self._populations[env], jax.device_get(eta))

  def baseline(self, env: str) -> list[metrics.Row]:
    """Trains fresh agents with the hand-designed rule, for as long.

    They have the settings of `disco-rl eval` with the torso and the memory of
    the other agents.

    Args:
      env: one of the environments.

    Returns:
      The same as for an η.
    """
    network = self._settings.net[env]
    rule = rule_lib.load_rule(self._settings.eval.baseline)
    agent_settings = resolve.agent_settings(rule)
    networks.choose(agent_settings, network.name, network.net_args.get('core'))
    population = self._population(env, agent_settings)
    try:
      return self._train(population, None)
    finally:
      population.close()

  def _population(
    self, env: str, agent_settings: config_dict.ConfigDict
  ) -> population_lib.Population:
    return population_lib.Population(
      registry.environment_fn(env, **self._envs[env]),
      agent_settings,
      batching_lib.Batching(**self._settings.eval.batching),
      seeds=range(self._settings.eval.num_seeds),
    )

  def _train(
    self, population: population_lib.Population, eta: types.MetaParams | None
  ) -> list[metrics.Row]:
    rows: list[metrics.Row] = []
    trainable = training.Training(population, eta)
    # A rule in training may make agents diverge. What they reached until then
    # counts.
    loop.run(
      trainable,
      trainable.init(),
      self._settings.eval.steps,
      sinks=[sinks.Rows(rows)],
    )
    returns = metrics.average_returns(rows, metrics.LAST)
    return [dict(seed=k, final_return=value) for k, value in returns.items()]


class Hook(hooks.Periodic):
  """Evaluates the rule every so many meta-updates, and keeps the best."""

  def __init__(
    self,
    evaluation: RuleEvaluation,
    settings: config_dict.ConfigDict,
    folder: pathlib.Path,
    save_rule: Callable[..., None],
    before_print: Callable[[], None],
  ):
    """Sets the period.

    Args:
      evaluation: trains the agents.
      settings: of the run, see `resolve.meta_training`.
      folder: of the run, in which results are kept.
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
    """Trains agents with the baseline, if that was not done before."""
    for env in self._envs:
      path = baseline_path(self._folder, env)
      if self._baseline is None or metrics.read_csv(path):
        continue
      rows = self._evaluation.baseline(env)
      self._keep(path, 0, rows, f'baseline {self._baseline}', env)
    super().start(done, state)

  def close(self) -> None:
    """Frees what environments on the host hold."""
    self._evaluation.close()

  def _evaluate(self, done: int, state: Any) -> None:
    """Trains fresh agents with the rule, and keeps it if it is the best."""
    for env in self._envs:
      path = evaluations_path(self._folder, env)
      if any(row['iteration'] == done for row in metrics.read_csv(path)):
        continue  # It was done before a kill.
      rows = self._evaluation(state.eta, env)
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
    print(f'{what}: {value:.3f} in {env}', flush=True)


def _needs_critic(agent_settings: config_dict.ConfigDict) -> bool:
  rule = rule_registry.UPDATE_RULES[agent_settings.update_rule_name]
  return bool(getattr(rule, 'needs_value_out', False))


def evaluations_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Where a run keeps the returns of fresh agents in an environment."""
  return folder / f'evaluations_{run_folder.as_file_name(env)}.csv'


def baseline_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Where a run keeps those of the hand-designed rule."""
  return folder / f'baseline_{run_folder.as_file_name(env)}.csv'


def mean_return(returns: Sequence[float]) -> float:
  """The average of those agents that ended an episode; NaN if none did."""
  known = [value for value in returns if np.isfinite(value)]
  return float(np.mean(known)) if known else float('nan')


def returns_by_update(
  rows: Sequence[Mapping[str, float]],
) -> dict[int, float]:
  """The average over seeds of every evaluation, by meta-update."""
  by_update: dict[int, list[float]] = {}
  for row in rows:
    by_update.setdefault(int(row['iteration']), []).append(row['final_return'])
  return {done: mean_return(x) for done, x in sorted(by_update.items())}


def normalized_score(value: float, initial: float, baseline: float) -> float:
  """A return on a scale that environments share.

  It is `(value − initial) / scale`: 0 for the initial η and, where the baseline
  is better than that, 1 for the baseline. The scale is `|baseline − initial|`,
  but at least a tenth of the larger of the two in absolute value, so that two
  returns that happen to be near each other do not make noise look large; and 1
  where that is 0, or neither is known.

  Args:
    value: average return of fresh agents.
    initial: that with the initial η; NaN if not known.
    baseline: that with a hand-designed rule; NaN if not known.

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
  """The environments of a run's evaluations.

  Args:
    config: what the run's `config.json` holds.

  Returns:
    Their names.
  """
  request = config['request']
  return list(request.get('eval_env') or request['env'])


def read(folder: pathlib.Path, env: str) -> tuple[list[metrics.Row], float]:
  """Reads what a run keeps of its evaluations in an environment.

  Args:
    folder: of the run.
    env: the environment's name.

  Returns:
    The table of `evaluations_ENV.csv`, and the average return of the baseline,
    NaN if there is none.
  """
  baseline = metrics.read_csv(baseline_path(folder, env))
  return (
    metrics.read_csv(evaluations_path(folder, env)),
    mean_return([row['final_return'] for row in baseline]),
  )


def scores(folder: pathlib.Path, envs: Sequence[str]) -> dict[int, float]:
  """How good the rule was at every evaluation of a run, in all environments.

  Args:
    folder: of the run.
    envs: the environments of its evaluations.

  Returns:
    Meta-update to the average over environments of `normalized_score`.
    Environments in which no agent ever ended an episode do not count; where
    others did, an evaluation without any has no score.
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
