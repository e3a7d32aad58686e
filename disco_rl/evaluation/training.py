"""Trains a population with a fixed rule, as a `Trainable` of the run loop."""

import jax
import numpy as np

from disco_rl import memory
from disco_rl import parallel
from disco_rl import types
from disco_rl.environments import foreign
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import population as population_lib
from disco_rl.learning import faults
from disco_rl.rule_zoo import file_format
from disco_rl.runs import loop
from disco_rl.runs import metrics as metrics_lib
from disco_rl.update_rules import base


class DivergenceError(loop.DivergenceError):
  """Raised when a learner step of an agent is non-finite.

  Attributes:
    state: the state of all agents, each with its last finite learner.
    rows: metrics of the last chunk.
    iteration: the first non-finite iteration, from 1.
    seed: seed of the agent.
    culprit: name of the first non-finite quantity.
  """

  def __init__(
    self,
    state: agent_loop.LoopState,
    rows: list[metrics_lib.Row],
    iteration: int,
    seed: int,
    culprit: str,
  ):
    """Makes the message; see the attributes."""
    super().__init__(
      f'iteration {iteration}, seed {seed}: {culprit} is not finite. Common '
      'causes are a learning rate that is too high and very large rewards',
      state,
      rows,
    )
    self.iteration = iteration
    self.seed = seed
    self.culprit = culprit


class Training:
  """Trains a population with a fixed rule, see `loop.Trainable`.

  Attributes:
    population: the agents.
  """

  def __init__(
    self,
    population: population_lib.Population,
    eta: types.MetaParams | None,
    chunk_size: int = 20,
    saves_replay: bool = True,
  ):
    """Initialises the training; checks η against the rule of the agents.

    Args:
      population: the agents.
      eta: the rule's parameters η; None for a rule without parameters.
      chunk_size: iterations per compiled program, and per row of metrics.
      saves_replay: whether the replay is part of checkpoints; if not, it is
        empty after a resume, and agents wait until it is filled again.
    """
    if chunk_size < 1:
      raise ValueError(f'chunk_size must be at least 1, got {chunk_size}')
    self.population = population
    # η may be on other devices, e.g. those of meta-training.
    self._eta = population.placement.put(
      check_rule_params(population.agent.update_rule, eta), parallel.REPLICATED
    )
    self._chunk_size = chunk_size
    self._saves_replay = saves_replay

  def init(self) -> agent_loop.LoopState:
    """Makes fresh agents."""
    return self.population.init(self._eta, self._chunk_size)

  def check_memory(self) -> memory.Estimate:
    """Estimates the memory of the run, see `loop.Trainable`.

    Environments on the host are made and reset.
    """
    return self.population.check_memory(self._eta, self._chunk_size)

  def columns(self) -> tuple[str, ...]:
    """Returns the columns of the rows of `advance`, see `loop.Trainable`."""
    names = {*self.population.metric_names} - {faults.METRIC}
    zeros = dict.fromkeys(names, np.zeros([1, 1]))
    row, *_ = metrics_lib.summarize(
      zeros, last_iteration=0, seeds=[0], env_steps_per_iteration=0
    )
    return tuple(row)

  def done(self, state: agent_loop.LoopState) -> int:
    """Returns how many iterations are done."""
    return int(state.iteration)

  def advance(
    self, state: agent_loop.LoopState, total: int
  ) -> tuple[agent_loop.LoopState, list[metrics_lib.Row]]:
    """Trains for one chunk of iterations, see `loop.Trainable`.

    Raises:
      DivergenceError: if a learner step is non-finite.
      NonFiniteError: if an environment returns NaN or infinity.
      InvalidEnvironmentError: if it returns an unknown step type.
    """
    done = self.done(state)
    count = min(self._chunk_size - done % self._chunk_size, total - done)
    state, metrics = self.population.run(self._eta, state, count)
    self._check_environment(metrics.pop(faults.METRIC, None), state, done)
    rows = metrics_lib.summarize(
      metrics,
      last_iteration=done + count,
      seeds=self.population.seeds,
      env_steps_per_iteration=self.population.batching.env_steps,
    )
    nonfinite = np.argwhere(metrics['first_nonfinite'] >= 0)
    if nonfinite.size:
      n, k = nonfinite[0]
      culprit = agent_loop.name_of_nonfinite(
        int(metrics['first_nonfinite'][n, k]), metrics, state.learner
      )
      seed = self.population.seeds[k]
      raise DivergenceError(state, rows, done + int(n) + 1, seed, culprit)
    return state, rows

  def _check_environment(
    self,
    indices: np.ndarray | None,
    state: agent_loop.LoopState,
    done: int,
  ) -> None:
    """Raises an error if `faults.first` found one in an environment in JAX.

    The agents have already learned from it, so the state is not kept.

    Args:
      indices: [N, K], see `faults.first`; None for environments on the host,
        which raise such errors themselves.
      state: any state; only its structure is used.
      done: iterations before the chunk.
    """
    if indices is None or not np.any(indices >= 0):
      return
    n, k = np.argwhere(indices >= 0)[0]
    raise faults.error(
      indices[n, k],
      state.actor.timestep,
      self.population.batching.num_envs,
      self.population.env_name,
      f'iteration {done + int(n) + 1}, seed {self.population.seeds[k]}',
    )

  def to_checkpoint(self, state: agent_loop.LoopState) -> agent_loop.LoopState:
    """Returns the state in a form that can be saved."""
    if not self._saves_replay:
      state = state._replace(buffer=None)
    return self.population.to_checkpoint(state)

  def checkpoint_like(self) -> agent_loop.LoopState:
    """Returns a tree like that of `to_checkpoint`."""
    # The structure of snapshots depends on the environments.
    return self.to_checkpoint(self.init())

  def from_checkpoint(
    self, saved: agent_loop.LoopState
  ) -> agent_loop.LoopState:
    """Returns the state to resume from."""
    if not self._saves_replay:
      saved = saved._replace(buffer=self.init().buffer)
    return self.population.from_checkpoint(saved)

  def close(self) -> None:
    """Closes environments on the host."""
    self.population.close()


def describe_rows(
  rows: list[metrics_lib.Row],
) -> tuple[str, dict[str, float]]:
  """Summarises a chunk for the progress bar.

  Args:
    rows: rows of all seeds, over which return and loss are averaged.

  Returns:
    A note if there was no learner step yet, and values by name.
  """
  # The loss is NaN in a chunk without learner steps.
  is_filling = any(np.isnan(row['total_loss']) for row in rows)
  mean = lambda name: float(np.mean([row[name] for row in rows]))
  values = {'return': mean('average_return'), 'loss': mean('total_loss')}
  return 'filling the replay' if is_filling else '', values


def params_spec(rule: base.UpdateRule) -> types.MetaParams:
  """Returns the specs of a rule's parameters η."""
  kind = type(rule).__name__
  with foreign.boundary(f'{kind} failed in init_params', ValueError):
    return jax.eval_shape(lambda: rule.init_params(jax.random.PRNGKey(0))[0])


def check_rule_params(
  rule: base.UpdateRule,
  eta: types.MetaParams | None,
  where: str = 'eta',
) -> types.MetaParams:
  """Checks structure, shapes and dtypes of η against a rule.

  Args:
    rule: the update rule.
    eta: its parameters η, or None.
    where: name of η in messages.

  Returns:
    η, empty for a rule without parameters.

  Raises:
    ValueError: if η is missing, or not like the rule's parameters.
  """
  kind = type(rule).__name__
  wanted = params_spec(rule)
  if eta is None and jax.tree.leaves(wanted):
    raise ValueError(
      f'{kind} needs parameters η, but none were given: load trained ones from '
      'a file (load_rule), or train them (meta_train)'
    )
  eta = {} if eta is None else eta
  file_format.check_like(eta, wanted, where)
  return eta
