"""PPO against a naive implementation, at its limits, and on a small Catch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import disco_rl
from disco_rl import utils
from disco_rl.update_rules import ppo
from tests.support import golden
from tests.support import small

EPSILON = 0.2


def _softmax(logits):
  p = np.exp(logits - logits.max())
  return p / p.sum()


def _naive_advantages(rewards, is_terminal, values, discount, lambda_):
  """GAE by its definition, a sum over all later steps of an episode."""
  num_steps, batch_size = rewards.shape
  advs = np.zeros((num_steps, batch_size))
  for b in range(batch_size):
    for t in range(num_steps):
      weight = 1.0
      for k in range(t, num_steps):
        goes_on = 0.0 if is_terminal[k, b] else 1.0
        target = rewards[k, b] + discount * goes_on * values[k + 1, b]
        advs[t, b] += weight * (target - values[k, b])
        weight *= discount * lambda_ * goes_on
  return advs


@pytest.fixture(scope='module')
def example():
  """An agent's rule, with scalar values, and random inputs."""
  config = small.settings('ppo')
  config.update_rule.update(
    categorical_value=False, nonlinear_value_transform=False
  )
  agent = small.make_agent('ppo', config)
  rollout = small.rule_inputs(agent)
  return agent.update_rule, rollout, dict(agent.settings.hyper_params)


def test_losses_are_those_of_a_naive_implementation(example):
  rule, rollout, hyper = example
  loss, _, log = rule(
    {},
    {},
    {},
    rollout,
    hyper,
    rule.init_meta_state(None, None),
    None,
    jax.random.PRNGKey(0),
    None,
  )
  r = jax.tree.map(np.asarray, rollout)
  values = r.agent_out['v'][..., 0]
  advs = _naive_advantages(
    r.rewards,
    r.is_terminal,
    values,
    hyper['discount_factor'],
    hyper['gae_lambda'],
  )
  assert r.is_terminal.any() and not r.is_terminal.all()
  normalized = (advs - advs.mean()) / advs.std()
  wanted, clipped = np.zeros(advs.shape), 0
  for t, b in np.ndindex(*advs.shape):
    a = r.actions[t, b]
    pi = _softmax(r.agent_out['logits'][t, b])
    mu = _softmax(r.behaviour_agent_out['logits'][t, b])
    rho, adv = pi[a] / mu[a], normalized[t, b]
    objective = min(rho * adv, np.clip(rho, 0.8, 1.2) * adv)
    clipped += objective != rho * adv
    value_loss = 0.5 * (advs[t, b]) ** 2  # Its target is V + Â.
    entropy = -(pi * np.log(pi)).sum()
    wanted[t, b] = -objective + 0.5 * value_loss - 0.1 * entropy
  golden.check_close(loss, wanted, 1e-4, 'loss')
  assert 0 < clipped < advs.size
  golden.check_close(log['clip_fraction'], clipped / advs.size, 1e-6, 'clipped')


@pytest.mark.parametrize(
  ('ratio', 'adv', 'is_clipped'),
  [
    (1.5, 1.0, True),  # Already more likely by more than ε.
    (1.5, -1.0, False),
    (0.5, 1.0, False),
    (0.5, -1.0, True),  # Already less likely by more than ε.
    (1.1, 1.0, False),
    (0.9, -1.0, False),
  ],
)
def test_gradients_are_zero_only_where_more_would_leave_the_range(
  ratio, adv, is_clipped
):
  old = jnp.log(jnp.asarray([0.4, 0.6]))
  new = jnp.log(jnp.asarray([0.4 * ratio, 1 - 0.4 * ratio]))
  action = jnp.asarray(0)

  def loss(logits):
    return ppo.clipped_policy_loss(logits, old, action, adv, EPSILON)

  value, reported = loss(new)
  bound = np.clip(ratio, 1 - EPSILON, 1 + EPSILON) if is_clipped else ratio
  golden.check_close(value, -bound * adv, 1e-5, 'loss')
  assert bool(reported) == is_clipped
  grad = jax.grad(lambda x: loss(x)[0])(new)
  if is_clipped:
    np.testing.assert_array_equal(grad, 0.0)
  else:  # That of -ρÂ: -Âρ·(1[a] - π).
    pi = _softmax(np.asarray(new))
    golden.check_close(grad, -adv * ratio * (np.eye(2)[0] - pi), 1e-4, 'grad')


def test_at_ratio_1_the_gradient_is_the_policy_gradient(example):
  _, rollout, _ = example
  logits, actions = rollout.agent_out['logits'][:-1], rollout.actions[:-1]
  advs = rollout.rewards

  def own(x):
    return ppo.clipped_policy_loss(x, logits, actions, advs, EPSILON)[0].sum()

  def policy_gradient(x):
    return utils.differentiable_policy_gradient_loss(
      x, actions, advs, backprop=False
    ).sum()

  golden.check_close(
    jax.grad(own)(logits), jax.grad(policy_gradient)(logits), 1e-5, 'grad'
  )


def test_lambda_0_is_the_td_error_and_lambda_1_the_return(example):
  _, rollout, _ = example
  values = rollout.agent_out['v'][..., 0]
  none_end = jnp.zeros_like(rollout.is_terminal)
  td = rollout.rewards + 0.5 * values[1:] - values[:-1]
  golden.check_close(
    ppo.advantages(rollout.rewards, none_end, values, 0.5, 0.0), td, 1e-5, 'td'
  )
  returns = values[-1]
  for reward in rollout.rewards[::-1]:
    returns = reward + 0.5 * returns
  whole = ppo.advantages(rollout.rewards, none_end, values, 0.5, 1.0)
  golden.check_close(whole[0], returns - values[0], 1e-5, 'returns')


def test_it_learns_a_small_catch():
  result = disco_rl.evaluate(
    'catch',
    'ppo',
    num_seeds=2,
    num_iterations=200,
    env_settings=dict(rows=5, columns=4),
    batching=disco_rl.Batching(batch_size=32, rollout_length=17, num_envs=32),
    chunk_size=50,
    devices=jax.devices()[:1],
  )
  assert all(row['average_return'] < 0.5 for row in result.rows[:2])
  assert min(result.final_returns(50).values()) > 0.9
