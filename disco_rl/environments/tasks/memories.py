"""Memory: repeat the symbol that was shown some steps ago.

What they demand of a rule: to train a recurrent network, by credit for what it
remembers. Agents without memory score as random ones do.
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
  """A sequence of symbols to repeat."""

  num_symbols: jax.Array  # [], int32.
  back: jax.Array  # [], int32, how many steps ago.
  penalty: jax.Array  # [], subtracted for a wrong symbol.


class State(NamedTuple):
  """The state of a stream."""

  shown: jax.Array  # [max_back + 1], int32, the latest first; -1 for none.


@dataclasses.dataclass(frozen=True)
class Memories(family.Family):
  """Streams of random symbols, each to be repeated some steps later.

  At every step a new symbol is shown; the action should name the one shown
  `back` steps before it. The first `back` actions have no reward.

  Attributes:
    max_back: most steps between a symbol and its repetition.
    max_steps: most steps of an episode with rewards.
  """

  max_back: int = 3
  max_steps: int = 15

  num_start_draws: ClassVar[int] = 1
  num_step_draws: ClassVar[int] = 1
  setting_fields: ClassVar = dict(
    max_back=fields.Field(int, low=1, high=32),
    max_steps=fields.Field(int, low=5, high=1000),
  )

  @property
  def observation_size(self) -> int:
    """One number per symbol."""
    return family.MAX_ACTIONS

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the number of symbols and how long each is remembered."""
    u = jax.random.uniform(rng, (4,))
    num_symbols = family.pick_from(u[0], 2, max_actions)
    back = family.pick_from(u[1], 1, self.max_back)
    horizon = back + family.pick_from(u[3], 5, self.max_steps)
    return family.Drawn(Params(num_symbols, back, u[2]), num_symbols, horizon)

  def start(self, params: Params, noise: jax.Array) -> State:
    """Shows the first symbol."""
    none = -jnp.ones(self.max_back, jnp.int32)
    first = family.pick(noise[0], params.num_symbols)
    return State(jnp.concatenate([first[None], none]))

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Rewards the right symbol, and shows the next one."""
    wanted = state.shown[params.back]
    reward = jnp.where(action == wanted, 1.0, -params.penalty)
    reward = jnp.where(wanted < 0, 0.0, reward)
    new = family.pick(noise[0], params.num_symbols)
    shown = jnp.concatenate([new[None], state.shown[:-1]])
    return State(shown), reward, jnp.zeros([], bool)

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows the latest symbol only, [D]."""
    del params
    return family.one_hot(state.shown[0], family.MAX_ACTIONS)
