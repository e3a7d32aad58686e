"""Meta-evaluation: fresh agents are trained by a rule that stays as it is.

  result = evaluation.evaluate('catch', rule_params.load('disco_103'))
  print(metrics_table.final_returns(result.rows))

The defaults are the published setting on Catch: 1000 iterations of rollouts of
29 steps, learning rate 1e-2.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import experiment
from disco_rl import metrics_table
from disco_rl import network_settings
from disco_rl import population as population_lib
from disco_rl import progress
from disco_rl import rule_params
from disco_rl import settings as settings_lib
from disco_rl import types
from disco_rl.environments import registry

DEFAULT_ITERATIONS = 1000
DEFAULT_CHUNK_SIZE = 20

# What differs from the agents' own settings: tuned on Catch, and nothing else.
_LEARNING_RATES = {
  'disco': 1e-2,
  'actor_critic': 1e-2,
  'policy_gradient': 1e-3,
}


class Evaluation(NamedTuple):
  """What is left of an experiment."""

  state: experiment.ExperimentState  # Leaves [K, ...] for K seeds.
  rows: list[metrics_table.Row]


class DivergenceError(ArithmeticError):
  """An agent computed something that is not finite; its learning stopped.

  Attributes:
    state: of all agents, each with the last finite learner.
    rows: what was measured in the chunk that went wrong.
    iteration: the one that would have made it not finite, from 1.
    seed: which agent.
    culprit: the first quantity that is not finite.
  """

  def __init__(
    self,
    state: experiment.ExperimentState,
    rows: list[metrics_table.Row],
    iteration: int,
    seed: int,
    culprit: str,
  ):
    """Tells what happened."""
    super().__init__(
      f'iteration {iteration}, seed {seed}: {culprit} is not finite. Common '
      'causes are a learning rate that is too high and rewards that are huge'
    )
    self.state = state
    self.rows = rows
    self.iteration = iteration
    self.seed = seed
    self.culprit = culprit


def default_agent_settings(
  rule: str,
  env: str | None = None,
  trained_with: Mapping[str, Any] | None = None,
) -> config_dict.ConfigDict:
  """Settings that work on Catch.

  Args:
    rule: `'disco'`, `'actor_critic'` or `'policy_gradient'`.
    env: the name of the environment, for the network that suits it; None for
      an MLP.
    trained_with: settings that a discovered rule depends on, the
      `agent_settings` of a `rule_choice.RuleChoice`; None for the published.

  Returns:
    The settings of `SETTINGS`, with a learning rate for Catch.
  """
  config = settings_lib.get_settings(rule)
  config.learning_rate = _LEARNING_RATES.get(rule, config.learning_rate)
  settings_lib.update_from_plain(config, trained_with or {})
  if env is not None:
    network_settings.choose(config, registry.suggested_network(env))
  return config


def evaluate(
  env: str | registry.EnvironmentFn,
  update_rule_params: types.MetaParams | None = None,
  agent_settings: config_dict.ConfigDict | None = None,
  *,
  seeds: Sequence[int] = (0,),
  num_iterations: int = DEFAULT_ITERATIONS,
  config: experiment.Config | None = None,
  env_settings: Mapping[str, Any] | None = None,
  devices: Sequence[jax.Device] | None = None,
  chunk_size: int = DEFAULT_CHUNK_SIZE,
  show_progress: bool = False,
) -> Evaluation:
  """Trains one fresh agent per seed, and measures how well.

  Args:
    env: a name (see `environments.registry`), or a function that makes an
      environment from a batch size and a seed.
    update_rule_params: η; None for a hand-made rule.
    agent_settings: by default those of the discovered rule if there is an η,
      else those of the actor-critic; with the network that suits the
      environment, if that is known.
    seeds: K different numbers.
    num_iterations: how many times to act for one rollout and learn once.
    config: sizes of batch, rollout and replay.
    env_settings: what to change of a named environment's settings.
    devices: over which the batch is spread, see `population.Population`.
    chunk_size: iterations per compiled program, and per row of the table.
    show_progress: whether to show a progress bar.

  Returns:
    The final state, and the table of metrics.
  """
  if agent_settings is None:
    rule = 'actor_critic' if update_rule_params is None else 'disco'
    name = env if isinstance(env, str) else None
    agent_settings = default_agent_settings(rule, name)
  if isinstance(env, str):
    env = registry.environment_fn(env, **(env_settings or {}))
  elif env_settings:
    raise ValueError('env_settings go with the name of an environment only')
  population = population_lib.Population(
    env,
    agent_settings,
    config or experiment.Config(),
    seeds=seeds,
    devices=devices,
  )
  try:
    rows: list[metrics_table.Row] = []
    state = population.init()
    chunks = train(
      population, update_rule_params, state, num_iterations, chunk_size
    )
    bar = progress.Progress(num_iterations, enabled=show_progress)
    for last_state, new_rows in chunks:
      state = last_state
      rows += new_rows
      show_rows(bar, new_rows)
    bar.close()
    return Evaluation(state, rows)
  finally:
    population.close()


def train(
  population: population_lib.Population,
  update_rule_params: types.MetaParams | None,
  state: experiment.ExperimentState,
  num_iterations: int,
  chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> Iterator[tuple[experiment.ExperimentState, list[metrics_table.Row]]]:
  """Trains until `num_iterations` are done, chunk by chunk.

  Args:
    population: who is trained, where.
    update_rule_params: η; None for a hand-made rule.
    state: from `population.init()`, or from an earlier training; used up.
    num_iterations: the total, those already done included.
    chunk_size: iterations per compiled program.

  Yields:
    The state, good until the next chunk is asked for, and the chunk's rows.

  Raises:
    DivergenceError: after the first chunk in which something was not finite.
  """
  if chunk_size < 1:
    raise ValueError(f'chunk_size must be at least 1, got {chunk_size}')
  if num_iterations < 1:
    raise ValueError(f'num_iterations must be at least 1, got {num_iterations}')
  eta = check_rule_params(population.agent.update_rule, update_rule_params)
  done = int(state.iteration)
  while done < num_iterations:
    count = min(chunk_size - done % chunk_size, num_iterations - done)
    state, metrics = population.run(eta, state, count)
    done += count
    rows = metrics_table.summarize(
      metrics,
      last_iteration=done,
      seeds=population.seeds,
      env_steps_per_iteration=population.config.env_steps,
    )
    bad = np.argwhere(metrics['first_bad'] >= 0)
    if bad.size:
      n, k = bad[0]
      culprit = experiment.name_of_bad(
        int(metrics['first_bad'][n, k]), metrics, state.learner
      )
      raise DivergenceError(
        state, rows, done - count + int(n) + 1, population.seeds[k], culprit
      )
    yield state, rows


def show_rows(bar: progress.Progress, rows: list[metrics_table.Row]) -> None:
  """Moves a progress bar to where the rows of a chunk end.

  Args:
    bar: of iterations.
    rows: of all seeds; return and loss are averaged over them.
  """
  values = {
    name: float(np.mean([row[column] for row in rows]))
    for name, column in dict(
      {'return': 'average_return'}, loss='total_loss'
    ).items()
  }
  bar.update(int(rows[-1]['iteration']), **values)


def check_rule_params(
  rule: Any,
  update_rule_params: types.MetaParams | None,
  where: str = 'update_rule_params',
) -> types.MetaParams:
  """η for a rule: checked, and empty for a hand-made one.

  Args:
    rule: the update rule.
    update_rule_params: what is to be its η, or None.
    where: what an error message calls them.

  Returns:
    η.
  """
  wanted = jax.eval_shape(lambda: rule.init_params(jax.random.PRNGKey(0))[0])
  rule_params.check_like(update_rule_params or {}, wanted, where)
  return update_rule_params or {}
