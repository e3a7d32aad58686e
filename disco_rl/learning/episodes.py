"""Sums up the returns of episodes, which may span several rollouts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types


class FinishedEpisodes(NamedTuple):
  """The episodes that ended during a rollout."""

  num_episodes: jax.Array  # [], float32
  total_return: jax.Array  # [], the sum of their returns.
  total_length: jax.Array  # [], the sum of their numbers of transitions.


class RunningEpisodes(NamedTuple):
  """The episodes that have not ended yet."""

  episode_return: jax.Array  # [B], so far.
  length: jax.Array  # [B], transitions so far, float32.


def init(batch_size: int) -> RunningEpisodes:
  """Makes the state of B streams before their first step."""
  # -1, since no transition leads to the first step of a stream.
  return RunningEpisodes(
    jnp.zeros(batch_size), jnp.full(batch_size, -1.0, jnp.float32)
  )


def keep(running: RunningEpisodes, goes_on: np.ndarray) -> RunningEpisodes:
  """Restarts the episodes of agents whose environments were reset.

  Args:
    running: leaves [agents, B].
    goes_on: [agents], bool, whether an agent's episodes continue.

  Returns:
    The episodes, those that do not continue as before their first step.
  """
  return jax.tree.map(
    # Not of NumPy, since arrays may be over several processes.
    lambda old, new: jnp.where(goes_on[:, None], old, new),
    running,
    init(running.length.shape[1]),
  )


def update(
  running: RunningEpisodes, rewards: types.Array, discounts: types.Array
) -> tuple[RunningEpisodes, FinishedEpisodes]:
  """Adds the rewards of one rollout to the running episodes.

  Args:
    running: from `init` or the last rollout.
    rewards: [T+1, B], each received on arriving at its step.
    discounts: [T+1, B], 0 exactly on the last step of an episode.

  Returns:
    The episodes that have not ended, and those that ended.
  """

  def step(
    running: RunningEpisodes, inputs: tuple[jax.Array, jax.Array]
  ) -> tuple[RunningEpisodes, FinishedEpisodes]:
    reward, discount = inputs
    total, length = running.episode_return + reward, running.length + 1
    goes_on = jnp.asarray(discount > 0, jnp.float32)
    ended = 1.0 - goes_on
    finished = FinishedEpisodes(
      jnp.sum(ended), jnp.sum(ended * total), jnp.sum(ended * length)
    )
    return RunningEpisodes(goes_on * total, goes_on * length), finished

  running, finished = jax.lax.scan(
    step, running, (jnp.asarray(rewards, jnp.float32), jnp.asarray(discounts))
  )
  return running, jax.tree.map(lambda x: jnp.sum(x, axis=0), finished)
