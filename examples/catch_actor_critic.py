"""Trains a hand-made actor-critic on Catch, all on the device.

Run it with `make eval`, or `python examples/catch_actor_critic.py --help`.
"""

import argparse
import time

import jax
import jax.numpy as jnp

from disco_rl import agent
from disco_rl import types
from disco_rl.environments import jittable_envs


def parse_arguments() -> argparse.Namespace:
  """Reads and checks the command line."""
  parser = argparse.ArgumentParser(
    description='Train an actor-critic agent on Catch.',
    formatter_class=argparse.ArgumentDefaultsHelpFormatter,
  )
  parser.add_argument('--updates', type=int, default=1500)
  parser.add_argument('--batch-size', type=int, default=64)
  parser.add_argument('--rollout-length', type=int, default=29)
  parser.add_argument('--learning-rate', type=float, default=3e-3)
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--report-every', type=int, default=150)
  arguments = parser.parse_args()
  for name in ('updates', 'batch_size', 'rollout_length', 'report_every'):
    if getattr(arguments, name) < 1:
      option = name.replace('_', '-')
      parser.error(f'--{option} must be at least 1')
  return arguments


def main() -> None:
  """Trains, and prints the average return as it goes."""
  arguments = parse_arguments()
  env = jittable_envs.CatchJittableEnvironment(
    arguments.batch_size, jittable_envs.get_config_catch()
  )
  settings = agent.get_settings_actor_critic()
  settings.learning_rate = arguments.learning_rate
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=settings,
    batch_axis_name=None,
  )

  def act(carry, rng):
    params, env_state, timestep = carry
    step, _ = an_agent.actor_step(params, rng, timestep, {})
    env_state, timestep = env.step(env_state, step.actions)
    return (params, env_state, timestep), step

  def update(carry, rng):
    state, env_state, timestep = carry
    act_rng, learn_rng = jax.random.split(rng)
    # A rollout of T transitions has T + 1 steps.
    step_rngs = jax.random.split(act_rng, arguments.rollout_length + 1)
    (_, env_state, timestep), steps = jax.lax.scan(
      act, (state.params, env_state, timestep), step_rngs
    )
    rollout = types.ActorRollout.from_timestep(steps)
    state, _, _ = an_agent.learner_step(
      learn_rng, rollout, state, {}, {}, is_meta_training=False
    )
    is_end = rollout.discounts == 0  # All of Catch's reward comes at the end.
    return (state, env_state, timestep), (
      jnp.sum(rollout.rewards * is_end),
      jnp.sum(is_end),
    )

  train = jax.jit(lambda carry, rngs: jax.lax.scan(update, carry, rngs))
  init_rng, env_rng, rng = jax.random.split(
    jax.random.PRNGKey(arguments.seed), 3
  )
  carry = (an_agent.initial_learner_state(init_rng), *env.reset(env_rng))
  print(' update   average return   updates/s')
  done = 0
  while done < arguments.updates:
    count = min(arguments.report_every, arguments.updates - done)
    rng, chunk_rng = jax.random.split(rng)
    start = time.perf_counter()
    carry, (returns, episodes) = jax.block_until_ready(
      train(carry, jax.random.split(chunk_rng, count))
    )
    speed = count / (time.perf_counter() - start)
    done += count
    average = returns.sum() / jnp.maximum(episodes.sum(), 1)
    print(f'{done:7d}   {average:14.3f}   {speed:9.1f}', flush=True)


if __name__ == '__main__':
  main()
