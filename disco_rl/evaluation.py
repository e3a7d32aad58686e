"""Meta-evaluation: trains fresh agents with a rule that stays fixed.

  rule = disco_rl.load_rule('disco_103')
  result = disco_rl.evaluate('catch', rule, num_seeds=5)
  print(result.final_returns())
  result.plot('curve.png')

The defaults are the published setting on Catch: 1000 iterations of rollouts of
29 steps, learning rate 1e-2. The same seed gives the same run here and in
`disco-rl eval`, bit for bit on the same machine: floating-point sums, and with
them chaotic runs, depend on the number of threads and the version of XLA.
"""

from collections.abc import Iterator, Mapping, Sequence
import os
from typing import Any, NamedTuple

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import experiment
from disco_rl import metrics_table
from disco_rl import network_settings
from disco_rl import plots
from disco_rl import population as population_lib
from disco_rl import progress
from disco_rl import rule_choice
from disco_rl import rule_params
from disco_rl import settings as settings_lib
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.update_rules import base

DEFAULT_ITERATIONS = 1000
DEFAULT_CHUNK_SIZE = 20

# What differs from the agents' own settings: tuned on Catch, and nothing else.
_LEARNING_RATES = {
  'disco': 1e-2,
  'actor_critic': 1e-2,
  'policy_gradient': 1e-3,
}


class Evaluation(NamedTuple):
  """The result of an experiment."""

  state: experiment.ExperimentState  # Leaves [K, ...] for K seeds.
  rows: list[metrics_table.Row]
  name: str = ''  # Of the rule.

  def final_returns(self, num_iterations: int = 100) -> dict[int, float]:
    """Seed to its average return in the last iterations, by episodes."""
    return metrics_table.average_returns(self.rows, num_iterations)

  def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws the learning curves.

    Args:
      path: of a PNG file to write, or None.

    Returns:
      A matplotlib figure, which notebooks show.
    """
    figure = plots.learning_curves({self.name: self.rows})
    if path is not None:
      plots.save(figure, path)
    return figure


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
    rule: the kind of rule, a key of `settings.SETTINGS`.
    env: the name of the environment, for the network that suits it; None for
      an MLP.
    trained_with: settings that a discovered rule depends on, the `settings` of
      a `rule_choice.Rule`; None for the published.

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
  rule: rule_choice.Rule | str | types.MetaParams | None = None,
  agent_settings: config_dict.ConfigDict | None = None,
  *,
  seeds: Sequence[int] | None = None,
  num_seeds: int = 1,
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
    rule: from `load_rule`, or what it takes (a name, a file, a run); or
      parameters η of the rule that `agent_settings` names, by default of the
      published discovered one. None for the rule that `agent_settings` names,
      if it has no parameters; without them for the shipped rule.
    agent_settings: by default those that the rule was trained with (for η
      alone the published ones), with the network that suits the environment,
      if that is known.
    seeds: K different numbers; by default 0, 1, ... `num_seeds` - 1.
    num_seeds: how many.
    num_iterations: how many times to act for one rollout and learn once.
    config: sizes of batch, rollout and replay.
    env_settings: what to change of a named environment's settings.
    devices: over which the batch is sharded, see `population.Population`.
    chunk_size: iterations per compiled program, and per row of the table.
    show_progress: whether to show a progress bar.

  Returns:
    The final state, and the table of metrics.
  """
  env_fn = registry.as_environment_fn(env, env_settings)
  if rule is None and agent_settings is None:
    rule = rule_choice.DEFAULT
  if isinstance(rule, str | os.PathLike):
    rule = rule_choice.load_rule(rule)
  elif not isinstance(rule, rule_choice.Rule):
    kind = agent_settings.update_rule_name if agent_settings else 'disco'
    rule = rule_choice.Rule(kind, kind, rule)
  if agent_settings is None:
    agent_settings = default_agent_settings(
      rule.kind, env if isinstance(env, str) else None, rule.settings
    )
  if seeds is None:
    seeds = range(num_seeds)
  elif num_seeds != 1:
    raise ValueError('give seeds or num_seeds, not both')
  config = config or experiment.Config()
  check_num_iterations(num_iterations, config)
  population = population_lib.Population(
    env_fn, agent_settings, config, seeds=seeds, devices=devices
  )
  try:
    rows: list[metrics_table.Row] = []
    state = population.init()
    chunks = train(population, rule.eta, state, num_iterations, chunk_size)
    bar = progress.Progress(num_iterations, enabled=show_progress)
    for last_state, new_rows in chunks:
      state = last_state
      rows += new_rows
      show_rows(bar, new_rows)
    bar.close()
    return Evaluation(state, rows, rule.name)
  finally:
    population.close()


def check_num_iterations(
  num_iterations: int,
  config: experiment.Config,
  name: str = 'num_iterations',
) -> None:
  """Refuses to begin a run in which nothing would be learned.

  Args:
    num_iterations: how many there would be.
    config: sizes of batch, rollout and replay.
    name: what a message calls the number.
  """
  if num_iterations < 1:
    raise ValueError(f'{name} must be at least 1, got {num_iterations}')
  if num_iterations <= config.num_warm_up:
    raise ValueError(
      f'{name} {num_iterations} is too few to learn anything: the first '
      f'{config.num_warm_up} iterations only fill the replay with the '
      f'{config.first_fill} trajectories of a batch. Ask for more, or make '
      'batch_size, replay_ratio or min_replay_size smaller'
    )


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
    update_rule_params: η; None for a hand-designed rule.
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
  # A loss is NaN in a chunk in which nothing was learned.
  is_filling = any(np.isnan(row['total_loss']) for row in rows)
  mean = lambda name: float(np.mean([row[name] for row in rows]))
  values = {'return': mean('average_return'), 'loss': mean('total_loss')}
  bar.update(
    int(rows[-1]['iteration']),
    note='filling the replay' if is_filling else '',
    **values,
  )


def check_rule_params(
  rule: base.UpdateRule,
  update_rule_params: types.MetaParams | None,
  where: str = 'update_rule_params',
) -> types.MetaParams:
  """Checks η against a rule.

  Args:
    rule: the update rule.
    update_rule_params: what is to be its η, or None.
    where: what an error message calls them.

  Returns:
    η, empty for a rule without parameters.
  """
  wanted = jax.eval_shape(lambda: rule.init_params(jax.random.PRNGKey(0))[0])
  if update_rule_params is None and jax.tree.leaves(wanted):
    raise ValueError(
      f'{type(rule).__name__} has parameters η, and none were given: load '
      'trained ones from a file (load_rule) or train them (meta_train)'
    )
  eta = {} if update_rule_params is None else update_rule_params
  rule_params.check_like(eta, wanted, where)
  return eta
