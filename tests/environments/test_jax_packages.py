"""Environments in JAX of other packages, against the packages themselves."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments import registry
from disco_rl.environments.wrappers import vmapped_env
from tests.support import environments

KEY = jax.random.PRNGKey(7)


def _reference(reset, step, actions):
  """Plays one stream after the other, without anything of this library.

  Args:
    reset: a function of a key that returns a state and an observation.
    step: a function of a key, a state and an action that returns a state, an
      observation, a reward, and whether the episode ends.
    actions: [T, B].

  Returns:
    Observations, rewards and ends, lists of [T, ...] by stream.
  """
  reset, step = jax.jit(reset), jax.jit(step)
  traces = []
  for b, rng in enumerate(jax.random.split(KEY, actions.shape[1])):
    rng, reset_rng = jax.random.split(rng)
    state, observation = reset(reset_rng)
    trace = [(observation, 0.0, False)]
    for action in actions[:, b]:
      rng, step_rng = jax.random.split(rng)
      step_rng, reset_rng = jax.random.split(step_rng)
      state, observation, reward, is_last = step(
        step_rng, state, jnp.asarray(action, jnp.int32)
      )
      if is_last:
        state, observation = reset(reset_rng)
      trace.append((observation, float(reward), bool(is_last)))
    traces.append(trace)
  return traces


def _check(name, reset, step, actions, decode=lambda x: x, **settings):
  """Compares an environment with the package; returns all rewards, [T, B]."""
  actions = np.asarray(actions)
  env = registry.get_environment(name, actions.shape[1], **settings)
  ours = environments.play(env, len(actions), KEY, actions)
  ends = 0
  for b, trace in enumerate(_reference(reset, step, actions)):
    for t, (observation, reward, is_last) in enumerate(trace):
      mine = jax.tree.map(lambda x, t=t, b=b: x[t, b], ours.observation)
      theirs = jax.tree.leaves(observation)
      assert len(theirs) == len(jax.tree.leaves(mine))
      for x, y in zip(jax.tree.leaves(decode(mine)), theirs, strict=True):
        np.testing.assert_array_equal(x, y)
      np.testing.assert_allclose(ours.reward[t, b], reward, rtol=1e-6)
      assert (ours.step_type[t, b] == environments.LAST) == is_last
      ends += is_last
  assert ends >= 2
  return ours.reward


def _random(num_actions, num_steps=20, num_streams=2):
  random = np.random.RandomState(0)
  return random.randint(num_actions, size=(num_steps, num_streams))


def _scripted(actions, num_actions):
  """Two streams: one follows a script over and over, one is random."""
  random = _random(num_actions, 20, 1)
  script = np.resize(np.asarray(actions), (20, 1))
  return np.concatenate([script, random], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize('resets_at_once', [0, 1])
def test_craftax_is_that_of_the_package(resets_at_once):
  craftax_env = pytest.importorskip('craftax.craftax_env')
  name = 'Craftax-Classic-Symbolic-v1'
  env = craftax_env.make_craftax_env_from_name(name, auto_reset=False)
  params = env.default_params.replace(max_timesteps=6)

  def reset(rng):
    observation, state = env.reset(rng, params)
    return state, observation

  def step(rng, state, action):
    observation, state, reward, is_last, _ = env.step(
      rng, state, action, params
    )
    return state, observation, reward, is_last

  # Action 5 collects or hits what is in front of the player.
  rewards = _check(
    f'craftax:{name}',
    reset,
    step,
    np.concatenate([_random(17), np.full((20, 1), 5)], axis=1),
    params=dict(max_timesteps=6),
    resets_at_once=resets_at_once,
  )
  assert (rewards != 0).any()


@pytest.mark.slow
def test_craftax_resets_as_the_package_does():
  """To the bit, although worlds are generated only where episodes end."""
  craftax_env = pytest.importorskip('craftax.craftax_env')
  name = 'Craftax-Classic-Symbolic-v1'
  theirs = craftax_env.make_craftax_env_from_name(name, auto_reset=True)
  params = theirs.default_params.replace(max_timesteps=6)
  actions = _random(17, 20, 3)
  env = registry.get_environment(
    f'craftax:{name}', 3, params=dict(max_timesteps=6)
  )
  ours = environments.play(env, 20, KEY, actions)
  step = jax.jit(theirs.step)
  for b, rng in enumerate(jax.random.split(KEY, 3)):
    rng, reset_rng = jax.random.split(rng)
    _, state = theirs.reset(reset_rng, params)
    for t, action in enumerate(actions[:, b]):
      rng, step_rng = jax.random.split(rng)
      observation, state, reward, is_last, _ = step(
        step_rng, state, action, params
      )
      np.testing.assert_array_equal(ours.observation[t + 1, b], observation)
      assert ours.reward[t + 1, b] == reward
      assert (ours.step_type[t + 1, b] == environments.LAST) == is_last


def test_gymnax_is_that_of_the_package():
  gymnax = pytest.importorskip('gymnax')
  name = 'SpaceInvaders-MinAtar'
  theirs, params = gymnax.make(name)
  params = params.replace(max_steps_in_episode=6)
  actions = _random(4)
  env = registry.get_environment(
    f'gymnax:{name}', 2, params=dict(max_steps_in_episode=6)
  )
  ours = environments.play(env, len(actions), KEY, actions)
  for b, rng in enumerate(jax.random.split(KEY, 2)):
    rng, reset_rng = jax.random.split(rng)
    _, state = theirs.reset(reset_rng, params)
    for t, action in enumerate(actions[:, b]):
      rng, step_rng = jax.random.split(rng)
      observation, state, reward, terminated, truncated, _ = theirs.step(
        step_rng, state, action, params
      )
      np.testing.assert_array_equal(ours.observation[t + 1, b], observation)
      assert ours.reward[t + 1, b] == reward
      is_last = bool(terminated | truncated)
      assert (ours.step_type[t + 1, b] == environments.LAST) == is_last
  assert (ours.step_type == environments.LAST).sum() >= 6


@pytest.mark.parametrize(
  ('name', 'parts'),
  [('Snake-v1', None), ('Tetris-v0', (4, 10)), ('SlidingTilePuzzle-v0', None)],
)
def test_jumanji_is_that_of_the_package(name, parts):
  jumanji = pytest.importorskip('jumanji')
  env = jumanji.make(name, time_limit=6)

  def reset(rng):
    state, timestep = env.reset(rng)
    return state, timestep.observation

  def step(rng, state, action):
    del rng
    if parts is not None:
      action = jnp.asarray([action // parts[1], action % parts[1]])
    state, timestep = env.step(state, action)
    return state, timestep.observation, timestep.reward, timestep.last()

  _check(
    f'jumanji:{name}',
    reset,
    step,
    _random(int(np.prod(parts or (4,)))),
    # A dict is sorted by its keys; the records of the package are not.
    decode=lambda x: [x[k] for k in _fields_of(env)],
    kwargs=dict(time_limit=6),
  )


def _fields_of(env):
  observation = jax.eval_shape(env.reset, KEY)[1].observation
  return getattr(observation, '_fields', None) or list(vars(observation))


# The package opens images that it does not close.
@pytest.mark.filterwarnings(
  'ignore::ResourceWarning',
  'ignore::pytest.PytestUnraisableExceptionWarning',
)
def test_jumanji_with_another_generator():
  pytest.importorskip('jumanji')
  module = 'jumanji.environments.routing.sokoban.generator'
  env = registry.get_environment(
    'jumanji:Sokoban-v0',
    2,
    generator=f'{module}:SimpleSolveGenerator',
    kwargs=dict(time_limit=5),
  )
  trace = environments.play(env, 12)
  assert trace.observation['grid'].shape == (13, 2, 10, 10, 2)
  assert (trace.step_type[:, 0] == environments.LAST).sum() == 2
  del env
  gc.collect()
  with pytest.raises(ValueError, match=r'no function .*:Nothing was found'):
    registry.get_environment(
      'jumanji:Sokoban-v0', 2, generator=f'{module}:Nothing'
    )


def test_jumanji_levels_that_cannot_be_downloaded(monkeypatch):
  jumanji = pytest.importorskip('jumanji')

  def fail(name, **kwargs):
    raise OSError('no network')

  monkeypatch.setattr(jumanji, 'make', fail)
  with pytest.raises(
    RuntimeError, match=r'needs levels .* failed \(OSError: no network.*sokoban'
  ) as caught:
    registry.get_environment('jumanji:Sokoban-v0', 2)
  assert '\n' not in str(caught.value)


def test_jumanji_environments_that_cannot_be_served():
  pytest.importorskip('jumanji')
  for name, message in {
    'MultiCVRP-v0': 'has actions BoundedArray: only discrete actions are',
    'JobShop-v0': r'has 21 x 21 x .* joint actions; at most 1048576',
    'LevelBasedForaging-v0': 'has a reward for each of its 2 agents',
    'Game2048-v2': r'unknown Jumanji environment .*did you mean Game2048-v1',
  }.items():
    with pytest.raises(ValueError, match=message):
      registry.get_environment(f'jumanji:{name}', 2)


def _decode(sizes):
  """Returns a function from one-hot vectors to layers of numbers."""
  ends = np.cumsum(sizes)[:-1]

  def decode(hots):
    parts = np.split(np.asarray(hots), ends, axis=-1)
    assert all((part.sum(-1) == 1).all() for part in parts)
    return np.stack([part.argmax(-1) for part in parts], axis=-1)

  return decode


def test_xminigrid_is_that_of_the_package():
  xminigrid = pytest.importorskip('xminigrid')
  env, params = xminigrid.make('MiniGrid-Empty-5x5', max_steps=8)

  def reset(rng):
    timestep = env.reset(params, rng)
    return timestep, timestep.observation

  def step(rng, state, action):
    del rng
    timestep = env.step(params, state, action)
    return timestep, timestep.observation, timestep.reward, timestep.last()

  rewards = _check(
    'xminigrid:MiniGrid-Empty-5x5',
    reset,
    step,
    _scripted([0, 0, 1, 0, 0], 6),  # Forward twice, turn, forward twice.
    _decode((13, 12)),
    max_steps=8,
  )
  assert (rewards > 0).any()


def test_xminigrid_draws_rules_from_a_benchmark(monkeypatch):
  pytest.importorskip('xminigrid')
  from xminigrid import benchmarks

  # Two sets of rules; in both, the goal (3) is to be beside a tile.
  goals = jnp.asarray([[3, 3, 1, 0, 0], [3, 4, 2, 0, 0]], jnp.uint8)
  made = benchmarks.Benchmark(
    goals=goals,
    rules=jnp.zeros((2, 1, 7), jnp.uint8),
    init_tiles=jnp.asarray([[[3, 1]], [[4, 2]]], jnp.uint8),
    num_rules=jnp.ones(2, jnp.uint8),
  )
  monkeypatch.setattr(benchmarks, 'load_benchmark', lambda name: made)
  env = registry.get_environment(
    'xminigrid:XLand-MiniGrid-R1-9x9', 8, benchmark='trivial-21k', max_steps=9
  )
  states, _ = jax.jit(env.reset)(KEY)
  drawn = np.asarray(states.state.state.goal_encoding)
  assert {tuple(row) for row in drawn.tolist()} == {
    tuple(row) for row in goals.tolist()
  }
  states, timestep = jax.jit(env.step)(states, jnp.zeros(8, jnp.int32))
  assert timestep.observation.shape == (8, 5, 5, 25)
  np.testing.assert_array_equal(states.state.state.goal_encoding, drawn)


def test_xminigrid_rules_that_cannot_be_used():
  pytest.importorskip('xminigrid')
  xland, plain = 'xminigrid:XLand-MiniGrid-R1-9x9', 'xminigrid:MiniGrid-Unlock'
  for name, settings, message in (
    (xland, {}, 'has no goal without rules: set its benchmark, one of trivi'),
    (xland, dict(benchmark='small'), "unknown benchmark of .* 'small'"),
    (plain, dict(benchmark='small-1m'), 'has a fixed goal'),
    (plain, dict(view_size=4), 'view_size must be an odd number'),
  ):
    with pytest.raises(ValueError, match=message):
      registry.get_environment(name, 2, **settings)


def test_navix_is_that_of_the_package():
  navix = pytest.importorskip('navix')
  env = navix.make('Navix-Empty-5x5-v0', max_steps=8)

  def reset(rng):
    timestep = env.reset(rng)
    return timestep, timestep.observation

  def step(rng, state, action):
    del rng
    timestep = env.step(state, action)
    return timestep, timestep.observation, timestep.reward, timestep.is_done()

  rewards = _check(
    'navix:Navix-Empty-5x5-v0',
    reset,
    step,
    _scripted([2, 2, 1, 2, 2], 7),  # Forward twice, turn, forward twice.
    _decode((11, 6, 4)),
    max_steps=8,
  )
  assert (rewards > 0).any()


def test_navix_observations():
  pytest.importorskip('navix')
  shapes = dict(
    symbolic=(5, 5, 21),
    symbolic_first_person=(7, 7, 21),
    rgb=(40, 40, 3),
    rgb_first_person=(56, 56, 3),
  )
  for observation, shape in shapes.items():
    env = registry.get_environment(
      'navix:Navix-Empty-5x5-v0', 2, observation=observation
    )
    assert env.single_observation_spec()['observation'].shape == shape
  with pytest.raises(ValueError, match='observation must be one of symbolic'):
    registry.get_environment('navix:Navix-Empty-5x5-v0', 2, observation='x')


@pytest.mark.parametrize(
  ('name', 'meant'),
  [
    ('navix:Navix-Empty-5x5', 'Navix-Empty-5x5-v0'),
    ('xminigrid:MiniGrid-Empty-5', 'MiniGrid-Empty-5x5'),
    ('craftax:Craftax-Symbolic', 'Craftax-Symbolic-v1'),
  ],
)
def test_names_that_a_package_does_not_have(name, meant):
  environments.skip_without(name.partition(':')[0])
  with pytest.raises(ValueError, match=f'did you mean {meant}'):
    registry.get_environment(name, 2)


def test_their_images_have_a_network():
  for name, network in {
    'craftax:Craftax-Pixels-v1': 'residual',
    'craftax:Craftax-Symbolic-v1': None,
    'jumanji:Snake-v1': 'conv',
    'jumanji:Game2048-v1': None,
    'navix/Navix-Empty-5x5-v0': 'conv',
    'xminigrid:MiniGrid-Unlock': 'conv',
    'sokoban': 'conv',
    'catch': None,
  }.items():
    assert registry.suggested_network(name) == network, name


def test_they_share_one_batch():
  """All of them are batched by one class, so that they reset alike."""
  for name in ('gymnax', 'jumanji', 'navix', 'xminigrid'):
    environments.skip_without(name)
    env = environments.ENVIRONMENTS[name](2)
    assert isinstance(env, vmapped_env.VmappedEnvironment), name
