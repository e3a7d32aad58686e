"""Groups on the host: the same numbers as in JAX, in any mixture."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import parallel
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import timesteps
from disco_rl.meta_training import host_group
from disco_rl.meta_training import stages
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import trajectories
from disco_rl.runs import checkpoint
from disco_rl.runs import finite
from tests.support import golden
from tests.support import hosted
from tests.support import small_meta

BOARD = dict(rows=5, columns=4)
REPLAY = dict(
  batch_size=6,
  num_envs=2,
  replay_capacity=8,
  adam_per_agent=True,
  lifetimes=(4, 8),
  num_inner_updates=2,
)


SIZES = [pytest.param({}, marks=pytest.mark.slow, id='plain')]
SIZES += [pytest.param(REPLAY, id='replay')]


@pytest.fixture
def settings(own_rule):
  """Settings of agents whose programs compile quickly."""
  own = small_meta.with_critic(own_rule['agent_settings'])
  own.net_settings.net_args.dense = (9, 8)
  return own


@pytest.fixture
def memory_settings(settings):
  """The same with a memory."""
  with settings.unlocked():
    settings.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  return settings


def _group(settings, name, env_fn=None, num_agents=2):
  env_fn = env_fn or registry.environment_fn('catch', **BOARD)
  return trainer_lib.Group(env_fn, settings, num_agents, name=name)


def _hosted(settings, name='host', num_agents=2, **options):
  env_fn = hosted.environment_fn(**BOARD, **options)
  return _group(settings, name, env_fn, num_agents)


def _trainer(groups, *, devices=1, rows=1, overlap=True, **sizes):
  return trainer_lib.Trainer(
    groups,
    small_meta.config(**{'num_inner_updates': 1, **sizes}),
    placement=parallel.Placement(jax.devices()[:devices], num_lane_shards=rows),
    overlap_acting=overlap,
  )


def _init(trainer):
  eta = trainer.init_params(jax.random.PRNGKey(1))
  return trainer.init(jax.random.PRNGKey(2), eta)


def _update(trainer, state, num, first=0):
  logs = []
  for i in range(first, first + num):
    state, log = trainer.update(state, jax.random.PRNGKey(10 + i))
    logs.append((log.averages, log.per_agent))
  return state, logs


def _train(groups, num=3, **options):
  trainer = _trainer(groups, **options)
  state, logs = _update(trainer, _init(trainer), num)
  trainer.close()
  return trainer, state, logs


def _check_same(one, other):
  jax.tree.map(
    np.testing.assert_array_equal, *map(jax.device_get, (one, other))
  )


@pytest.mark.parametrize('sizes', SIZES)
def test_a_group_on_the_host_is_that_in_jax(memory_settings, sizes):
  """With a memory, the ends of episodes, replays and resets of agents."""
  _, wanted, wanted_logs = _train([_group(memory_settings, 'x')], 4, **sizes)
  trainer, state, logs = _train([_hosted(memory_settings, 'x')], 4, **sizes)
  resets = [averages['num_resets'] for averages, _ in logs]
  assert any(resets) == bool(sizes)
  golden.check_trees_close(logs, wanted_logs, 1e-4)
  state = trainer.hosts.without_actors(state)
  wanted = wanted._replace(
    groups=tuple(
      g._replace(agents=g.agents._replace(actor=None)) for g in wanted.groups
    )
  )
  golden.check_trees_close(jax.device_get(state), jax.device_get(wanted), 1e-4)


@pytest.mark.slow
def test_the_meta_gradient_of_disco_on_the_host_is_that_in_jax():
  group = small_meta.make_group()
  on_host = dataclasses.replace(group, env_fn=hosted.environment_fn(**BOARD))
  _, _, wanted = _train([group], 2)
  _, _, logs = _train([on_host], 2)
  golden.check_trees_close(logs, wanted, 1e-3)


def test_the_same_rollouts_have_the_same_meta_gradient(memory_settings):
  """Bit-exact in one program: only the way that steps arrive differs."""
  config = small_meta.config()
  agents = [
    trainer_lib.Trainer([group], config)._meta_agents[0]
    for group in (_group(memory_settings, 'x'), _hosted(memory_settings))
  ]
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  eta = dict(entropy_cost=dict(log=jnp.zeros([])))
  in_jax, on_host = agents

  @jax.jit
  def both():
    state = in_jax.init(keys[0])
    step_keys = trajectories.step_keys(keys[1], config)
    _, steps, _ = in_jax._actor.unroll_and_check(
      state.learner.params, state.actor, step_keys
    )
    starts = np.asarray([0, 7, 14])
    steps = steps.replace(
      states=jax.tree.map(lambda x: x[starts], steps.states)
    )
    wanted = in_jax.meta_gradient(eta, state, *keys[1:])
    acted = on_host.meta_gradient(
      eta, state._replace(actor=None), *keys[1:], steps
    )
    return wanted, acted

  wanted, acted = both()
  assert abs(wanted.grads['entropy_cost']['log']) > 0
  _check_same(acted.grads, wanted.grads)
  _check_same(acted.inner_log, wanted.inner_log)
  _check_same(acted.state.learner, wanted.state.learner)


@pytest.mark.parametrize('sizes', SIZES)
def test_a_mixture_is_the_same_with_and_without_overlap(settings, sizes):
  groups = [
    _hosted(settings, 'a'),
    _group(settings, 'b'),
    _group(settings, 'c', registry.environment_fn('catch_numpy', **BOARD)),
  ]
  trainer = _trainer(groups, **sizes)
  results = []
  for overlap in (True, False):
    # The environments are made again, but the programs are the same.
    trainer._update._overlap_acting = overlap
    state, logs = _update(trainer, _init(trainer), 4)
    assert {*logs[0][0]} == {*trainer.average_names()}
    for name in ('a', 'b', 'c'):
      assert logs[-1][0][f'episodes/{name}'] > 0
    assert all(x[0]['num_nonfinite_agents'] == 0 for x in logs)
    results.append(jax.device_get((trainer.to_checkpoint(state), logs)))
  trainer.close()
  _check_same(*results)
  # All agents differ.
  assert len(set(results[0][1][0][1]['meta_loss'])) == 6


def test_devices_first_and_acting_during_their_programs(settings, monkeypatch):
  """The programs before are dispatched, and not waited for."""
  groups = [_hosted(settings, 'a'), _group(settings, 'b')]
  groups.append(_hosted(settings, 'c'))
  trainer = _trainer(groups)
  state = _init(trainer)
  events = []

  def note(event, function):
    def noted(*args):
      events.append(event)
      return function(*args)

    return noted

  for i, host in trainer.hosts.groups.items():
    host.act = note(f'act {i}', host.act)
  programs = trainer._update._contribute
  for i, program in enumerate(programs):
    programs[i] = note(f'run {i}', program)
  wait = note('wait', jax.block_until_ready)
  monkeypatch.setattr(stages.jax, 'block_until_ready', wait)
  state, _ = _update(trainer, state, 1)
  assert events == ['run 1', 'act 0', 'run 0', 'act 2', 'run 2']
  events.clear()
  trainer._update._overlap_acting = False
  _update(trainer, state, 1)
  assert [event for event in events if event != 'wait'] == [
    *('run 1', 'act 0', 'run 0', 'act 2', 'run 2')
  ]
  runs = [i for i, event in enumerate(events) if event.startswith('run')]
  assert all(events[i + 1] == 'wait' for i in runs)


@pytest.mark.parametrize(
  ('devices', 'rows'),
  [
    (4, 2),
    pytest.param(2, 2, marks=pytest.mark.slow),
    pytest.param(2, 1, marks=pytest.mark.slow),
  ],
)
def test_several_devices_compute_what_one_does(settings, devices, rows):
  """On the host, all agents act as on one device."""
  sizes = dict(batch_size=4, num_envs=4)
  groups = [_hosted(settings, 'a'), _hosted(settings, 'b', num_agents=4)]
  _, _, wanted = _train(groups, **sizes)
  trainer, state, logs = _train(groups, devices=devices, rows=rows, **sizes)
  golden.check_trees_close(logs, wanted, 1e-3)
  saved = jax.device_get(trainer.to_checkpoint(state))
  resumed = trainer.from_checkpoint(saved)
  _check_same(trainer.to_checkpoint(resumed), saved)


def test_networks_act_on_another_device(settings):
  """The agents learn on the second device, and act on the first."""
  config = small_meta.config(num_inner_updates=1)
  first, second = jax.devices()[:2]
  results = []
  for device in (None, first):
    trainer = trainer_lib.Trainer(
      [_hosted(settings), _group(settings, 'x')],
      config,
      placement=parallel.Placement([second]),
      acting_device=device,
    )
    host = trainer.hosts.groups[0]
    prepare, devices = host.prepare, set()

    def noted(*args, prepare=prepare, devices=devices):
      prepared = prepare(*args)
      for x in jax.tree.leaves([params for params, _ in prepared]):
        devices.update(x.devices())
      return prepared

    host.prepare = noted
    state, logs = _update(trainer, _init(trainer), 2)
    assert devices == {device or second}
    learner = state.groups[0].agents.learner
    assert jax.tree.leaves(learner)[0].devices() == {second}
    results.append((jax.device_get(trainer.to_checkpoint(state)), logs))
  _check_same(*results)


@pytest.mark.parametrize('has_snapshots', [True, False])
def test_a_mixture_is_resumed(settings, has_snapshots, tmp_path):
  """Bit-exact from a file, if there are snapshots; else with new episodes."""
  make = lambda: _trainer(
    [
      _group(settings, 'device'),
      _hosted(settings, has_snapshots=has_snapshots),
    ],
    **{**REPLAY, 'lifetimes': (), 'num_inner_updates': 1},
  )
  trainer = make()
  state, _ = _update(trainer, _init(trainer), 2)
  saved = trainer.to_checkpoint(state)
  checkpoint.save(tmp_path / 'x.npz', saved)
  finite.check(saved)
  other = make()
  like = other.checkpoint_like(
    jax.random.PRNGKey(2), other.init_params(jax.random.PRNGKey(1))
  )
  loaded = checkpoint.load(tmp_path / 'x.npz', like)
  resumed = other.from_checkpoint(loaded)
  lost = other.names_without_snapshots(loaded)
  if has_snapshots:
    assert lost == []
    wanted, wanted_logs = _update(trainer, state, 2, first=2)
    actual, logs = _update(other, resumed, 2, first=2)
    _check_same(logs, wanted_logs)
    _check_same(other.to_checkpoint(actual), trainer.to_checkpoint(wanted))
    return
  assert lost == ['host']
  device, host = resumed.groups
  assert np.asarray(device.agents.episodes.length).max() > 0
  np.testing.assert_array_equal(host.agents.episodes.length, -1)
  for own in host.agents.actor:
    assert not any(np.asarray(x).any() for x in jax.tree.leaves(own.net_state))
  _, logs = _update(other, resumed, 1, first=2)
  assert np.isfinite(logs[0][0]['meta_loss'])


def test_every_agent_has_an_environment_with_a_seed_of_its_own(settings):
  made = []
  trainer = trainer_lib.Trainer(
    [
      _group(settings, 'device', num_agents=3),
      _hosted(settings, 'host', made=made),
    ],
    small_meta.config(num_inner_updates=1),
    env_seed=7,
  )
  rng = jax.random.PRNGKey(2)
  trainer.check_memory(rng)
  state = trainer.init(rng, trainer.init_params(rng))
  assert [seed for seed, _ in made] == [10, 11]
  assert all(env.batch_size == 3 for _, env in made)
  # Reset once for both; used environments are made again.
  _update(trainer, state, 1)
  trainer.init(rng, trainer.init_params(rng))
  assert [seed for seed, _ in made] == [10, 11, 10, 11]
  assert [env.is_closed for _, env in made] == [True, True, False, False]
  trainer.close()
  assert all(env.is_closed for _, env in made)


def _fail(*_):
  raise RuntimeError('as asked for')


def test_a_process_acts_for_its_own_agents(settings):
  """Two processes, here one after the other, act as one does."""
  made, sizes = [], dict(num_agents=4)
  trainer = _trainer([_hosted(settings, made=made, **sizes)])
  state = _init(trainer)
  whole = trainer.hosts.groups[0]
  keys = jax.random.split(jax.random.PRNGKey(3), 4)
  params = state.groups[0].agents.learner.params

  def act(group):
    states = group.reset(keys)
    visible = group.visible(states)
    states, _ = group.act(group.prepare(params, keys), states, 1)
    over = [True] + [False] * (len(states) - 1)
    states = group.reset_agents(states, np.asarray(over), keys[::-1], 2)
    return jax.device_get((visible, states))

  wanted_visible, wanted_states = act(whole)
  env_fn = hosted.environment_fn(made=made, **BOARD)
  guarded_fn = registry.as_environment_fn(env_fn)
  make_env = lambda seed: guarded_fn(3, seed)
  for lanes in (range(2), range(2, 4)):
    made.clear()
    own = host_group.HostGroup(
      whole._actor,
      make_env(lanes.start),
      make_env,
      range(4),
      lanes,
      trainer.config,
      trainer.placement,
      None,
    )
    visible, states = act(own)
    assert [seed for seed, _ in made] == [*lanes]
    _check_same(
      visible, jax.tree.map(lambda x, own=lanes: x[own], wanted_visible)
    )
    _check_same(states[1], wanted_states[lanes[1]])
    if lanes.start == 0:
      _check_same(states[0], wanted_states[0])
    else:
      first = states[0].timestep.observation
      assert not np.array_equal(first, wanted_states[2].timestep.observation)
    # Of all agents, for the programs.
    assert own.visible_spec() == whole.visible_spec()
    assert own.rollouts_spec(params) == whole.rollouts_spec(params)
    made[1][1].step = _fail
    match = rf'as asked for.* \(meta-update 3, agent {lanes[1]}\)'
    with pytest.raises(foreign.ForeignCodeError, match=match):
      own.act(own.prepare(params, keys), states, 3)
    own.close()
    assert all(env.is_closed for _, env in made)
  trainer.close()


def test_processes_with_other_streams_of_each_agent_are_refused(
  settings, monkeypatch
):
  monkeypatch.setattr(parallel.Placement, 'own_part', lambda *_: None)
  made = []
  with pytest.raises(ValueError, match=r'host, .* 1 rows \(lane_shards\) of 1'):
    _trainer([_hosted(settings, made=made)])
  assert len(made) == 1 and made[0][1].is_closed


def test_environments_are_closed_if_a_later_group_cannot_be_built(settings):
  made = []
  without_critic = settings.copy_and_resolve_references()
  with without_critic.unlocked():
    del without_critic['value_fn']
  groups = [
    _hosted(settings, made=made),
    _hosted(without_critic, 'wrong', made=made),
  ]
  with pytest.raises(ValueError, match='need a critic'):
    _trainer(groups)
  assert len(made) == 2 and all(env.is_closed for _, env in made)


def test_a_nonfinite_agent_on_the_host_is_reset(memory_settings):
  trainer = _trainer([_hosted(memory_settings)])
  state = _init(trainer)
  learner = state.groups[0].agents.learner
  params = jax.tree.map(lambda x: x.at[0].set(jnp.nan), learner.params)
  learner = learner.replace(params=params)
  state = trainer_lib.train_state.with_agents(state, {0: dict(learner=learner)})
  state, logs = _update(trainer, state, 1)
  assert logs[0][0]['num_nonfinite_agents'] == 1
  memory = jax.tree.leaves(state.groups[0].agents.actor[0].net_state)
  assert all(np.isnan(x).any() for x in memory)
  saved = jax.device_get(trainer.to_checkpoint(state))
  finite.check(saved, frozenset(['env_state']))
  _, wanted_logs = _update(trainer, state, 2, first=1)
  assert wanted_logs[0][0]['num_resets'] == 1
  assert wanted_logs[0][0]['num_nonfinite_agents'] == 0
  _, logs = _update(trainer, trainer.from_checkpoint(saved), 2, first=1)
  _check_same(logs, wanted_logs)
  trainer.close()


def test_nan_from_an_environment_is_named(settings):
  class Nan(hosted.Hosted):
    num_steps = 0

    def step(self, states, actions):
      states, timestep = super().step(states, actions)
      self.num_steps += 1
      if self.num_steps == 35 and self.seed == 1:
        reward = np.array(timestep.reward)
        reward[2] = np.nan
        timestep = timestep.replace(reward=reward)
      return states, timestep

  def nan(batch_size, seed):
    env = Nan(registry.environment_fn('catch', **BOARD)(batch_size, seed))
    env.seed = seed
    return env

  trainer = _trainer([_group(settings, 'nan', nan)], num_inner_updates=2)
  state, _ = _update(trainer, _init(trainer), 1)
  # 28 steps per meta-update.
  match = (
    r'nan returned nan in the reward of stream 2 \(meta-update 2, agent 1, '
    r'step 7 of the rollout\)'
  )
  with pytest.raises(timesteps.NonFiniteError, match=match):
    _update(trainer, state, 1, first=1)


def test_the_memory_of_stages(settings):
  on_host, in_jax = _hosted(settings, 'a'), _group(settings, 'b')
  needed = {}
  for overlap in (True, False):
    trainer = _trainer([on_host, in_jax], overlap=overlap)
    needed[overlap] = trainer.check_memory().parts
    (_, acted, _), *_ = [stage for stage in trainer._trace() if stage.rollouts]
    state = _init(trainer)
    host = trainer.hosts.groups[0]
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    agents = state.groups[0].agents
    prepared = host.prepare(agents.learner.params, keys)
    _, rollouts = host.act(prepared, agents.actor, 1)
    wanted = jax.tree.map(lambda x: (x.shape, x.dtype), rollouts)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), acted[0]) == wanted
  assert needed[True]['environments'] == needed[False]['environments'] > 0
  assert needed[True]['a meta-update'] >= needed[False]['a meta-update'] > 0
