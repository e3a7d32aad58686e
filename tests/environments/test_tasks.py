"""Random tasks: their parameters, batches, settings and use by agents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import parallel
from disco_rl.config import batching as batching_lib
from disco_rl.environments import registry
from disco_rl.environments.tasks import named
from disco_rl.environments.tasks import packing
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import evaluate
from disco_rl.evaluation import population
from disco_rl.evaluation import saved_run
from tests.support import small
from tests.support import small_meta

ENV = 'tasks:all'
SCALE = 2.0
NUM_AGENTS = 60
NUM_STREAMS = 3
NUM_STEPS = 120


@pytest.fixture(scope='module')
def env():
  return registry.get_environment(ENV, NUM_STREAMS, reward_scale=SCALE)


@pytest.fixture(scope='module')
def played(env):
  """States before and after random actions, and timesteps, of many agents."""

  def play(rng):
    first, _ = env.reset(rng)

    def step(states, rng):
      actions = jax.random.randint(rng, (NUM_STREAMS,), 0, 6)
      states, timestep = env.step(states, actions)
      return states, (timestep, states.time)

    last, trace = jax.lax.scan(step, first, jax.random.split(rng, NUM_STEPS))
    return first, last, trace

  program = jax.jit(lambda rngs: jax.lax.map(play, rngs))
  for seed in (1, 0):
    keys = jax.random.split(jax.random.PRNGKey(seed), NUM_AGENTS)
    result = jax.tree.map(np.asarray, program(keys))
  assert program._cache_size() == 1  # For any tasks.
  return result


def _families(task):
  return np.array(tuple(named.FAMILIES))[task.family[:, 0]]


def test_all_families_occur(played):
  first, _, _ = played
  assert {*_families(first.task)} == {*named.FAMILIES}


def test_a_task_is_constant_over_many_episodes_and_over_streams(played):
  first, last, (timestep, _) = played
  jax.tree.map(np.testing.assert_array_equal, first.task, last.task)
  num_episodes = (timestep.step_type == 2).sum(axis=1)
  assert num_episodes.min() >= 2
  for x in jax.tree.leaves(first.task):
    assert (x == x[:, :1]).all()


def test_streams_differ_by_their_random_numbers(played):
  first, last, _ = played
  for states in (first, last):
    assert len(np.unique(states.rng.reshape(-1, 2), axis=0)) == (
      NUM_AGENTS * NUM_STREAMS
    )
  moves = [x for x in last.stream if (x != x[0]).any()]
  assert len(moves) > NUM_AGENTS / 2


def test_agents_have_different_tasks(played):
  first, _, _ = played
  task = jax.tree.map(lambda x: x[:, 0], first.task)
  rows = np.concatenate([task.params, task.scale[:, None]], axis=1)
  assert len(np.unique(rows, axis=0)) == NUM_AGENTS
  assert len(np.unique(task.meanings, axis=0)) > NUM_AGENTS / 2
  assert len(np.unique(task.horizon)) > 10


def test_actions_have_all_meanings(played):
  first, _, _ = played
  for meanings in first.task.meanings[:, 0]:
    number = meanings.max() + 1
    assert {*meanings} == {*range(number)}
    # As equally as possible.
    counts = np.bincount(meanings)
    assert 2 <= number <= 6 and counts.max() - counts.min() <= 1


def test_rewards_are_bounded_and_of_both_signs(played):
  first, _, (timestep, _) = played
  scale = first.task.scale[:, 0]
  assert (scale >= 1 / SCALE).all() and (scale <= SCALE).all()
  assert scale.min() < 0.6 and scale.max() > 1.6
  rewards = timestep.reward / scale[:, None, None]
  assert np.abs(rewards).max() <= 1 + 1e-6
  families = _families(first.task)
  for family in named.FAMILIES:
    own = rewards[families == family]
    assert own.max() > 0 and np.abs(own).max() > 0.5, family
    if family != 'corridor':  # Costs are rare there.
      assert own.min() < 0, family


def test_episodes_end_in_time(played):
  first, _, (timestep, time) = played
  assert (time < first.task.horizon[:, None]).all()
  assert (time[timestep.step_type == 2] == 0).all()
  assert (np.diff(time, axis=1)[timestep.step_type[:, 1:] == 1] == 1).all()


def test_observations_are_finite_and_say_something(played):
  _, _, (timestep, _) = played
  seen = timestep.observation
  assert seen.shape == (NUM_AGENTS, NUM_STEPS, NUM_STREAMS, 100)
  assert seen.dtype == np.float32 and np.isfinite(seen).all()
  assert (seen != 0).any(axis=-1).all()


def test_every_name_has_a_batch_of_its_own():
  for name in (*named.FAMILIES, 'all'):
    env = registry.get_environment(f'tasks:{name}', 2)
    _, timestep = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
    spec = env.batched_observation_spec()['observation']
    assert timestep.observation.shape == spec.shape
    assert env.single_action_spec().maximum == 5
    assert not registry.is_on_host(f'tasks:{name}')
    fields = registry.settings_fields(f'tasks:{name}')
    settings = registry.default_settings(f'tasks:{name}').to_dict()
    own = {k for k, x in settings.items() if not isinstance(x, dict)}
    own |= {
      f'{k}.{inner}' for k, x in settings.items() if k not in own for inner in x
    }
    assert own == {*fields}


def test_wrong_settings_are_refused():
  for name, settings, message in (
    ('grids', {}, "unknown family of tasks 'grids'.*did you mean grid"),
    ('', {}, 'write tasks:<family>'),
    ('all', dict(families=('grid', 'no')), 'families must be a list, wit'),
    ('all', dict(families=()), 'families must be a list, wit'),
    ('all', dict(families=('mdp', 'mdp')), 'families must be a list, wit'),
    ('all', dict(num_actions=3), 'num_actions.*at least 4 for the family grid'),
    ('grid', dict(num_actions=3), 'num_actions must be .* between 4 and 6'),
    ('mdp', dict(num_actions=7), 'num_actions must be .* between 2 and 6'),
    ('mdp', dict(reward_scale=0.5), 'reward_scale must be .* at least 1'),
    ('catch', dict(max_rows=8), 'max_rows must be .* between 3 and 7'),
    ('all', dict(grid=dict(max_size=2)), r'grid.max_size must be .* 3 and 16'),
    ('chain', dict(delay=3), r"unknown settings \['delay'\]"),
  ):
    with pytest.raises(ValueError, match=message):
      registry.get_environment(f'tasks:{name}', 2, **settings)


def test_settings_limit_the_tasks():
  env = registry.get_environment(
    ENV, 2, families=('bandit', 'corridor'), num_actions=3, reward_scale=1
  )
  assert env.single_action_spec().maximum == 2
  spec = env.single_observation_spec()['observation']
  assert spec.shape == (12,)
  draw = jax.jit(jax.vmap(env.draw_task))
  task = draw(jax.random.split(jax.random.PRNGKey(0), 20))
  assert {*np.asarray(task.family)} == {0, 1}
  assert (task.scale == 1).all() and task.meanings.max() <= 2


def test_packing():
  tree = dict(
    a=np.arange(6, dtype=np.int32).reshape(2, 3),
    b=np.array([True, False]),
    c=np.float32(0.1),
  )
  packed = packing.Packing(tree)
  assert packed.size == 9
  vector = packed.pack(tree, 12)
  assert vector.shape == (12,) and not vector[9:].any()
  again = packed.unpack(vector)
  jax.tree.map(np.testing.assert_array_equal, again, tree)
  assert [x.dtype for x in jax.tree.leaves(again)] == [
    jnp.int32,
    jnp.bool_,
    jnp.float32,
  ]


_SMALL = dict(families=('chain', 'mdp'))


def _check_tasks(states, keys):
  """Checks the tasks of agents on several devices.

  Args:
    states: of their environments, leaves [agents, B, ...].
    keys: with which the environments of the agents were reset.
  """
  env = registry.get_environment(ENV, 1, **_SMALL)
  wanted = jax.jit(jax.vmap(env.draw_task))(keys)
  jax.tree.map(
    lambda x, y: np.testing.assert_array_equal(
      x, np.broadcast_to(np.asarray(y)[:, None], x.shape)
    ),
    states.task,
    wanted,
  )
  assert len(np.unique(wanted.scale)) == len(keys)
  rngs = np.asarray(states.rng)
  rngs = rngs.reshape(-1, rngs.shape[-1])
  assert len(np.unique(rngs, axis=0)) == len(rngs)


def test_shards_of_a_batch_have_the_same_task_in_evaluations():
  seeds = (0, 1, 5)
  own = population.Population(
    registry.environment_fn(ENV, **_SMALL),
    small.settings('actor_critic'),
    batching_lib.Batching(
      batch_size=4, rollout_length=4, num_envs=4, replay_capacity=4
    ),
    seeds=seeds,
    devices=jax.devices()[:2],
  )
  keys = [agent_loop.task_rng(jax.random.PRNGKey(seed)) for seed in seeds]
  _check_tasks(own.init().actor.env_state, jnp.stack(keys))


def test_shards_of_a_batch_have_the_same_task_in_meta_training():
  group = small_meta.trainer.Group(
    registry.environment_fn(ENV, **_SMALL),
    small_meta.with_critic(small.settings('disco')),
    3,
    name=ENV,
  )
  trainer = small_meta.make_trainer(
    group, num_devices=2, num_envs=4, batch_size=4
  )
  rng = jax.random.PRNGKey(0)
  state = trainer.init(rng, trainer.init_params(rng))
  _check_tasks(state.groups[0].agents.actor.env_state, jax.random.split(rng, 3))


def test_reset_draws_the_task_of_its_key():
  env = registry.get_environment(ENV, 2, **_SMALL)
  rng = jax.random.PRNGKey(7)
  states, _ = env.reset(rng)
  task = env.draw_task(rng)
  jax.tree.map(
    lambda x, y: np.testing.assert_array_equal(x[1], y), states.task, task
  )
  other, _ = env.reset_shard(rng, parallel.shard_key(rng, None))
  jax.tree.map(np.testing.assert_array_equal, other, states)


def test_an_agent_is_played_in_the_task_that_it_was_trained_on(tmp_path):
  name, seeds = 'tasks:chain', (0, 1)
  evaluate.evaluate(
    name,
    'policy_gradient',
    num_iterations=2,
    seeds=seeds,
    batching=batching_lib.Batching(batch_size=4, num_envs=4, rollout_length=4),
    settings={
      'agent.net_settings.net_args.dense': (4,),
      'agent.value_fn.net_args.dense': (4,),
      'chunk_size': 2,
      'env.max_noise': 0.0,
    },
    out=tmp_path / 'run',
  )
  run = saved_run.load_run(tmp_path / 'run')
  env = registry.get_environment(name, 1, max_noise=0.0)
  for seed in seeds:
    task = env.draw_task(agent_loop.task_rng(jax.random.PRNGKey(seed)))
    for episode_seed in range(2):
      rewards = run.play(seed, episode_seed=episode_seed).rewards
      assert len(rewards) == task.horizon
      assert not rewards[:-1].any()
      values = np.asarray(task.scale * task.params[1:7])
      assert np.isclose(values, rewards[-1], rtol=1e-5).any()
