"""Experience with action masks, at the small sizes."""

import jax
import jax.numpy as jnp

from disco_rl import agent
from disco_rl import types
from disco_rl import utils
from tests.support import masked
from tests.support import small

RULES = ('actor_critic', 'disco', 'policy_gradient', 'ppo')


def make_agent(rule, kind=masked.Doors, **net_args):
  config = small.settings(rule)
  with config.unlocked():
    config.net_settings.net_args.update(net_args)
  return agent.Agent.for_environment(masked.environment(3, kind), config)


def act(an_agent, kind=masked.Doors, num_steps=9, batch_size=3, seed=0):
  """Makes θ, η, a learner state and a rollout of several episodes."""
  rng = jax.random.PRNGKey(seed)
  env = masked.environment(batch_size, kind)
  eta, _ = an_agent.update_rule.init_params(rng)
  learner = an_agent.initial_learner_state(rng)
  # Away from uniform policies, and from a target network like the other.
  learner = learner.replace(
    params=jax.tree.map(
      lambda x: x + 0.3 * jax.random.normal(rng, x.shape), learner.params
    )
  )
  state, timestep = env.reset(rng)
  net_state = an_agent.initial_actor_state(rng, batch_size)
  steps = []
  actor_step, env_step = jax.jit(an_agent.actor_step), jax.jit(env.step)
  for key in jax.random.split(rng, num_steps):
    step, net_state = actor_step(learner.params, key, timestep, net_state)
    state, timestep = env_step(state, step.actions)
    steps.append(step)
  rollout = types.ActorRollout.from_timestep(utils.tree_stack(steps))
  return eta, learner, rollout


def all_finite(tree):
  return all(
    bool(jnp.isfinite(x).all())
    for x in jax.tree.leaves(tree)
    if jnp.issubdtype(x.dtype, jnp.floating)
  )
