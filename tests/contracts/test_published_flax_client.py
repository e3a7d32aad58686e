"""A program in the style of a Flax library that calls the published rule."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import optax

from disco_rl import types
from disco_rl.update_rules import disco


@dataclasses.dataclass(frozen=True)
class _System:
  """Settings of a library with a training loop of its own."""

  num_actions: int = 3
  prediction_size: int = 7
  num_bins: int = 11
  num_updates: int = 25
  learning_rate: float = 3e-3
  costs: Any = dataclasses.field(
    default_factory=lambda: dict(
      pi_cost=1.0,
      y_cost=1.0,
      z_cost=1.0,
      aux_policy_cost=1.0,
      value_cost=0.2,
      target_params_coeff=0.9,
      value_fn_td_lambda=0.95,
      discount_factor=0.997,
    )
  )

  def meta_net(self):
    """Lists, as from a file; and inputs for the outer network only."""
    return config_dict.ConfigDict(
      dict(
        name='lstm',
        prediction_size=self.prediction_size,
        hidden_size=10,
        embedding_size=[5, 1],
        policy_target_channels=[4],
        policy_channels=[4, 2],
        output_stddev=0.3,
        aux_stddev=0.3,
        policy_target_stddev=0.3,
        state_stddev=1.0,
        meta_rnn_kwargs=dict(
          policy_channels=[4, 2],
          embedding_size=[5],
          pred_embedding_size=[5, 1],
          hidden_size=6,
        ),
        input_option=disco.get_input_option(),
      )
    )


class _Network(nn.Module):
  """Computes the outputs that the rule needs."""

  system: _System

  @nn.compact
  def __call__(self, observations):
    a = self.system.num_actions
    y, bins = self.system.prediction_size, self.system.num_bins
    shapes = dict(logits=(a,), y=(y,), z=(a, y), aux_pi=(a, a), q=(a, bins))
    x = nn.relu(nn.Dense(16)(observations))
    return {k: nn.DenseGeneral(s, name=k)(x) for k, s in shapes.items()}


def test_rule_inside_the_loss_of_a_flax_library():
  """Two devices of two mapped learners each; gradients over all of them."""
  system = _System()
  network = _Network(system)
  rule = disco.DiscoUpdateRule(
    net=system.meta_net(),
    value_discount=0.99,
    max_abs_value=5.0,
    num_bins=system.num_bins,
  )
  optimizer = optax.chain(
    optax.clip_by_global_norm(10.0), optax.adam(system.learning_rate)
  )
  rng, net_rng, eta_rng, meta_rng = jax.random.split(jax.random.PRNGKey(2), 4)
  eta, _ = rule.init_params(eta_rng)
  steps, batch = 6, 4

  def unroll(params, state, observations, should_reset):
    del should_reset
    return network.apply(params, observations), state

  def experience(rng):
    keys = jax.random.split(rng, 5)
    return types.UpdateRuleInputs(
      observations=jax.random.normal(keys[0], (steps + 1, batch, 4)),
      actions=jax.random.randint(keys[1], (steps + 1, batch), 0, 3),
      rewards=jax.random.normal(keys[2], (steps, batch)),
      is_terminal=jax.random.bernoulli(keys[3], 0.1, (steps, batch)),
      agent_out=None,
      behaviour_agent_out=dict(
        logits=0.1 * jax.random.normal(keys[4], (steps + 1, batch, 3))
      ),
    )

  def loss_fn(params, meta_state, rollout, rng):
    agent_out, _ = unroll(params, None, rollout.observations, None)
    rollout = dataclasses.replace(rollout, agent_out=agent_out)
    loss_per_step, meta_state, log = rule(
      meta_params=eta,
      params=params,
      state=None,
      rollout=rollout,
      hyper_params=system.costs,
      meta_state=meta_state,
      unroll_policy_fn=unroll,
      rng=rng,
      axis_name='device',
      backprop=False,
    )
    return loss_per_step.mean(), (meta_state, log)

  def learn(params, rng):
    rollout = experience(rng)

    def update(carry, rng):
      params, opt_state, meta_state = carry
      (loss, (meta_state, log)), grads = jax.value_and_grad(
        loss_fn, has_aux=True
      )(params, meta_state, rollout, rng)
      for axis in ('batch', 'device'):
        grads, loss, log = jax.lax.pmean((grads, loss, log), axis_name=axis)
      updates, opt_state = optimizer.update(grads, opt_state)
      params = optax.apply_updates(params, updates)
      return (params, opt_state, meta_state), (loss, log)

    meta_state = rule.init_meta_state(meta_rng, params)
    carry = (params, optimizer.init(params), meta_state)
    keys = jax.random.split(rng, system.num_updates)
    (params, _, _), logs = jax.lax.scan(update, carry, keys)
    return params, logs

  params = network.init(net_rng, jnp.zeros((1, 4)))
  learn = jax.pmap(
    jax.vmap(learn, axis_name='batch', in_axes=(None, 0)),
    axis_name='device',
    in_axes=(None, 0),
    devices=jax.devices()[:2],
  )
  params, (losses, log) = learn(params, jax.random.split(rng, (2, 2)))
  assert losses.shape == (2, 2, system.num_updates)
  assert {'pi_loss', 'q_loss', 'y_entropy'} <= set(log)
  for leaf in jax.tree.leaves(params):
    np.testing.assert_allclose(leaf[0, 0], leaf[1, 1], 1e-6)
  assert np.isfinite(losses).all()
  assert losses[0, 0, -1] < 0.8 * losses[0, 0, 0]
