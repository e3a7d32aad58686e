"""Trains a Flax network with the discovered rule, in a custom training loop.

  python examples/flax_catch.py disco_103

The rule only needs a function that unrolls the network. Everything else here
(acting, optimiser, loop) could be your own code.
"""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import disco_rl
from disco_rl import agent
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.update_rules import disco

T, B, A, Y = 29, 64, 3, 600  # Steps, streams, actions, size of predictions.
OUTPUTS = dict(logits=(A,), y=(Y,), z=(A, Y), aux_pi=(A, A), q=(A, 601))


class Network(nn.Module):
  @nn.compact
  def __call__(self, observations):  # [..., 5, 5, 1] to the rule's outputs.
    x = observations.reshape(*observations.shape[:-3], -1)
    for size in (256, 256):
      x = nn.relu(nn.Dense(size)(x))
    init = nn.initializers.truncated_normal(1e-2)
    heads = {
      k: nn.DenseGeneral(s, kernel_init=init) for k, s in OUTPUTS.items()
    }
    return {name: head(x) for name, head in heads.items()}


def unroll(theta, state, observations, should_reset):
  return Network().apply(theta, observations), state  # No memory to reset.


def train(eta, num_updates, rng, learning_rate=1e-3):
  """Trains a network; returns the average return of every rollout, [N]."""
  env = registry.get_environment('catch', B, rows=5, columns=5)
  config = agent.get_settings_disco()
  rule = disco.DiscoUpdateRule(**config.update_rule)
  optimizer = optax.adam(learning_rate)

  def act(theta, stream, rng):  # One step of all environments.
    env_state, timestep = stream
    logits = Network().apply(theta, timestep.observation)['logits']
    actions = jax.random.categorical(rng, logits)
    return env.step(env_state, actions), (timestep, actions, logits)

  def loss_fn(theta, steps, meta_state, rng):
    timesteps, actions, logits = steps  # [T+1, B, ...]
    rollout = types.UpdateRuleInputs(
      observations=timesteps.observation,
      actions=actions,
      rewards=timesteps.reward[1:],
      is_terminal=timesteps.step_type[1:] == 2,
      agent_out=unroll(theta, None, timesteps.observation, None)[0],
      behaviour_agent_out=dict(logits=logits),
    )
    loss, meta_state, _ = rule(
      meta_params=eta,
      params=theta,
      state=None,
      rollout=rollout,
      hyper_params=config.hyper_params,
      meta_state=meta_state,
      unroll_policy_fn=unroll,
      rng=rng,
      axis_name=None,
    )
    # The last step of an episode shows the next one's first observation.
    mask = timesteps.step_type[:-1] != 2
    return jnp.mean(loss, where=mask), meta_state

  def update(carry, rng):
    theta, opt_state, meta_state, stream = carry
    keys = jax.random.split(rng, T + 1)
    stream, steps = jax.lax.scan(lambda *x: act(theta, *x), stream, keys)
    grad_fn = jax.grad(loss_fn, has_aux=True)
    grads, meta_state = grad_fn(theta, steps, meta_state, rng)
    updates, opt_state = optimizer.update(grads, opt_state)
    theta = optax.apply_updates(theta, updates)
    score = steps[0].reward.sum() / (steps[0].step_type == 2).sum()
    return (theta, opt_state, meta_state, stream), score

  init_rng, meta_rng, env_rng, rng = jax.random.split(rng, 4)
  stream = env.reset(env_rng)  # The environments' state, and a timestep.
  theta = Network().init(init_rng, stream[1].observation)
  meta_state = rule.init_meta_state(meta_rng, theta)
  carry = (theta, optimizer.init(theta), meta_state, stream)
  keys = jax.random.split(rng, num_updates)
  return jax.jit(lambda: jax.lax.scan(update, carry, keys)[1])()


if __name__ == '__main__':
  rule = disco_rl.load_rule(sys.argv[1] if len(sys.argv) > 1 else 'disco_103')
  scores = train(rule.eta, num_updates=300, rng=jax.random.PRNGKey(0))
  for i in range(0, 300, 20):
    print(f'update {i:3d}: average return {scores[i]:+.2f}')
