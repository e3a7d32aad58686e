"""Registers a custom update rule, in some thirty lines.

  python examples/own_rule.py
  disco-rl eval --rule reinforce --use examples.own_rule

REINFORCE without a baseline: the loss of a step is -log π(a) times the
discounted sum of the rewards after it.
"""

import jax
import jax.numpy as jnp

import disco_rl
from disco_rl import utils
from disco_rl.update_rules import base


class Reinforce(base.UpdateRule):
  def __init__(self, discount=0.9, entropy_cost=0.01):
    self._discount = discount
    self._entropy_cost = entropy_cost

  def flat_output_spec(self, single_action_spec):
    return dict(logits=utils.get_logits_specs(single_action_spec))

  def init_meta_state(self, rng, params):
    return {}  # Nothing is carried from one update to the next.

  def unroll_meta_net(
    self, meta_params, params, state, meta_state, rollout, *unused, **also
  ):
    """Computes the targets of the policy: discounted returns, [T, B]."""

    def step(later, inputs):
      reward, is_terminal = inputs
      total = reward + self._discount * (1.0 - is_terminal) * later
      return total, total

    _, returns = jax.lax.scan(
      step,
      jnp.zeros_like(rollout.rewards[0]),
      (rollout.rewards, rollout.is_terminal),
      reverse=True,
    )
    return dict(returns=returns), meta_state

  def agent_loss(self, rollout, meta_out, hyper_params, backprop):
    log_pi = jax.nn.log_softmax(rollout.agent_out['logits'][:-1])
    log_pi_a = utils.batch_lookup(log_pi, rollout.actions[:-1])
    entropy = -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)
    loss = -log_pi_a * meta_out['returns'] - self._entropy_cost * entropy
    return loss, dict(entropy=jnp.mean(entropy))


disco_rl.register_rule('reinforce', Reinforce)


if __name__ == '__main__':
  result = disco_rl.evaluate(
    'catch',
    'reinforce',
    num_iterations=300,
    # The rule is on-policy: every batch is the newest rollout.
    batching=disco_rl.Batching(batch_size=32, num_envs=32),
    env_settings=dict(rows=5, columns=5),
  )
  print('average return by seed:', result.final_returns())
