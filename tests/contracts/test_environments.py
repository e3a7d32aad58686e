"""What every environment promises, checked on every environment."""

import functools
import gc
import importlib.util
import multiprocessing
import os
import pathlib
import signal

import dm_env
import gymnasium
import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import agent
from disco_rl.environments import base
from disco_rl.environments import catch
from disco_rl.environments import factories
from disco_rl.environments import jittable_envs
from disco_rl.environments import registry
from disco_rl.environments.adapters import gymnasium_env
from disco_rl.environments.adapters import gymnax_env
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import batched_jittable_env
from disco_rl.environments.wrappers import single_stream_env
from disco_rl.environments.wrappers import worker_env
from disco_rl.evaluation import evaluate
from disco_rl.evaluation import population
from disco_rl.meta_training import meta_train
from tests.support import golden
from tests.support import leaks
from tests.support import scripted
from tests.support import small

FIRST, MID, LAST = (int(t) for t in dm_env.StepType)


def _scripted(batch: int, **kwargs) -> base.Environment:
  make = lambda settings: scripted.Scripted(settings.random_seed, **kwargs)
  return batched_env.BatchedSingleStreamEnvironment(
    make, batch, dict(random_seed=0)
  )


def _named(name: str, **settings):
  return functools.partial(registry.get_environment, name, **settings)


# Settings with which episodes are short.
ENVIRONMENTS = {
  **{name: _named(name) for name in registry.ENVIRONMENTS},
  'scripted': _scripted,
  'scripted_int32': functools.partial(_scripted, action_dtype=np.int32),
  'dm': _named('dm:tests.support.scripted:Scripted'),
  'gym': _named('gym:CartPole-v1', kwargs=dict(max_episode_steps=7)),
  'gym_factory': _named('gym:tests.support.scripted:ScriptedGym'),
  'gym_workers': _named(
    'gym:tests.support.scripted:ScriptedGym', num_workers=1
  ),
  'gymnax': _named(
    'gymnax:Breakout-MinAtar', params=dict(max_steps_in_episode=7)
  ),
  'atari': _named('atari:Pong', max_frames=40),
}
JITTABLE = ('catch', 'gymnax')


@pytest.fixture(params=sorted(ENVIRONMENTS))
def make_env(request):
  made = []

  def make(batch_size):
    made.append(ENVIRONMENTS[request.param](batch_size))
    return made[-1]

  yield make
  for env in made:
    env.close()


def _play(env, num_steps, rng=None, actions=None):
  rng = jax.random.PRNGKey(0) if rng is None else rng
  if actions is None:
    num_actions = env.single_action_spec().maximum + 1
    actions = np.random.RandomState(0).randint(
      num_actions, size=(num_steps, env.batch_size)
    )
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
      catch.SingleStreamCatch(dict(rows=8, columns=8, random_seed=int(seed)))
    )
    timesteps = [stream.reset()[1]]
    timesteps += [stream.step(None, a)[1] for a in actions[:, i]]
    one = jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
    golden.check_trees_close(
      one, jax.tree.map(lambda x, i=i: x[:, i], batch), 0
    )


def test_both_catches_play_the_same_game():
  numpy_env = catch.SingleStreamCatch(dict(rows=6, columns=5, random_seed=3))
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
  env = catch.SingleStreamCatch(catch.get_config())
  before = env.reset().observation
  kept = before.copy()
  env.step(0)
  np.testing.assert_array_equal(before, kept)


@pytest.mark.parametrize(
  'name', ['scripted', 'dm', 'gym_factory', 'gym_workers']
)
def test_convention(name):
  """LAST comes with the terminal reward and the next first observation.

  Also where the episode was cut short by a time limit, as the second one is.
  """
  env = ENVIRONMENTS[name](1)
  trace = _play(env, 6)
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
    trace = _play(env, 2 * length)
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
  for _ in range(4):  # Nobody falls within two steps.
    states, timestep = env.step(states, np.zeros(3, np.int32))
    types_seen.append(timestep.step_type)
  env.close()
  assert np.stack(types_seen)[:, 0].tolist() == [FIRST, MID, LAST, MID, LAST]
  assert set(timestep.keys()) == {'observation', 'step_type', 'reward'}

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


class _Noisy:
  """Every step ends an episode, draws a number, and so does the reset."""

  num_actions = 2

  def __init__(self, env_settings=None):
    pass

  def initial_state(self, rng):
    return dict(reset=jax.random.uniform(rng), step=jnp.zeros([]))

  def episode_reset(self, rng, state):
    return dict(reset=jax.random.uniform(rng), step=state['step'])

  def step(self, rng, state, action):
    return dict(state, step=jax.random.uniform(rng))

  def is_terminal(self, state):
    return jnp.asarray(True)

  def render(self, state):
    return jnp.stack([state['reset'], state['step']])

  def reward(self, state):
    return jnp.zeros([])


def test_step_and_reset_draw_different_numbers():
  env = batched_jittable_env.BatchedJittableEnvironment(_Noisy, 4, {})
  trace = _play(env, 30, actions=np.zeros((30, 4), int)).observation[1:]
  resets, steps = trace[..., 0], trace[..., 1]
  assert (resets != steps).all()
  assert abs(np.corrcoef(resets.ravel(), steps.ravel())[0, 1]) < 0.3
  assert len(np.unique(trace)) == trace.size
  # The reset's key is the published one: the second of the stream's key.
  key = jax.random.split(jax.random.PRNGKey(0), 4)[0]
  key, _ = jax.random.split(key)
  key, used_now = jax.random.split(key)
  assert resets[0, 0] == jax.random.uniform(used_now)


def test_classes_get_their_settings_as_they_take_them():
  """As one object, as the published Catch does, or as keywords."""
  seen = []

  class WithObject(_Noisy):
    def __init__(self, env_settings):
      seen.append((env_settings.rows, env_settings['size']))

  class WithKeywords(_Noisy):
    def __init__(self, rows, size=0):
      seen.append((rows, size))

  class WithAnyKeywords(_Noisy):
    def __init__(self, **kwargs):
      seen.append((kwargs['rows'], kwargs['size']))

  class Refusing(_Noisy):
    def __init__(self, rows, columns=3):
      pass

  make = batched_jittable_env.BatchedJittableEnvironment
  settings = config_dict.ConfigDict(dict(rows=5, size=2))
  for env_class in (WithObject, WithKeywords, WithAnyKeywords):
    make(env_class, 2, settings)
  assert seen == [(5, 2)] * 3
  with pytest.raises(TypeError, match="'size'"):
    make(Refusing, 2, settings)


def test_streams_have_seeds_of_their_own_in_their_settings():
  seeds = []

  class Seeded(scripted.Scripted):
    def __init__(self, env_settings):
      super().__init__()
      seeds.append((env_settings.random_seed, env_settings.inner.size))

  settings = config_dict.ConfigDict(dict(random_seed=1, inner=dict(size=3)))
  make = batched_env.BatchedSingleStreamEnvironment
  make(Seeded, 3, settings)
  wanted = jax.random.randint(
    jax.random.PRNGKey(1), (3,), 0, np.iinfo(np.int32).max
  )
  assert seeds == [(int(seed), 3) for seed in wanted]
  assert settings.random_seed == 1
  with pytest.raises(ValueError, match=r"random_seed.*got \['rows'\]"):
    make(Seeded, 3, dict(rows=3))


def test_wrong_number_of_actions_is_refused():
  env = ENVIRONMENTS['catch_numpy'](2)
  states, _ = env.reset(None)
  with pytest.raises(ValueError, match=r'shape \(2,\), got \(3,\)'):
    env.step(states, np.zeros(3, np.int32))


@pytest.mark.parametrize(('rows', 'columns'), [(1, 5), (5, 0)])
def test_impossible_boards_are_refused(rows, columns):
  for build in (
    lambda: small.environment(1, rows, columns),
    lambda: catch.SingleStreamCatch(dict(rows=rows, columns=columns)),
  ):
    with pytest.raises(ValueError, match=f'rows={rows}, columns={columns}'):
      build()


def test_unknown_environments_and_settings_are_refused():
  for name, message in {
    'pong': r"environment 'pong'.*catch.*gym:<id>",
    'gymm:CartPole-v1': r'did you mean gym:CartPole-v1\?',
    'gym:CartPol-v1': r'did you mean CartPole-v1',
    'gymnax:Breakout': r'did you mean Breakout-MinAtar',
    'atari:Ping': r'did you mean pong',
    'dm:tests.support.scripted:Nothing': r'must be dm:module:function',
    'gym:': r'write gym:<id>',
    'gym:Pendulum-v1': r'gym:Pendulum-v1 has actions Box.*only discrete',
    'gymnax:Pendulum-v1': r'only discrete',
  }.items():
    with pytest.raises(ValueError, match=message):
      registry.get_environment(name, 2)
  with pytest.raises(ValueError, match=r"\['row'\] of catch.*'rows'"):
    registry.get_environment('catch', 2, row=5)
  env = registry.get_environment('catch', 2, rows=5)
  assert env.single_observation_spec()['observation'].shape == (5, 8, 1)


def test_actions_and_states_are_not_mutated(make_env):
  env = make_env(2)
  states, _ = env.reset(jax.random.PRNGKey(0))
  actions = np.array([0, 1], np.int32)
  kept = small.copy_tree((states, actions))
  env.step(states, actions)
  jax.tree.map(np.testing.assert_array_equal, (states, actions), kept)


def test_missing_packages_are_named_with_their_extra(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  for family in ('gym', 'gymnax', 'atari'):
    with pytest.raises(ValueError, match=rf"install -e '.*\[{family}\]'"):
      registry.default_settings(f'{family}:Anything')


@pytest.mark.parametrize(
  ('name', 'meant'),
  [
    ('CartPole-v1', 'gym:CartPole-v1'),
    ('ALE/Pong-v5', 'atari:Pong'),
    ('PongNoFrameskip-v4', 'atari:Pong'),
    ('Breakout-MinAtar', 'gymnax:Breakout-MinAtar'),
    ('cath', 'catch'),
    ('gymn:CartPole-v1', 'gym:CartPole-v1'),
  ],
)
def test_names_without_their_family_are_suggested(name, meant):
  with pytest.raises(ValueError, match=f'did you mean {meant}'):
    registry.default_settings(name)


def test_an_object_is_refused_where_a_function_is_wanted():
  env = registry.get_environment('catch', 2)
  message = 'by its name or by a function that makes one'
  with pytest.raises(ValueError, match=message):
    evaluate.evaluate(env, 'actor_critic')
  with pytest.raises(ValueError, match=message):
    population.Population(env, None, None)
  with pytest.raises(ValueError, match=message):
    meta_train.meta_train(env)
  with pytest.raises(ValueError, match='must be registered as a function'):
    registry.register_environment('mine', env)


def test_an_environment_of_ones_own_in_two_lines(monkeypatch):
  monkeypatch.setattr(registry, 'ENVIRONMENTS', dict(registry.ENVIRONMENTS))
  make = lambda batch_size, _: _scripted(batch_size)
  registry.register_environment('mine', make)
  registry.register_environment('mine', make)  # As in a notebook.
  assert registry.get_environment('mine', 3).batch_size == 3
  for taken in ('catch', 'gym', 'gym:mine'):
    with pytest.raises(ValueError, match='cannot be registered'):
      registry.register_environment(taken, _scripted)


def test_every_kind_of_gym_observation():
  env = registry.get_environment('gym:tests.support.scripted:SpacesGym', 2)
  trace = _play(env, 3).observation
  specs = env.single_observation_spec()
  assert specs['image'].dtype == np.uint8  # Until the network.
  assert trace['image'][:, 0, 0, 0, 0].tolist() == [0, 10, 20, 30]
  np.testing.assert_array_equal(trace['number'][:, 1], np.eye(4))
  np.testing.assert_array_equal(trace['pair'][0][0, 0], [0, 1, 0, 0, 1])
  np.testing.assert_array_equal(trace['pair'][1][0, 0], [0, 1])


def test_unsupported_observations_are_refused():
  space = gymnasium.spaces.Dict(a=gymnasium.spaces.Text(5))
  with pytest.raises(ValueError, match='x/a has observations Text'):
    gymnasium_env._encoder(space, 'x')


def test_stacked_frames_begin_with_the_first_repeated():
  env = registry.get_environment(
    'gym:tests.support.scripted:ScriptedGym', 1, frame_stack=2
  )
  trace = _play(env, 5)
  spec = env.single_observation_spec()
  assert spec['place'].shape == (4,) and spec['clock'].shape == (2,)
  # Nothing of an episode is seen in the next.
  assert trace.observation['place'][:, 0].tolist() == [
    [1, 0, 1, 0],
    [2, 0, 2, 0],
    [2, 0, 2, 1],
    [3, 0, 3, 0],
    [3, 0, 3, 1],
    [3, 1, 3, 2],
  ]


def test_atari_frames_of_an_episode_do_not_reach_the_next():
  """After a time limit, what is seen is what a new game looks like."""
  env = registry.get_environment('atari:Pong', 2, max_frames=40, max_noops=0)
  trace = _play(env, 25)
  ends = np.flatnonzero(trace.step_type[:, 0] == LAST)
  assert len(ends) >= 2
  first = trace.observation[0, 0]
  for end in ends:
    np.testing.assert_array_equal(trace.observation[end, 0], first)
  assert (trace.observation[ends[0] - 1, 0] != first).any()
  env.close()


def test_atari_lives_and_rewards():
  """The same game, told in other episodes and with clipped rewards."""
  traces = []
  for changes in (dict(), dict(life_is_episode=True, clip_rewards=True)):
    env = registry.get_environment('atari:SpaceInvaders', 1, **changes)
    traces.append(_play(env, 700))
    env.close()
  games, lives = traces
  np.testing.assert_array_equal(games.observation, lives.observation)
  assert games.reward.max() > 1
  np.testing.assert_array_equal(np.sign(games.reward), lives.reward)
  game_ends, life_ends = (
    set(np.flatnonzero(t.step_type == LAST)) for t in traces
  )
  assert game_ends < life_ends and len(game_ends) >= 1
  # Three lives in a game.
  assert len([end for end in life_ends if end <= min(game_ends)]) == 3


def test_streams_are_the_same_in_any_number_of_processes():
  traces = []
  for num_workers in (0, 2):
    env = registry.get_environment(
      'gym:CartPole-v1',
      4,
      num_workers=num_workers,
      kwargs=dict(max_episode_steps=7),
    )
    traces.append(_play(env, 20))
    env.close()
  golden.check_trees_close(*traces, 0)
  # The streams themselves differ.
  assert (traces[0].observation[0, 0] != traces[0].observation[0, 1]).any()
  with pytest.raises(ValueError, match='0 or divide the 4'):
    registry.get_environment('gym:CartPole-v1', 4, num_workers=3)


def test_grey_frames_are_stacked_as_channels():
  frames = [np.full((4, 3), i) for i in range(2)]
  assert gymnasium_env._stack_frames(*frames).shape == (4, 3, 2)
  coloured = [frame[..., None] for frame in frames]
  assert gymnasium_env._stack_frames(*coloured).shape == (4, 3, 2)


MODULE = """
import gymnasium
from tests.support import scripted
gymnasium.register('Mine-v0', scripted.ScriptedGym)
"""


def test_ids_that_a_module_registers(tmp_path, monkeypatch):
  """In this process and in workers, named with the module or imported."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[2])
  monkeypatch.setattr(factories, 'IMPORTED', [])
  (tmp_path / 'my_gym.py').write_text(MODULE)
  for name in ('gym:my_gym:Mine-v0', 'gym:Mine-v0'):
    for num_workers in (0, 1):
      env = registry.get_environment(name, 1, num_workers=num_workers)
      assert _play(env, 2).reward[:, 0].tolist() == scripted.REWARDS[:3]
      env.close()
  gymnasium.registry.pop('Mine-v0')
  with pytest.raises(ValueError, match='cannot import my_game'):
    registry.get_environment('gym:my_game:Mine-v0', 1)


def test_what_workers_refuse_is_no_failure_of_theirs():
  before = set(multiprocessing.active_children())
  with pytest.raises(ValueError, match='only discrete actions'):
    registry.get_environment('gym:Pendulum-v1', 2, num_workers=2)
  assert set(multiprocessing.active_children()) <= before


def test_workers_outlive_ctrl_c():
  """It reaches all processes of a terminal; the first decides."""
  env = registry.get_environment(
    'gym:tests.support.scripted:ScriptedGym', 2, num_workers=2
  )
  states, _ = env.reset(None)
  for process in multiprocessing.active_children():
    os.kill(process.pid, signal.SIGINT)
  for _ in range(3):
    states, timestep = env.step(states, np.zeros(2, np.int32))
  assert timestep.reward.tolist() == [3, 3]
  env.close()


@pytest.mark.parametrize(
  ('trouble', 'message'),
  [
    (dict(die_at=3), r'worker 1 \(streams 2 to 3 of .*exit code 3'),
    (dict(fail_at=3), r'worker 0 .*RuntimeError: as asked for'),
  ],
)
def test_a_worker_that_fails_is_named(trouble, message):
  """And leaves no processes behind."""
  before = set(multiprocessing.active_children())
  make = functools.partial(
    _scripted_with_trouble, trouble, 'worker 1' in message
  )
  env = worker_env.make(make, 4, 0, 2, 'scripted')
  states, _ = env.reset(None)
  with pytest.raises(worker_env.WorkerError, match=f'(?s){message}'):
    for _ in range(3):
      states, _ = env.step(states, np.zeros(4, np.int32))
  assert set(multiprocessing.active_children()) <= before
  with pytest.raises(worker_env.WorkerError, match='was closed'):
    env.step(states, np.zeros(4, np.int32))


def _scripted_with_trouble(trouble, in_the_second_worker, seeds):
  """Trouble only where the last of the four seeds is."""
  all_seeds = np.random.SeedSequence(0).generate_state(4) >> 1
  is_second = int(all_seeds[-1]) in seeds
  kwargs = trouble if is_second == in_the_second_worker else {}
  return gymnasium_env.make_streams(
    'tests.support.scripted:ScriptedGym', kwargs, 1, seeds
  )


def test_workers_end_with_their_environment():
  before = set(multiprocessing.active_children())
  env = ENVIRONMENTS['gym_workers'](1)
  started = set(multiprocessing.active_children()) - before
  assert len(started) == 1
  del env
  gc.collect()
  assert not started & set(multiprocessing.active_children())
