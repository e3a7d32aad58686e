"""A population in the run loop: chunks, rows, divergence."""

import jax
import numpy as np
import pytest

from disco_rl.evaluation import training
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import sinks
from tests.support import small


def _train(population, eta, total, chunk_size, state=None):
  trainable = training.Training(population, eta, chunk_size)
  rows = []
  state = trainable.init() if state is None else state
  outcome = loop.run(trainable, state, total, sinks=[sinks.Rows(rows)])
  return outcome, rows


def test_rows_end_where_chunks_end():
  """At multiples of the chunk size, wherever training began, and at the end."""
  population, eta = small.make_population(seeds=(3, 5))
  outcome, rows = _train(population, eta, 7, chunk_size=4)
  assert outcome.reason is loop.Reason.FINISHED and outcome.done == 7
  ends = [(row['iteration'], row['seed']) for row in rows]
  assert ends == [(4, 3), (4, 5), (7, 3), (7, 5)]
  assert [row['env_steps'] for row in rows[::2]] == [4 * 2 * 6, 7 * 2 * 6]
  outcome, rows = _train(population, eta, 12, 4, outcome.state)
  assert [row['iteration'] for row in rows[::2]] == [8, 12]
  with pytest.raises(ValueError, match='chunk_size must be at least 1, got 0'):
    training.Training(population, eta, 0)


@pytest.mark.parametrize('env_name', ['catch', 'catch_numpy'])
@pytest.mark.parametrize('kind', ['disco', 'actor_critic'])
def test_columns_are_known_before_the_first_chunk(kind, env_name):
  population, eta = small.make_population(kind, env_name=env_name)
  trainable = training.Training(population, eta, 2)
  state = trainable.init()
  columns = trainable.columns()
  _, rows = trainable.advance(state, 2)
  assert columns == tuple(rows[0])
  trainable.close()


def test_divergence_ends_training_with_the_last_finite_state():
  population, _ = small.make_population(seeds=(3, 5))
  # The first gradient of one seed alone is not finite.
  state = population.init()
  params = jax.tree.map(lambda x: x.at[1].set(1e38), state.learner.params)
  state = state._replace(learner=state.learner.replace(params=params))
  outcome, rows = _train(population, {}, 12, 4, state)
  assert outcome.reason is loop.Reason.DIVERGED and outcome.done == 4
  error = outcome.error
  assert isinstance(error, training.DivergenceError)
  assert (error.iteration, error.seed) == (4, 5)
  assert f'iteration 4, seed 5: {error.culprit} is not finite' in str(error)
  assert rows == error.rows and len(rows) == 2
  leaves = jax.tree.leaves(outcome.state.learner)
  assert all(np.isfinite(x).all() for x in leaves)


def test_eta_that_does_not_fit_the_rule_is_refused():
  population, _ = small.make_population('disco')
  with pytest.raises(
    ValueError, match='needs parameters η, but none were given'
  ):
    training.Training(population, None)
  with pytest.raises(ValueError, match='eta'):
    training.Training(population, {'lstm': {}})
  plain, eta = small.make_population('actor_critic')
  training.Training(plain, None)
  assert not jax.tree.leaves(eta)


def test_what_is_shown_of_rows():
  rows = [
    dict(iteration=4, seed=seed, average_return=seed, total_loss=loss)
    for seed, loss in ((0, 1.0), (1, 2.0))
  ]
  assert training.describe_rows(rows) == ('', {'return': 0.5, 'loss': 1.5})
  rows[1]['total_loss'] = float('nan')
  note, _ = training.describe_rows(rows)
  assert note == 'filling the replay'
  assert metrics.to_csv(rows)
