"""A rule in a custom training loop, with a custom network."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np

from disco_rl import agent
from disco_rl import types
from disco_rl.update_rules import disco
from tests.support import golden
from tests.support import small

T, B, A, Y, BINS = 4, 2, 3, 7, 11
NUM_DEVICES, NUM_MAPPED = 2, 3


class Params(NamedTuple):
  """A network that consists of arrays."""

  torso: jax.Array
  heads: tuple[jax.Array, ...]


def _init(rng) -> Params:
  sizes = [A, Y, A * Y, A * A, A * BINS]
  keys = jax.random.split(rng, len(sizes) + 1)
  return Params(
    torso=0.1 * jax.random.normal(keys[0], (4, 16)),
    heads=tuple(
      0.1 * jax.random.normal(key, (16, size))
      for key, size in zip(keys[1:], sizes, strict=True)
    ),
  )


def _unroll(params: Params, state, observations, should_reset):
  assert state is None
  del should_reset
  hidden = jnp.tanh(observations @ params.torso)
  logits, y, z, aux_pi, q = (hidden @ head for head in params.heads)
  split = lambda x: x.reshape(x.shape[:-1] + (A, -1))
  outs = dict(logits=logits, y=y, z=split(z), aux_pi=split(aux_pi), q=split(q))
  return outs, None


def _rule() -> disco.DiscoUpdateRule:
  """Built from a ConfigDict that holds lists, as read from a file."""
  settings = small.settings('disco')

  def to_lists(value):
    if isinstance(value, config_dict.ConfigDict):
      return {k: to_lists(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value

  net = config_dict.ConfigDict(to_lists(settings.update_rule.net))
  assert isinstance(net.meta_rnn_kwargs.policy_channels, list)
  return disco.DiscoUpdateRule(
    net=net, value_discount=0.97, max_abs_value=5.0, num_bins=BINS
  )


def _rollout(rng) -> types.UpdateRuleInputs:
  """Experience without agent outputs, which depend on the parameters."""
  keys = jax.random.split(rng, 5)
  return types.UpdateRuleInputs(
    observations=jax.random.normal(keys[0], (T + 1, B, 4)),
    actions=jax.random.randint(keys[1], (T + 1, B), 0, A),
    rewards=jax.random.normal(keys[2], (T, B)),
    is_terminal=jax.random.bernoulli(keys[3], 0.2, (T, B)),
    agent_out=None,
    behaviour_agent_out=dict(logits=jax.random.normal(keys[4], (T + 1, B, A))),
  )


def _update_fn(rule, meta_params, hyper_params, axes):
  """One gradient step; a carry and a rollout to a carry and a loss."""

  def update(carry, rollout):
    params, meta_state = carry

    def loss_fn(params):
      agent_out, _ = _unroll(
        params, None, rollout.observations, rollout.should_reset_mask_fwd
      )
      loss, new_meta_state, _ = rule(
        meta_params,
        params,
        None,
        rollout.replace(agent_out=agent_out),
        hyper_params,
        meta_state,
        _unroll,
        jax.random.PRNGKey(0),
        axes,
      )
      return jnp.mean(loss), new_meta_state

    (loss, meta_state), grads = jax.value_and_grad(loss_fn, has_aux=True)(
      params
    )
    if axes is not None:
      grads, loss = jax.lax.pmean((grads, loss), axes)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return (params, meta_state), loss

  return update


def test_pmap_of_vmap_of_scan_is_one_big_batch():
  rule = _rule()
  rng = jax.random.PRNGKey(0)
  meta_params, _ = rule.init_params(rng)
  hyper_params = agent.get_settings_disco().hyper_params.to_dict()
  params = _init(rng)
  meta_state = rule.init_meta_state(rng, params)

  shape = (NUM_DEVICES, NUM_MAPPED, 2)  # Devices, mapped batches, updates.
  rollouts = jax.vmap(_rollout)(jax.random.split(rng, np.prod(shape)))
  rollouts = jax.tree.map(lambda x: x.reshape(shape + x.shape[1:]), rollouts)

  axes = ('batch', 'device')
  update = _update_fn(rule, meta_params, hyper_params, axes)
  train = lambda rollouts: jax.lax.scan(update, (params, meta_state), rollouts)
  sharded, sharded_losses = jax.pmap(
    jax.vmap(train, axis_name='batch'), axis_name='device'
  )(rollouts)

  def one_batch(x):
    # [D, M, N, T, B, ...] to [N, T, D * M * B, ...].
    x = jnp.moveaxis(x, (0, 1), (2, 3))
    return x.reshape(x.shape[:2] + (-1,) + x.shape[5:])

  update = _update_fn(rule, meta_params, hyper_params, None)
  single, losses = jax.jit(
    lambda rollouts: jax.lax.scan(update, (params, meta_state), rollouts)
  )(jax.tree.map(one_batch, rollouts))

  for d in range(NUM_DEVICES):
    for m in range(NUM_MAPPED):
      replica = jax.tree.map(lambda x, d=d, m=m: np.asarray(x[d, m]), sharded)
      golden.check_trees_close(replica, single, 2e-4)
      np.testing.assert_allclose(sharded_losses[d, m], losses, 2e-4)
