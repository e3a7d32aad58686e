"""The discovered rule around a Flax network, in a loop of one's own.

  python examples/flax_catch.py --rule disco_103

The rule needs nothing of a network but a function that unrolls it. Everything
else here (acting, optimiser, loop) could be your own code.
"""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disco_rl import rule_params
from disco_rl import settings
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.update_rules import disco

T, B, A, Y, BINS = 29, 64, 3, 600, 601


class Network(nn.Module):
  @nn.compact
  def __call__(self, observations):  # [..., 5, 5, 1] to the rule's outputs.
    x = observations.reshape(*observations.shape[:-3], -1)
    for size in (256, 256):
      x = nn.relu(nn.Dense(size)(x))
    shapes = dict(logits=(A,), y=(Y,), z=(A, Y), aux_pi=(A, A), q=(A, BINS))
    init = nn.initializers.truncated_normal(1e-2)
    return {
      name: nn.DenseGeneral(shape, kernel_init=init)(x)
      for name, shape in shapes.items()
    }


network = Network()


def unroll(theta, state, observations, should_reset):
  return network.apply(theta, observations), state  # It has no memory.


def train(eta, num_updates, rng, learning_rate=1e-3):
  """Returns the average reward of each update's rollout, [num_updates]."""
  env = registry.get_environment('catch', B, rows=5, columns=5)
  config = settings.get_settings_disco()
  rule = disco.DiscoUpdateRule(**config.update_rule)
  optimizer = optax.adam(learning_rate)
  init_rng, meta_rng, env_rng, rng = jax.random.split(rng, 4)
  env_state, timestep = env.reset(env_rng)
  theta = network.init(init_rng, timestep.observation)
  meta_state = rule.init_meta_state(meta_rng, theta)

  def act(theta, carry, rng):  # One step of all environments.
    env_state, timestep = carry
    logits = network.apply(theta, timestep.observation)['logits']
    actions = jax.random.categorical(rng, logits)
    return env.step(env_state, actions), (timestep, actions, logits)

  def update(carry, rng):
    theta, opt_state, meta_state, stream = carry
    act_rng, rule_rng = jax.random.split(rng)
    stream, (steps, actions, logits) = jax.lax.scan(
      lambda c, k: act(theta, c, k), stream, jax.random.split(act_rng, T + 1)
    )

    def loss_fn(theta):
      rollout = types.UpdateRuleInputs(
        observations=steps.observation,
        actions=actions,
        rewards=steps.reward[1:],
        is_terminal=steps.step_type[1:] == 2,
        agent_out=network.apply(theta, steps.observation),
        behaviour_agent_out=dict(logits=logits),
      )
      loss, new_meta_state, _ = rule(
        eta,
        theta,
        None,
        rollout,
        config.hyper_params,
        meta_state,
        unroll,
        rule_rng,
        axis_name=None,
      )
      return jnp.mean(loss), new_meta_state

    grads, meta_state = jax.grad(loss_fn, has_aux=True)(theta)
    updates, opt_state = optimizer.update(grads, opt_state)
    theta = optax.apply_updates(theta, updates)
    is_end = steps.step_type == 2
    score = jnp.sum(steps.reward) / jnp.sum(is_end)  # Reward per episode.
    return (theta, opt_state, meta_state, stream), score

  carry = (theta, optimizer.init(theta), meta_state, (env_state, timestep))
  keys = jax.random.split(rng, num_updates)
  return jax.jit(lambda: jax.lax.scan(update, carry, keys)[1])()


if __name__ == '__main__':
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--rule', default='disco_103', help='name or path')
  parser.add_argument('--updates', type=int, default=300)
  arguments = parser.parse_args()
  scores = train(
    rule_params.load(arguments.rule), arguments.updates, jax.random.PRNGKey(0)
  )
  for i in range(0, arguments.updates, max(1, arguments.updates // 20)):
    print(f'update {i:4d}: average return {scores[i]:+.2f}')
