"""Registers an agent network in Flax, for every rule and every command.

  python examples/flax_network.py
  disco-rl eval --net flax --use examples.flax_network

A network is three functions: `init`, `one_step` of a batch, and `unroll` along
a trajectory. Its outputs depend on the rule, and are given as specs.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

import disco_rl
from disco_rl import types
from disco_rl import utils


class Network(nn.Module):
  specs: dict  # Name to shape.
  sizes: tuple

  @nn.compact
  def __call__(self, observation):  # [N, ...] to name to [N, *shape]
    x = observation.reshape(observation.shape[0], -1)
    for size in self.sizes:
      x = nn.relu(nn.Dense(size)(x))
    init = nn.initializers.truncated_normal(1e-2)
    return {
      name: nn.Dense(math.prod(shape), kernel_init=init)(x).reshape(-1, *shape)
      for name, shape in self.specs.items()
    }


def build(out_spec, action_spec, model_out_spec, sizes=(128, 128)):
  """Builds the network, as three pure functions."""
  num_actions = utils.get_num_actions_from_spec(action_spec)
  specs = {name: spec.shape for name, spec in out_spec.items()}
  specs |= {k: (num_actions, *s.shape) for k, s in model_out_spec.items()}
  network = Network(specs, tuple(sizes))
  # Observations of several arrays would have to be concatenated.
  observation = lambda tree: jnp.asarray(jax.tree.leaves(tree)[0], jnp.float32)

  def init(rng, observations, should_reset):
    return network.init(rng, observation(observations)), {}

  def apply(params, state, observations, should_reset):
    x = observation(observations)
    lead = should_reset.shape  # [B] or [T+1, B]; the rest is one step.
    outs = network.apply(params, x.reshape(-1, *x.shape[len(lead) :]))
    outs = {k: out.reshape(*lead, *out.shape[1:]) for k, out in outs.items()}
    return outs, state

  return types.PolicyNetwork(init=init, one_step=apply, unroll=apply)


disco_rl.register_network('flax', build)


if __name__ == '__main__':
  result = disco_rl.evaluate(
    'catch', 'actor_critic', net='flax', num_iterations=300
  )
  print('average return by seed:', result.final_returns())
