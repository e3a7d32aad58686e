"""Agents learn where an illegal action would be a catastrophe."""

import jax
import numpy as np
import pytest

import disco_rl
from tests.support import masked

SIZES = disco_rl.Batching(batch_size=16, num_envs=16, rollout_length=10)


@pytest.mark.parametrize(
  ('rule', 'iterations'),
  [
    ('actor_critic', 100),
    ('ppo', 100),
    pytest.param('catch_small', 600, marks=pytest.mark.slow),
  ],
)
def test_agents_learn_without_ever_choosing_it(rule, iterations):
  disco_rl.register_environment('doors', masked.Doors)
  result = disco_rl.evaluate(
    'doors',
    rule,
    seeds=(1,),  # With others, catch_small learns later, also without masks.
    num_iterations=iterations,
    batching=SIZES,
    settings={
      'agent.learning_rate': 1e-2,
      'agent.net_settings.net_args.dense': (32, 32),
    },
    devices=jax.devices()[:1],
    chunk_size=iterations // 10,
  )
  returns = [row['average_return'] for row in result.rows]
  assert min(returns) >= 0
  assert returns[0] < 1.5 and np.mean(returns[-2:]) > 2.5
