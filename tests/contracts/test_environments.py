"""The contract of environments, tested on every environment."""

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import agent
from disco_rl import utils
from disco_rl.environments import catch
from disco_rl.environments import registry
from disco_rl.environments.adapters import gymnax_env
from disco_rl.environments.wrappers import single_stream_env
from tests.support import environments
from tests.support import golden
from tests.support import leaks
from tests.support import scripted
from tests.support import small

FIRST, MID, LAST = (int(t) for t in dm_env.StepType)


# Processes take long to start; tests/environments/test_workers.py has more.
_SLOW = ('gym_workers', *environments.SLOW)


@pytest.fixture(
  params=[
    pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
    for name in sorted(environments.ENVIRONMENTS)
  ]
)
def make_env(request):
  environments.skip_without(request.param)
  made = []

  def make(batch_size):
    made.append(environments.ENVIRONMENTS[request.param](batch_size))
    return made[-1]

  yield make
  for env in made:
    env.close()


def test_timesteps_are_as_specified(make_env):
  env = make_env(4)
  trace = environments.play(env, 20)
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
  if env.has_action_mask:
    assert trace.action_mask.shape == (21, 4, action_spec.maximum + 1)
    assert trace.action_mask.dtype == bool
    assert trace.action_mask.any(axis=-1).all()
  else:
    assert trace.action_mask is None


def test_same_seed_same_game(make_env):
  golden.check_trees_close(
    environments.play(make_env(3), 15), environments.play(make_env(3), 15), 0
  )


def test_batch_of_zero_is_refused(make_env):
  with pytest.raises(ValueError, match='batch_size of at least 1, got 0'):
    make_env(0)


@pytest.mark.parametrize(
  'name',
  [
    pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
    for name in environments.JITTABLE
  ],
)
def test_jittable_under_jit_vmap_scan_and_leaks(name):
  env = environments.ENVIRONMENTS[name](2)

  def play(rng):
    def step(states, action):
      return env.step(states, action)

    states, _ = env.reset(rng)
    return jax.lax.scan(step, states, jnp.ones((12, 2), jnp.int32))[1]

  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  mapped = jax.jit(jax.vmap(play))(keys)
  for i, key in enumerate(keys):
    one = environments.play(env, 12, key, np.ones((12, 2), np.int32))
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
  batch = environments.play(small.environment(3), 15, rng, actions)
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
  batch = environments.play(
    catch.CatchEnvironment(3, config), 20, actions=actions
  )
  seeds = jax.random.randint(
    jax.random.PRNGKey(config.random_seed), (3,), 0, np.iinfo(np.int32).max
  )
  for i, seed in enumerate(seeds):
    stream = single_stream_env.SingleStreamEnv(
      catch.SingleStreamCatch(dict(rows=8, columns=8, random_seed=int(seed)))
    )
    timesteps = [stream.reset()[1]]
    timesteps += [stream.step(None, a)[1] for a in actions[:, i]]
    one = jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
    golden.check_trees_close(
      one, jax.tree.map(lambda x, i=i: x[:, i], batch), 0
    )


@pytest.mark.parametrize(
  'name',
  [
    *('scripted', 'dm', 'gym_factory'),
    pytest.param('gym_workers', marks=pytest.mark.slow),
  ],
)
def test_convention(name):
  """LAST has the terminal reward and the first observation of the next episode.

  Also where the episode was cut short by a time limit, as the second one is.
  """
  env = environments.ENVIRONMENTS[name](1)
  trace = environments.play(env, 6)
  env.close()
  names = [dm_env.StepType(t).name for t in trace.step_type[:, 0]]
  assert names == scripted.STEP_TYPES
  assert trace.reward[:, 0].tolist() == scripted.REWARDS
  assert trace.observation['clock'][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
  assert trace.observation['place'][:, 0].tolist() == scripted.PLACES
  assert trace.observation['clock'].dtype == np.int32


def test_convention_on_the_device():
  for limit in (9, 2):
    env = gymnax_env.GymnaxEnvironment(
      scripted.ScriptedGymnax(),
      scripted.gymnax_environment.EnvParams(max_steps_in_episode=limit),
      2,
      'scripted',
    )
    length = min(3, limit)
    trace = environments.play(env, 2 * length)
    cycle = [MID] * (length - 1) + [LAST]
    assert trace.step_type[:, 1].tolist() == [MID, *cycle, *cycle]
    assert trace.reward[:, 1].tolist() == [0, *(2 * [*range(1, length + 1)])]
    seen = [*range(1, length), 0]
    assert trace.observation[:, 1, 0].tolist() == [0, *seen, *seen]


def test_truncated_episodes_end_like_all_others():
  """A time limit gives LAST and, to the agent, a discount of 0."""
  env = registry.get_environment(
    'gym:CartPole-v1', 3, kwargs=dict(max_episode_steps=2)
  )
  states, timestep = env.reset(None)
  types_seen = [timestep.step_type]
  for _ in range(4):  # The pole does not fall within two steps.
    states, timestep = env.step(states, np.zeros(3, np.int32))
    types_seen.append(timestep.step_type)
  env.close()
  assert np.stack(types_seen)[:, 0].tolist() == [FIRST, MID, LAST, MID, LAST]
  names = {'observation', 'step_type', 'reward', 'action_mask'}
  assert set(timestep.keys()) == names and timestep.action_mask is None

  actor = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=small.settings('actor_critic'),
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)
  params = actor.initial_learner_state(rng).params
  step, _ = actor.actor_step(params, rng, timestep, {})
  assert not step.discounts.any()


def test_actions_and_states_are_not_mutated(make_env):
  env = make_env(2)
  states, _ = env.reset(jax.random.PRNGKey(0))
  actions = np.array([0, 1], np.int32)
  kept = utils.copy_tree((states, actions))
  env.step(states, actions)
  jax.tree.map(np.testing.assert_array_equal, (states, actions), kept)
