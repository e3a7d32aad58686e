"""Random tabular MDPs: a table of transitions and a table of rewards.

What they demand of a rule: to weigh immediate rewards against what follows,
for any structure of transitions; bootstrapping from values helps, since the
same states are reached in many ways.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family

# Successors of a pair of state and action.
_NUM_SUCCESSORS = 2


class Params(NamedTuple):
  """An MDP."""

  num_states: jax.Array  # [], int32.
  num_goals: jax.Array  # [], int32; the last states end an episode.
  successors: jax.Array  # [S, A, 2], int32.
  first: jax.Array  # [S, A], probability of the first successor.
  rewards: jax.Array  # [S, A].


class State(NamedTuple):
  """The state of a stream."""

  place: jax.Array  # [], int32.


@dataclasses.dataclass(frozen=True)
class Mdps(family.Family):
  """MDPs with two random successors of each state and action.

  An episode starts in a random state, and ends in some states of some tasks.
  Rewards depend on state and action; a random share of them is not zero.

  Attributes:
    max_states: S, most states, shown one-hot.
    max_steps: most steps of an episode.
  """

  max_states: int = 10
  max_steps: int = 30

  num_start_draws: ClassVar[int] = 1
  num_step_draws: ClassVar[int] = 1
  setting_fields: ClassVar = dict(
    max_states=fields.Field(int, low=3, high=64),
    max_steps=fields.Field(int, low=5, high=1000),
  )

  @property
  def observation_size(self) -> int:
    """One number per state."""
    return self.max_states

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the tables."""
    scalar_rng, next_rng, first_rng, reward_rng = jax.random.split(rng, 4)
    u = jax.random.uniform(scalar_rng, (5,))
    pairs = (self.max_states, max_actions)
    num_states = family.pick_from(u[0], 3, self.max_states)
    value, mask = jax.random.uniform(reward_rng, (2, *pairs))
    share = family.between(u[1], 0.2, 1.0)
    params = Params(
      num_states=num_states,
      num_goals=family.pick_from(u[2], 0, num_states // 3),
      successors=family.pick(
        jax.random.uniform(next_rng, (*pairs, _NUM_SUCCESSORS)), num_states
      ),
      first=jax.random.uniform(first_rng, pairs, minval=0.5),
      rewards=jnp.where(mask < share, 2.0 * value - 1.0, 0.0),
    )
    return family.Drawn(
      params,
      num_actions=family.pick_from(u[3], 2, max_actions),
      horizon=family.pick_from(u[4], 5, self.max_steps),
    )

  def start(self, params: Params, noise: jax.Array) -> State:
    """Starts in any state that does not end an episode."""
    return State(family.pick(noise[0], params.num_states - params.num_goals))

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Draws a successor."""
    is_second = noise[0] >= params.first[state.place, action]
    index = params.successors[state.place, action, is_second.astype(jnp.int32)]
    is_over = index >= params.num_states - params.num_goals
    return State(index), params.rewards[state.place, action], is_over

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows the state, [S]."""
    del params
    return family.one_hot(state.place, self.max_states)
