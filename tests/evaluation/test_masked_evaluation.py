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


def _evaluate(num_iterations, num_devices=1, **more):
  return disco_rl.evaluate(
    'doors',
    'actor_critic',
    seeds=(0,),
    num_iterations=num_iterations,
    batching=disco_rl.Batching(
      batch_size=8, num_envs=4, rollout_length=5, replay_capacity=16
    ),
    settings={'agent.net_settings.net_args.dense': (6,)},
    devices=jax.devices()[:num_devices],
    chunk_size=4,
    **more,
  )


def test_masks_in_replay_and_actor_survive_a_resume(tmp_path):
  disco_rl.register_environment('doors', masked.Doors)
  wanted = _evaluate(8)
  out = tmp_path / 'run'
  _evaluate(4, out=out)
  actual = _evaluate(8, out=out, resume=True)
  assert actual.state.actor.timestep.action_mask.shape == (1, 4, 4)
  assert actual.state.buffer.data.action_mask.shape == (1, 16, 5, 4)
  jax.tree.map(
    np.testing.assert_array_equal, actual.state.learner, wanted.state.learner
  )


def test_masks_are_sharded_over_devices():
  disco_rl.register_environment('doors', masked.Doors)
  result = _evaluate(8, num_devices=2)
  buffer = result.state.buffer.data
  locked = buffer.observations[..., masked.NUM_DOORS :]
  np.testing.assert_array_equal(buffer.action_mask, locked == 0)
  assert min(row['average_return'] for row in result.rows) >= 0
