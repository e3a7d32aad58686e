"""docs/your_own_rule.md does what it says."""

import jax
import numpy as np
import optax
import pytest

from disco_rl import agent
from tests.support import small


@pytest.mark.slow
def test_the_document_trains_a_number(documented):
  result, tuned = documented['result'], documented['tuned']
  first = np.log(0.2)
  for trained in (result, tuned):
    (log_cost,) = jax.tree.leaves(trained.eta)
    assert np.isfinite(log_cost) and abs(log_cost - first) > 1e-3
    assert {'return/catch', 'episodes/catch'} < set(trained.rows[0])
  # The loop of the page gives the rows of `meta_train`.
  np.testing.assert_equal(documented['rows'], result.rows)
  jax.tree.map(
    np.testing.assert_array_equal, documented['outcome'].state.eta, result.eta
  )
  # The regulariser is 0 at the initial η, and then grows.
  values = [row['regularizer'] for row in tuned.rows]
  assert values[0] == 0 and values[-1] > 0
  assert 'regularizer' not in result.rows[0]


def test_an_optimizer_of_the_agent_replaces_that_of_the_settings():
  env = small.environment()
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=small.settings('policy_gradient'),
    batch_axis_name=None,
    optimizer=optax.sgd(0.0),
  )
  state = an_agent.initial_learner_state(jax.random.PRNGKey(0))
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 6)
  after, _, log = jax.jit(an_agent.learner_step, static_argnums=5)(
    jax.random.PRNGKey(2), rollout, state, {}, {}, False
  )
  assert log['global_gradient_norm'] > 0 and log['global_update_norm'] == 0
  jax.tree.map(np.testing.assert_array_equal, after.params, state.params)
