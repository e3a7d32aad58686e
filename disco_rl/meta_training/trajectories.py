"""Keys and first steps of the trajectories of a meta-update.

An agent acts for N trajectories of L steps and a validation trajectory of 2L,
one after the other.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from disco_rl import parallel
from disco_rl.config import meta_training as config_lib


def actor_keys(rng: chex.PRNGKey) -> tuple[chex.PRNGKey, chex.PRNGKey]:
  """Returns the keys with which `MetaAgent.init` resets an actor.

  Args:
    rng: the key that is passed to `init`.

  Returns:
    The keys of its environment and of the state of its network.
  """
  return rng, jax.random.split(rng, 3)[1]


def step_keys(
  rng: chex.PRNGKey, config: config_lib.Config, axis_name: Any | None = None
) -> chex.PRNGKey:
  """Makes the keys of all steps of one meta-update.

  Args:
    rng: the `act_rng` of `meta_gradient`.
    config: the sizes.
    axis_name: axis over which batches are sharded, or None.

  Returns:
    [N·L + 2L, ...]: those of the N trajectories of L steps, and of the
    validation trajectory of 2L.
  """
  num_updates, length = config.num_inner_updates, config.batching.rollout_length
  train_keys = jax.vmap(
    lambda key: jax.random.split(parallel.shard_key(key, axis_name), length)
  )(jax.random.split(rng, num_updates))  # [N, L, ...]
  valid_keys = jax.random.split(
    parallel.shard_key(rng, axis_name), config.validation_length
  )
  num_train = num_updates * length
  return jnp.concatenate(
    [train_keys.reshape(num_train, *valid_keys.shape[1:]), valid_keys]
  )


def starts(config: config_lib.Config) -> tuple[int, ...]:
  """Returns the first steps of all trajectories of `step_keys`, N + 1."""
  length = config.batching.rollout_length
  return tuple(n * length for n in range(config.num_inner_updates + 1))
