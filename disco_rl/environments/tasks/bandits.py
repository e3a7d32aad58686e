"""Bandits: the reward depends on the action, and perhaps on a context.

What they demand of a rule: to prefer actions by their average reward, whatever
its level and noise, without giving up the others too early; in contextual
bandits, per observation. Nothing has later consequences, so that values of
later steps are only noise.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family


class Params(NamedTuple):
  """A bandit."""

  num_contexts: jax.Array  # [], int32.
  means: jax.Array  # [C, A], average rewards.
  noise: jax.Array  # [], how often a reward is -1 or 1 instead of the mean.


class State(NamedTuple):
  """What a stream shows."""

  context: jax.Array  # [], int32.


@dataclasses.dataclass(frozen=True)
class Bandits(family.Family):
  """Bandits with a random context at every step.

  A task has random average rewards, of random level and spread. A reward is the
  average, or, with a probability that is part of the task, -1 or 1 such that
  its expectation is the average.

  Attributes:
    max_contexts: C, most contexts; a task has 1 if it is 1, else 2 or more.
    max_steps: most steps of an episode.
    max_noise: largest probability of a noisy reward.
  """

  max_contexts: int = 1
  max_steps: int = 4
  max_noise: float = 1.0

  num_start_draws: ClassVar[int] = 1
  num_step_draws: ClassVar[int] = 3
  setting_fields: ClassVar = dict(
    max_contexts=fields.Field(int, low=1, high=32),
    max_steps=fields.Field(int, low=1, high=100),
    max_noise=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """One number per context."""
    return self.max_contexts

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the numbers of contexts and actions, and average rewards."""
    scalar_rng, means_rng = jax.random.split(rng)
    u = jax.random.uniform(scalar_rng, (6,))
    spread = family.between(u[0], 0.2, 1.0)
    level = (1.0 - spread) * family.between(u[1], -1.0, 1.0)
    shape = (self.max_contexts, max_actions)
    means = level + spread * jax.random.uniform(means_rng, shape, minval=-1.0)
    params = Params(
      num_contexts=family.pick_from(
        u[2], min(2, self.max_contexts), self.max_contexts
      ),
      means=jnp.clip(means, -1.0, 1.0),
      noise=self.max_noise * u[3],
    )
    return family.Drawn(
      params,
      num_actions=family.pick_from(u[4], 2, max_actions),
      horizon=family.pick_from(u[5], 1, self.max_steps),
    )

  def start(self, params: Params, noise: jax.Array) -> State:
    """Draws the first context."""
    return State(family.pick(noise[0], params.num_contexts))

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Draws a reward and the next context."""
    mean = params.means[state.context, action]
    extreme = jnp.where(2.0 * noise[1] - 1.0 < mean, 1.0, -1.0)
    reward = jnp.where(noise[0] < params.noise, extreme, mean)
    context = family.pick(noise[2], params.num_contexts)
    return State(context), reward, jnp.zeros([], bool)

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows the context, [C]."""
    del params
    return family.one_hot(state.context, self.max_contexts)
