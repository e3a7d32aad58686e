"""What η is trained to make small: named terms with weights.

After N inner updates, on a trajectory the agent has not learned from:

  policy_gradient  −log π(a)·Â, averaged; Â is the critic's normalised advantage
  entropy          of π; weighted negatively, so that agents go on exploring
  y_entropy        of the predictions y, and
  z_entropy        of z of the action taken: predictions should stay open too

and of the targets the rule gave in the inner updates, averaged over them:

  y_mean, z_mean, pi_mean   (mean target)²: softmax ignores a common offset,
                            which might drift otherwise
  target_kl                 KL(target network's policy ‖ π̂)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import categorical
from disco_rl import types
from disco_rl import utils
from disco_rl.meta_training import config as config_lib


def validation_terms(
  agent_out: types.AgentOuts,
  actions: types.Array,
  output_actions: types.Array,
  normalized_adv: types.Array,
) -> types.LogDict:
  """The terms that measure an agent.

  Args:
    agent_out: its outputs along the rollout, leaves [T+1, B, ...].
    actions: [T+1, B], those taken.
    output_actions: [T+1, B], where in z the actions taken are, see
      `Agent.unroll_for_loss`.
    normalized_adv: [T, B].

  Returns:
    Name to scalar.
  """
  logits = agent_out['logits'][:-1]
  z_a = utils.batch_lookup(agent_out['z'][:-1], output_actions[:-1])
  policy_gradient = utils.differentiable_policy_gradient_loss(
    logits, actions[:-1], normalized_adv, backprop=False
  )
  return dict(
    policy_gradient=jnp.mean(policy_gradient),
    entropy=jnp.mean(categorical.entropy(logits)),
    # As published, y's last step counts, which has no action.
    y_entropy=jnp.mean(categorical.entropy(agent_out['y'])),
    z_entropy=jnp.mean(categorical.entropy(z_a)),
  )


def target_terms(
  meta_out: types.UpdateRuleOuts, axis_name: Any | None
) -> types.LogDict:
  """The terms that keep the rule's targets in bounds, of one inner update.

  Args:
    meta_out: what the rule returned, leaves [T, B, ...] or [T+1, B, ...].
    axis_name: over which the batch is spread, or None.

  Returns:
    Name to scalar.
  """

  def mean_squared(x: types.Array) -> jax.Array:
    mean = jnp.mean(x)
    if axis_name is not None:
      # Before the square, so that many devices have the loss of one.
      mean = jax.lax.pmean(mean, axis_name)
    return jnp.square(mean)

  target_logits = jax.lax.stop_gradient(meta_out['target_out']['logits'][:-1])
  kl = categorical.kl_divergence(target_logits, meta_out['pi'])
  return dict(
    y_mean=mean_squared(meta_out['y']),
    z_mean=mean_squared(meta_out['z']),
    pi_mean=mean_squared(meta_out['pi']),
    target_kl=jnp.mean(kl),
  )


def total(
  terms: types.LogDict, weights: config_lib.MetaLossWeights
) -> jax.Array:
  """The weighted sum of all terms."""
  return sum(
    weight * terms[name] for name, weight in dataclasses.asdict(weights).items()
  )
