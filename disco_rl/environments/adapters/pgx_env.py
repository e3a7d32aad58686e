"""Adapts pgx games of one player, `pgx:<id>`, which run on the device.

```python
env = registry.get_environment('pgx:2048', batch_size=8)
```

They are pure functions, so acting in them is compiled together with learning.
In 2048, moves that change nothing are illegal (see `networks.action_masks`); in
the five MinAtar games, all actions are always legal. Observations are booleans,
which networks convert, so that replay stores one byte for each.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from ml_collections import config_dict

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.wrappers import batched_jittable_env

_MINATAR = 'minatar-'


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings; raises a `ValueError` for unknown games."""
  _make(name)
  # Longest episode, since good agents may play on for ever; 0 for no limit.
  return config_dict.ConfigDict(dict(max_steps=0))


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(max_steps=fields.Field(int, low=0, high=fields.MAX_SEED))


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of a game.

  Args:
    name: an id of `pgx.available_envs()`, of a game of one player.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  kind = PgxStream if name.startswith(_MINATAR) else MaskedPgxStream
  stream = kind(_make(name), settings.max_steps)
  return batched_jittable_env.BatchedJittableEnvironment(
    lambda settings: stream, batch_size, settings
  )


class StreamState(NamedTuple):
  """The state of a game."""

  game: Any  # A `pgx.State`.
  num_steps: jax.Array  # [], int32, steps of the episode.


class PgxStream:
  """One stream of a pgx game, see `SingleStreamJittable`."""

  def __init__(self, env: Any, max_steps: int = 0):
    """Wraps a game.

    Args:
      env: a `pgx.Env` of one player.
      max_steps: steps after which an episode ends; 0 for no limit.
    """
    self._env = env
    self._max_steps = max_steps
    self.num_actions = int(env.num_actions)

  def initial_state(self, rng: chex.PRNGKey) -> StreamState:
    """Starts a game."""
    return StreamState(self._env.init(rng), jnp.zeros([], jnp.int32))

  def episode_reset(self, rng: chex.PRNGKey, state: StreamState) -> StreamState:
    """Starts the next game, independently of the last one."""
    del state
    return self.initial_state(rng)

  def step(
    self, rng: chex.PRNGKey, state: StreamState, action: types.Array
  ) -> StreamState:
    """Takes an action; an illegal one ends a game with a negative reward."""
    game = self._env.step(state.game, jnp.asarray(action), rng)
    return StreamState(game, state.num_steps + 1)

  def is_terminal(self, state: StreamState) -> jax.Array:
    """Returns whether the game is over, or lasted as long as it may; []."""
    is_over = state.game.terminated | state.game.truncated
    if not self._max_steps:
      return is_over
    return is_over | (state.num_steps >= self._max_steps)

  def reward(self, state: StreamState) -> jax.Array:
    """Returns the reward of the only player, []."""
    return state.game.rewards[0]

  def render(self, state: StreamState) -> jax.Array:
    """Returns the board, bool: [4, 4, 31] in 2048, [10, 10, C] in MinAtar."""
    return state.game.observation


class MaskedPgxStream(PgxStream):
  """One stream of a pgx game in which some actions are illegal."""

  def legal_actions(self, state: StreamState) -> jax.Array:
    """Returns the legal actions, [A], bool."""
    return state.game.legal_action_mask


def known_names() -> list[str]:
  """Lists the games of one player."""
  import pgx  # Here, so that this module can be imported without it.

  names = pgx.available_envs()
  return ['2048', *(name for name in names if name.startswith(_MINATAR))]


def _make(name: str) -> Any:
  """Makes a game; raises a `ValueError` if it is unknown or of two players."""
  import pgx  # Here, so that this module can be imported without it.

  utils.lookup(dict.fromkeys(pgx.available_envs()), name, 'pgx game')
  env = pgx.make(name)
  if env.num_players != 1:
    raise ValueError(
      f'pgx:{name} is a game of {env.num_players} players, which needs '
      f'opponents; games of one player are {", ".join(known_names())}'
    )
  return env
