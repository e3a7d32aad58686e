"""Grid worlds with objects of positive and negative rewards.

What they demand of a rule: to find the way to some objects and around others,
in spite of slips, and to weigh an object that ends the episode or comes again
against those that are farther away. In some tasks the objects have fixed
places, in others the image has to be read.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import fields
from disco_rl import types
from disco_rl.environments.tasks import family

_NUM_MOVES = 4  # Up, down, left, right.
_NUM_OBJECTS = 3


class Params(NamedTuple):
  """A grid world; of its K objects, some may never appear."""

  height: jax.Array  # [], int32.
  width: jax.Array  # [], int32.
  slip: jax.Array  # [], how often a move is a random one.
  cost: jax.Array  # [], subtracted from every reward.
  exists: jax.Array  # [K], bool.
  rewards: jax.Array  # [K].
  ends: jax.Array  # [K], bool, whether finding the object ends the episode.
  respawn: jax.Array  # [K], how often it comes again, per step.
  is_fixed: jax.Array  # [], bool, whether places are part of the task.
  places: jax.Array  # [K], in [0, 1): the fixed places, see `_cell`.


class State(NamedTuple):
  """The state of a stream."""

  cell: jax.Array  # [], int32, row · max_size + column.
  places: jax.Array  # [K], int32, cells of the objects.
  is_there: jax.Array  # [K], bool, whether each has not been found.


@dataclasses.dataclass(frozen=True)
class Grids(family.Family):
  """Grid worlds of random sizes with up to three objects, one of them good.

  Attributes:
    max_size: most rows and columns.
    max_steps: most steps of an episode.
    max_slip: largest probability that a move is a random one.
    max_cost: largest cost of a step; half of the tasks have none.
    max_respawn: largest probability per step that a found object comes again;
      half of the objects never do.
    share_of_ends: probability that finding an object ends the episode.
    share_of_fixed: probability of a task whose objects have fixed places.
  """

  max_size: int = 5
  max_steps: int = 40
  max_slip: float = 0.2
  max_cost: float = 0.05
  max_respawn: float = 0.3
  share_of_ends: float = 0.4
  share_of_fixed: float = 0.5

  min_actions: ClassVar[int] = _NUM_MOVES
  num_start_draws: ClassVar[int] = 1 + _NUM_OBJECTS
  num_step_draws: ClassVar[int] = 2 + 2 * _NUM_OBJECTS
  setting_fields: ClassVar = dict(
    max_size=fields.Field(int, low=3, high=16),
    max_steps=fields.Field(int, low=10, high=1000),
    max_slip=fields.Field(float, low=0, high=1),
    max_cost=fields.Field(float, low=0, high=0.5),
    max_respawn=fields.Field(float, low=0, high=1),
    share_of_ends=fields.Field(float, low=0, high=1),
    share_of_fixed=fields.Field(float, low=0, high=1),
  )

  @property
  def observation_size(self) -> int:
    """One board for the agent and one for each object."""
    return (1 + _NUM_OBJECTS) * self.max_size**2

  def draw(self, rng: chex.PRNGKey, max_actions: int) -> family.Drawn:
    """Draws the board and its objects."""
    del max_actions
    scalar_rng, object_rng = jax.random.split(rng)
    u = jax.random.uniform(scalar_rng, (7,))
    own = jax.random.uniform(object_rng, (4, _NUM_OBJECTS))
    num_objects = family.pick_from(u[0], 1, _NUM_OBJECTS)
    index = jnp.arange(_NUM_OBJECTS)
    params = Params(
      height=family.pick_from(u[1], 3, self.max_size),
      width=family.pick_from(u[2], 3, self.max_size),
      slip=self.max_slip * u[3],
      cost=self.max_cost * jnp.maximum(2.0 * u[4] - 1.0, 0.0),
      exists=index < num_objects,
      # That of the first is positive, so that there is something to find.
      rewards=jnp.where(index == 0, own[0], 2.0 * own[0] - 1.0),
      ends=own[1] < self.share_of_ends,
      respawn=self.max_respawn * jnp.maximum(2.0 * own[2] - 1.0, 0.0),
      is_fixed=u[5] < self.share_of_fixed,
      places=own[3],
    )
    return family.Drawn(
      params,
      num_actions=jnp.asarray(_NUM_MOVES, jnp.int32),
      horizon=family.pick_from(u[6], 10, self.max_steps),
    )

  def start(self, params: Params, noise: jax.Array) -> State:
    """Puts the agent in a random cell, and all objects in theirs."""
    drawn = jnp.where(params.is_fixed, params.places, noise[1:])
    return State(
      cell=self._cell(params, noise[0]),
      places=self._cell(params, drawn),
      is_there=params.exists,
    )

  def step(
    self,
    params: Params,
    state: State,
    action: types.Array,
    noise: jax.Array,
  ) -> tuple[State, jax.Array, jax.Array]:
    """Moves the agent, and finds the objects in its new cell."""
    slips = noise[0] < params.slip
    move = jnp.where(slips, family.pick(noise[1], _NUM_MOVES), action)
    row, column = jnp.divmod(state.cell, self.max_size)
    step = 2 * (move % 2) - 1
    is_vertical = move < 2
    row = row + jnp.where(is_vertical, step, 0)
    column = column + jnp.where(is_vertical, 0, step)
    row = jnp.clip(row, 0, params.height - 1)
    column = jnp.clip(column, 0, params.width - 1)
    cell = row * self.max_size + column
    is_found = state.is_there & (state.places == cell)
    reward = jnp.sum(jnp.where(is_found, params.rewards, 0.0)) - params.cost
    is_over = jnp.any(is_found & params.ends)
    comes_again = noise[2 : 2 + _NUM_OBJECTS] < params.respawn
    comes_again &= params.exists & ~state.is_there
    new_places = self._cell(params, noise[2 + _NUM_OBJECTS :])
    moves = comes_again & ~params.is_fixed
    state = State(
      cell=cell,
      places=jnp.where(moves, new_places, state.places),
      is_there=(state.is_there & ~is_found) | comes_again,
    )
    return state, jnp.clip(reward, -1.0, 1.0), is_over

  def observe(self, params: Params, state: State) -> jax.Array:
    """Shows a board with the agent and one with each object, [D]."""
    del params
    shown = jnp.where(state.is_there, state.places, -1)
    cells = jnp.concatenate([state.cell[None], shown])
    boards = cells[:, None] == jnp.arange(self.max_size**2)
    return boards.astype(jnp.float32).reshape(-1)

  def _cell(self, params: Params, u: types.Array) -> jax.Array:
    """Converts numbers u in [0, 1) to cells, equally likely; int32."""
    index = family.pick(u, params.height * params.width)
    row, column = jnp.divmod(index, params.width)
    return row * self.max_size + column
