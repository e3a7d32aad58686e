"""Games of pgx."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments import registry
from tests.support import environments

pgx = pytest.importorskip('pgx', reason='needs the package pgx')


@pytest.mark.parametrize('name', ['chess', 'tic_tac_toe', 'kuhn_poker'])
def test_games_of_two_players_are_refused(name):
  with pytest.raises(ValueError) as raised:
    registry.get_environment(f'pgx:{name}', 2)
  assert str(raised.value).startswith(
    f'pgx:{name} is a game of 2 players, which needs opponents; games of one '
    'player are 2048, minatar-asterix, '
  )


def test_unknown_games_are_refused():
  with pytest.raises(ValueError, match='did you mean minatar-breakout'):
    registry.get_environment('pgx:minatar-brakout', 2)
  with pytest.raises(ValueError, match='max_steps'):
    registry.get_environment('pgx:2048', 2, max_steps=-1)


def test_2048_is_played_as_pgx_plays_it():
  env = registry.get_environment('pgx:2048', 2)
  assert env.has_action_mask
  states, timestep = env.reset(jax.random.PRNGKey(0))
  step = jax.jit(env.step)
  game = jax.tree.map(lambda x: x[0], states.state.game)
  own_step = jax.jit(pgx.make('2048').step)
  rewards = 0.0
  for t in range(40):
    assert timestep.observation.shape == (2, 4, 4, 31)
    np.testing.assert_array_equal(timestep.observation[0], game.observation)
    np.testing.assert_array_equal(
      timestep.action_mask[0], game.legal_action_mask
    )
    actions = jnp.argmax(timestep.action_mask, axis=1)
    key = jax.random.fold_in(states.rng[0], 2)
    states, timestep = step(states, actions.astype(jnp.int32))
    game = own_step(game, actions[0], key)
    assert timestep.reward[0] == game.rewards[0]
    if game.terminated:
      assert timestep.is_last[0] and t > 10
      break
    rewards += float(timestep.reward[0])
  assert rewards > 0


def test_an_illegal_move_ends_the_game():
  env = registry.get_environment('pgx:2048', 32)
  states, timestep = env.reset(jax.random.PRNGKey(1))
  step = jax.jit(env.step)
  for _ in range(5):
    illegal = ~timestep.action_mask
    actions = jnp.argmax(illegal, axis=1).astype(jnp.int32)
    states, timestep = step(states, actions)
    has_illegal = np.asarray(illegal.any(axis=1))
    assert (np.asarray(timestep.is_last) >= has_illegal).all()
    assert (np.asarray(timestep.reward)[has_illegal] == -1).all()
    # The mask is that of the next game, in which some move is legal.
    assert timestep.action_mask.any(axis=1).all()
    if has_illegal.any():
      return
  raise AssertionError('all moves were always legal')


@pytest.mark.parametrize(
  'name',
  [
    *('breakout', 'freeway', 'space_invaders'),
    *(pytest.param(x, marks=pytest.mark.slow) for x in ('asterix', 'seaquest')),
  ],
)
def test_minatar(name):
  env = registry.get_environment(f'pgx:minatar-{name}', 3, max_steps=5)
  assert registry.suggested_network(f'pgx:minatar-{name}') == 'conv'
  trace = environments.play(env, 10)
  assert trace.action_mask is None
  assert trace.observation.shape[:4] == (11, 3, 10, 10)
  assert trace.observation.dtype == bool and trace.observation.any()
  is_last = trace.step_type == environments.LAST
  assert is_last[1:6].any(axis=0).all() and is_last[6:].any(axis=0).all()
