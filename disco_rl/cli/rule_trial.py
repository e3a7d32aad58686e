"""How good a rule is: the only honest measure is to train fresh agents."""

import pathlib

from ml_collections import config_dict
import numpy as np

from disco_rl import evaluation
from disco_rl import experiment
from disco_rl import metrics_table
from disco_rl import population as population_lib
from disco_rl import run_folder
from disco_rl import types
from disco_rl.cli import meta_train_config
from disco_rl.environments import registry


class RuleTrial:
  """Trains fresh agents with an η, in all environments chosen for that.

  The programs are compiled in the first trial and kept.
  """

  def __init__(self, settings: config_dict.ConfigDict):
    """Builds the agents.

    Args:
      settings: of the run, see `meta_train_config.py`.
    """
    self._settings = settings.eval
    self._populations = {}
    envs = meta_train_config.trial_environments(settings)
    for name, env_settings in envs.items():
      agent_settings = meta_train_config.agent_settings(settings, name)
      agent_settings.learning_rate = settings.eval.learning_rate
      self._populations[name] = population_lib.Population(
        registry.environment_fn(name, **env_settings),
        agent_settings,
        experiment.Config(**settings.eval.experiment),
        seeds=range(settings.eval.num_seeds),
      )

  def close(self) -> None:
    """Frees what environments on the host hold."""
    for population in self._populations.values():
      population.close()

  def __call__(
    self, eta: types.MetaParams
  ) -> dict[str, list[metrics_table.Row]]:
    """Runs a trial.

    Args:
      eta: the rule's parameters.

    Returns:
      Environment to one row per seed: the average return of its last 100
      iterations.
    """
    results = {}
    for name, population in self._populations.items():
      rows: list[metrics_table.Row] = []
      try:
        for _, new_rows in evaluation.train(
          population, eta, population.init(), self._settings.steps
        ):
          rows += new_rows
      except evaluation.DivergenceError as error:
        # A young rule may do that. What its agents reached until then counts.
        rows += error.rows
      results[name] = [
        dict(seed=seed, final_return=value)
        for seed, value in metrics_table.final_returns(rows).items()
      ]
    return results


def trial_path(folder: pathlib.Path, env: str) -> pathlib.Path:
  """Where a run keeps the trials in an environment."""
  return folder / f'trials_{run_folder.as_file_name(env)}.csv'


def best_score(folder: pathlib.Path, envs: list[str]) -> float:
  """The best average over environments and seeds of all trials so far.

  Args:
    folder: of the run.
    envs: its environments.

  Returns:
    The score, or minus infinity before the first trial.
  """
  scores: dict[float, list[float]] = {}
  for env in envs:
    for row in metrics_table.read_csv(trial_path(folder, env)):
      scores.setdefault(row['iteration'], []).append(row['final_return'])
  means = map(mean_score, scores.values())
  return max(filter(np.isfinite, means), default=-float('inf'))


def mean_score(returns: list[float]) -> float:
  """The average of those agents of a trial that ended an episode, or NaN."""
  known = [value for value in returns if np.isfinite(value)]
  return float(np.mean(known)) if known else float('nan')
