"""What every environment promises, checked on every environment."""

import functools

import dm_env
from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import jittable_envs
from disco_rl.environments import registry
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import single_stream_env
from tests import golden
from tests import leaks
from tests import small

FIRST, MID, LAST = (int(t) for t in dm_env.StepType)


class Scripted(dm_env.Environment):
  """Episodes of lengths 1, 2, 3, ...; what is seen counts all steps."""

  def __init__(self, seed: int = 0, action_dtype: type = np.int64):
    del seed
    self._action_dtype = action_dtype
    self._episode, self._step, self._clock = 0, 0, 0

  def _observation(self):
    # 64 bits, as many environments return.
    return dict(
      clock=np.asarray(self._clock, np.int64),
      place=np.asarray([self._episode, self._step], np.float64),
    )

  def reset(self):
    self._episode, self._step = self._episode + 1, 0
    return dm_env.restart(self._observation())

  def step(self, action):
    self._step += 1
    self._clock += 1
    make = dm_env.transition
    if self._step == self._episode:
      make = dm_env.termination
    return make(reward=float(self._clock), observation=self._observation())

  def observation_spec(self):
    return dict(
      clock=dm_env_specs.Array((), np.int64),
      place=dm_env_specs.Array((2,), np.float64),
    )

  def action_spec(self):
    return dm_env_specs.DiscreteArray(3, dtype=self._action_dtype)


def _scripted(batch: int, **kwargs) -> base.Environment:
  return batched_env.BatchedSingleStreamEnvironment(
    Scripted, batch, dict(random_seed=0, **kwargs)
  )


ENVIRONMENTS = {
  name: functools.partial(registry.get_environment, name)
  for name in registry.ENVIRONMENTS
} | {
  'scripted': _scripted,
  'scripted_int32': functools.partial(_scripted, action_dtype=np.int32),
}
JITTABLE = ('catch',)


@pytest.fixture(params=sorted(ENVIRONMENTS))
def make_env(request):
  return ENVIRONMENTS[request.param]


def _play(env, num_steps, rng=None, actions=None):
  rng = jax.random.PRNGKey(0) if rng is None else rng
  if actions is None:
    actions = np.random.RandomState(0).randint(3, size=(99, env.batch_size))
  states, timestep = env.reset(rng)
  timesteps = [timestep]
  for t in range(num_steps):
    states, timestep = env.step(states, jnp.asarray(actions[t], jnp.int32))
    timesteps.append(timestep)
  return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)


def test_timesteps_are_as_specified(make_env):
  env = make_env(4)
  trace = _play(env, 20)
  specs = jax.tree.leaves(env.single_observation_spec())
  batched = jax.tree.leaves(env.batched_observation_spec())
  leaves = jax.tree.leaves(trace.observation)
  assert len(specs) == len(leaves) == len(batched)
  for leaf, spec, batched_spec in zip(leaves, specs, batched, strict=True):
    assert leaf.shape == (21, 4) + spec.shape
    assert leaf.dtype == spec.dtype == batched_spec.dtype
    assert batched_spec.shape == (4,) + spec.shape
  assert trace.step_type.dtype == np.int32 and trace.reward.dtype == np.float32
  assert set(np.unique(trace.step_type[1:])) == {MID, LAST}
  assert (trace.reward[0] == 0).all()
  action_spec = env.single_action_spec()
  assert action_spec.shape == () and action_spec.dtype == np.int32
  assert env.batched_action_spec().shape == (4,)


def test_same_seed_same_game(make_env):
  golden.check_trees_close(_play(make_env(3), 15), _play(make_env(3), 15), 0)


def test_batch_of_zero_is_refused(make_env):
  with pytest.raises(ValueError, match='batch_size of at least 1, got 0'):
    make_env(0)


@pytest.mark.parametrize('name', JITTABLE)
def test_jittable_under_jit_vmap_scan_and_leaks(name):
  env = ENVIRONMENTS[name](2)

  def play(rng):
    def step(states, action):
      return env.step(states, action)

    states, _ = env.reset(rng)
    return jax.lax.scan(step, states, jnp.ones((12, 2), jnp.int32))[1]

  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  mapped = jax.jit(jax.vmap(play))(keys)
  for i, key in enumerate(keys):
    one = _play(env, 12, key, np.ones((12, 2), np.int32))
    golden.check_trees_close(
      jax.tree.map(lambda x, i=i: np.asarray(x[i]), mapped),
      jax.tree.map(lambda x: x[1:], one),
      0,
    )
  leaks.check_none(play, keys[0])
  step = jax.jit(env.step)
  states, _ = env.reset(keys[0])
  for _ in range(2):
    states, _ = step(states, jnp.zeros(2, jnp.int32))
  assert step._cache_size() == 1


def test_jittable_batch_is_its_streams_one_by_one():
  rng = jax.random.PRNGKey(4)
  actions = np.random.RandomState(1).randint(3, size=(15, 3))
  batch = _play(small.environment(3), 15, rng, actions)
  env = small.environment(1)
  for i, key in enumerate(jax.random.split(rng, 3)):
    # A single stream, started from the key the batch gives it.
    state, timestep = env._reset_stream(key)
    timesteps = [timestep]
    for action in actions[:, i]:
      state, timestep = env._step_stream(state, action)
      timesteps.append(timestep)
    one = jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
    golden.check_trees_close(
      one, jax.tree.map(lambda x, i=i: x[:, i], batch), 0
    )


def test_host_batch_is_its_streams_one_by_one():
  config = catch.get_config()
  actions = np.random.RandomState(1).randint(3, size=(20, 3))
  batch = _play(catch.CatchEnvironment(3, config), 20, actions=actions)
  seeds = jax.random.randint(
    jax.random.PRNGKey(config.random_seed), (3,), 0, np.iinfo(np.int32).max
  )
  for i, seed in enumerate(seeds):
    stream = single_stream_env.SingleStreamEnv(
      catch.SingleStreamCatch(rows=8, columns=8, seed=int(seed))
    )
    timesteps = [stream.reset()[1]]
    timesteps += [stream.step(None, a)[1] for a in actions[:, i]]
    one = jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
    golden.check_trees_close(
      one, jax.tree.map(lambda x, i=i: x[:, i], batch), 0
    )


def test_both_catches_play_the_same_game():
  numpy_env = catch.SingleStreamCatch(rows=6, columns=5, seed=3)
  jax_env = jittable_envs.SingleStreamCatch(
    config_dict.ConfigDict(dict(rows=6, columns=5))
  )
  rng = np.random.RandomState(0)
  for _ in range(5):
    timestep = numpy_env.reset()
    state = jittable_envs.CatchState(
      ball_row=jnp.asarray(0),
      ball_column=jnp.asarray(int(timestep.observation[0].argmax())),
      paddle_column=jnp.asarray(2),
    )
    while True:
      np.testing.assert_array_equal(
        jax_env.render(state)[..., 0], timestep.observation
      )
      assert bool(jax_env.is_terminal(state)) == timestep.last()
      assert float(jax_env.reward(state)) == (timestep.reward or 0.0)
      if timestep.last():
        break
      action = rng.randint(3)
      timestep = numpy_env.step(action)
      state = jax_env.step(None, state, jnp.asarray(action))


def test_catch_boards_are_copies():
  env = catch.SingleStreamCatch()
  before = env.reset().observation
  kept = before.copy()
  env.step(0)
  np.testing.assert_array_equal(before, kept)


def test_dm_env_convention():
  """LAST comes with the terminal reward and the next first observation."""
  env = ENVIRONMENTS['scripted'](1)
  trace = _play(env, 6)
  assert trace.step_type[:, 0].tolist() == [
    FIRST,
    LAST,
    MID,
    LAST,
    *[MID] * 2,
    LAST,
  ]
  assert trace.reward[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  assert trace.observation['clock'][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
  assert trace.observation['place'][:, 0].tolist() == [
    [1, 0],
    [2, 0],
    [2, 1],
    [3, 0],
    [3, 1],
    [3, 2],
    [4, 0],
  ]
  assert trace.observation['clock'].dtype == np.int32


def test_wrong_number_of_actions_is_refused():
  env = ENVIRONMENTS['catch_numpy'](2)
  states, _ = env.reset(None)
  with pytest.raises(ValueError, match=r'shape \(2,\), got \(3,\)'):
    env.step(states, np.zeros(3, np.int32))


@pytest.mark.parametrize(('rows', 'columns'), [(1, 5), (5, 0)])
def test_impossible_boards_are_refused(rows, columns):
  for build in (
    lambda: small.environment(1, rows, columns),
    lambda: catch.SingleStreamCatch(rows, columns),
  ):
    with pytest.raises(ValueError, match=f'rows={rows}, columns={columns}'):
      build()


def test_unknown_environments_and_settings_are_refused():
  with pytest.raises(ValueError, match=r"environment 'pong'.*catch"):
    registry.get_environment('pong', 2)
  with pytest.raises(ValueError, match=r"\['row'\] of catch.*'rows'"):
    registry.get_environment('catch', 2, row=5)
  env = registry.get_environment('catch', 2, rows=5)
  assert env.single_observation_spec()['observation'].shape == (5, 8, 1)


def test_actions_and_states_are_not_mutated(make_env):
  env = make_env(2)
  states, _ = env.reset(jax.random.PRNGKey(0))
  actions = np.array([0, 2], np.int32)
  kept = small.copy_tree((states, actions))
  env.step(states, actions)
  jax.tree.map(np.testing.assert_array_equal, (states, actions), kept)
