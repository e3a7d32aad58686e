"""Returns of the policy that chooses legal actions with equal probability."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import utils
from disco_rl.environments import registry
from disco_rl.networks import action_masks

NUM_STREAMS = 256
_STEPS_AT_ONCE = 100
_MAX_STEPS = 100_000


def returns(
  env: registry.EnvironmentFn,
  *,
  num_streams: int = NUM_STREAMS,
  seed: int = 0,
) -> np.ndarray:
  """Computes the returns of the first episodes of several streams.

  Only first episodes count: among those that end within some time, short ones
  would have too much weight.

  Args:
    env: makes the environment from a batch size and a seed.
    num_streams: B, how many episodes are played.
    seed: seed of environment and policy.

  Returns:
    [B], the returns.

  Raises:
    ValueError: if an episode does not end within 100 thousand steps.
  """
  made = env(num_streams, seed)
  try:
    num_actions = utils.get_num_actions_from_spec(made.single_action_spec())
    rng, reset_rng = jax.random.split(jax.random.PRNGKey(seed))

    def step(carry: Any, rng: Any) -> tuple[Any, None]:
      state, mask, total, is_running = carry
      if mask is None:
        actions = jax.random.randint(rng, (num_streams,), 0, num_actions)
      else:
        actions = action_masks.sample(rng, mask)
      state, timestep = made.step(state, actions)
      total += is_running * jnp.asarray(timestep.reward)
      is_running &= ~jnp.asarray(timestep.is_last)
      return (state, timestep.action_mask, total, is_running), None

    def steps(carry: Any, rngs: Any) -> Any:
      if made.is_jittable:
        return jax.lax.scan(step, carry, rngs)[0]
      for rng in rngs:
        carry, _ = step(carry, rng)
      return carry

    advance = jax.jit(steps) if made.is_jittable else steps
    state, timestep = made.reset(reset_rng)
    carry: Any = (
      state,
      timestep.action_mask,
      jnp.zeros(num_streams),
      jnp.ones(num_streams, bool),
    )
    for _ in range(_MAX_STEPS // _STEPS_AT_ONCE):
      rng, own = jax.random.split(rng)
      carry = advance(carry, jax.random.split(own, _STEPS_AT_ONCE))
      if not np.any(carry[3]):
        return np.asarray(carry[2])
  finally:
    made.close()
  raise ValueError(
    f'an episode of a random policy has not ended after {_MAX_STEPS} steps'
  )
