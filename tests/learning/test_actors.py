"""Acting on the host and on the device: one interface, the same steps."""

import jax
import numpy as np
import pytest

from disco_rl import agent
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.learning import checks
from disco_rl.learning import replay
from tests.support import golden
from tests.support import small

NUM_STEPS = 6


def _settings(core=None):
  config = small.settings('actor_critic')
  if core is not None:
    with config.unlocked():
      config.net_settings.net_args.update(core=core, core_kwargs=dict(size=4))
  return config


def _make(env_name, core=None, **env_settings):
  """Makes an agent, its parameters, and a function that makes its actor."""
  make_env = lambda: registry.get_environment(env_name, 3, **env_settings)
  env = make_env()
  an_agent = agent.Agent.for_environment(env, _settings(core))
  env.close()
  params = an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  return an_agent, params, lambda: actors.make(an_agent, make_env())


def _init(actor, seed=1):
  return actor.init(*jax.random.split(jax.random.PRNGKey(seed)))


def _step_keys(seed, num_steps=NUM_STEPS):
  return jax.random.split(jax.random.PRNGKey(seed), num_steps)


@pytest.mark.parametrize('core', [None, 'lstm'])
def test_host_acting_is_device_acting(core):
  """Step for step, over several rollouts and the ends of episodes."""
  an_agent = small.make_agent('actor_critic', _settings(core))
  env = small.environment()
  params = an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  device, host = (
    kind(an_agent, env) for kind in (actors.DeviceActor, actors.HostActor)
  )
  assert device.is_pure and not host.is_pure
  assert device.num_envs == host.num_envs == 3
  unroll = jax.jit(device.unroll)
  state, host_state = _init(device), _init(host)
  golden.check_trees_close(host_state, state, 0)
  for seed in range(2):
    state, rollout = unroll(params, state, _step_keys(seed))
    host_state, host_rollout = host.unroll(params, host_state, _step_keys(seed))
    for name in ('observations', 'actions', 'rewards', 'discounts'):
      np.testing.assert_array_equal(host_rollout[name], rollout[name])
    golden.check_trees_close(
      host_rollout, rollout.replace(states=host_rollout.states), 1e-5
    )
    golden.check_trees_close(
      host_rollout.states, jax.tree.map(lambda x: x[:1], rollout.states), 1e-5
    )
    golden.check_trees_close(host_state, state, 1e-5)
    assert not rollout.discounts.all()
  assert set(rollout.agent_outs) == {'logits'}
  # The stored rollouts are the same.
  golden.check_trees_close(
    replay.to_stored(host_rollout), replay.to_stored(rollout), 1e-5
  )


def test_a_rollout_on_the_host_keeps_only_the_first_network_state():
  an_agent, params, make_actor = _make('catch_numpy', core='lstm')
  actor = make_actor()
  state = _init(actor)
  for seed in range(2):
    before = state.net_state
    state, rollout = actor.unroll(params, state, _step_keys(seed))
    leaves = jax.tree.leaves(rollout.states)
    assert leaves and all(x.shape == (1, 3, 4) for x in leaves)
    golden.check_trees_close(rollout.first_state(time_axis=0), before, 0)
    checks.check_actor_rollout(rollout)
  # The second starts where the first ended, and the network agrees.
  assert any(np.asarray(x).any() for x in leaves)
  outs, after = an_agent.unroll_net(
    params, rollout.first_state(time_axis=0), rollout
  )
  np.testing.assert_allclose(outs['logits'], rollout.logits, rtol=0, atol=1e-6)
  golden.check_trees_close(after, state.net_state, 1e-5)


def test_a_rollout_of_several_trajectories_keeps_their_first_states():
  _, params, make_actor = _make('catch_numpy', core='lstm')
  parts, whole = make_actor(), make_actor()
  state, keys = _init(parts), _step_keys(3, 9)
  firsts, rollouts = [], []
  for own_keys in (keys[:2], keys[2:6], keys[6:]):
    firsts.append(state.net_state)
    state, rollout = parts.unroll(params, state, own_keys)
    rollouts.append(rollout)
  first = _init(whole)
  last, rollout = whole.unroll(params, first, keys, starts=(0, 2, 6))
  golden.check_trees_close(rollout.states, utils.tree_stack(firsts), 0)
  golden.check_trees_close(last, state, 0)
  np.testing.assert_array_equal(
    rollout.observations, np.concatenate([x.observations for x in rollouts])
  )
  spec = whole.rollout_spec(params, first, 9, starts=(0, 2, 6))
  assert jax.tree.map(lambda x: (x.shape, x.dtype), rollout) == jax.tree.map(
    lambda x: (x.shape, x.dtype), spec
  )


def test_an_ordinary_environment_is_acted_in_step_by_step():
  """The rollout equals that of a plain loop over steps."""
  an_agent, params, make_actor = _make('catch_numpy', rows=5, columns=4)
  actor = make_actor()
  assert isinstance(actor, actors.HostActor)
  state, rollout = actor.unroll(params, _init(actor), _step_keys(2, 9))

  env = registry.get_environment('catch_numpy', 3, rows=5, columns=4)
  env_state, timestep = env.reset(None)
  actor_step = jax.jit(an_agent.actor_step)
  steps = []
  for key in _step_keys(2, 9):
    step, _ = actor_step(params, key, timestep, {})
    env_state, timestep = env.step(env_state, np.asarray(step.actions))
    steps.append(step.replace(agent_outs=dict(logits=step.logits)))
  wanted = types.ActorRollout.from_timestep(utils.tree_stack(steps))
  assert not wanted.discounts.all()
  jax.tree.map(np.testing.assert_array_equal, rollout, wanted)
  jax.tree.map(np.testing.assert_array_equal, state.timestep, timestep)


def test_the_shapes_of_a_rollout_are_known_without_acting():
  for env_name in ('catch', 'catch_numpy'):
    _, params, make_actor = _make(env_name, core='lstm')
    actor = make_actor()
    state = _init(actor)
    spec = actor.rollout_spec(params, state, NUM_STEPS)
    _, rollout = actor.unroll(params, state, _step_keys(0))
    shapes, wanted = (
      jax.tree.map(
        lambda x: (x.shape, x.dtype), jax.eval_shape(replay.to_stored, tree)
      )
      for tree in (rollout, spec)
    )
    assert shapes == wanted


def test_an_actor_keeps_the_outputs_it_is_asked_for():
  an_agent, params, _ = _make('catch')
  env = registry.get_environment('catch', 3)
  outputs = ('logits', 'v')
  for kind in (actors.DeviceActor, actors.HostActor):
    actor = kind(an_agent, env, outputs)
    _, rollout = actor.unroll(params, _init(actor), _step_keys(0))
    assert set(rollout.agent_outs) == set(outputs)


def test_a_saved_state_goes_on_as_it_would_have():
  _, params, make_actor = _make('catch_numpy')
  actor = make_actor()
  state, _ = actor.unroll(params, _init(actor), _step_keys(0))
  saved = jax.device_get(actor.to_checkpoint(state))
  _, wanted = actor.unroll(params, state, _step_keys(1))
  other = make_actor()
  restored, goes_on = other.from_checkpoint(saved)
  assert goes_on
  _, rollout = other.unroll(params, restored, _step_keys(1))
  jax.tree.map(np.testing.assert_array_equal, rollout, wanted)


def test_a_snapshot_that_changes_is_refused(monkeypatch):
  _, _, make_actor = _make('catch_numpy')
  actor = make_actor()
  state = _init(actor)
  actor.to_checkpoint(state)
  actor.to_checkpoint(state)
  monkeypatch.setattr(actor._env, 'snapshot', lambda: dict(a=np.zeros(2)))
  with pytest.raises(ValueError, match='snapshot have other names'):
    actor.to_checkpoint(state)


def test_environments_without_snapshots_are_reset():
  _, params, make_actor = _make('gym:CartPole-v1', core='lstm')
  actor = make_actor()
  state, _ = actor.unroll(params, _init(actor), _step_keys(0))
  saved = actor.to_checkpoint(state)
  assert saved.env_state is None
  other = make_actor()
  restored, goes_on = other.from_checkpoint(saved)
  assert not goes_on
  assert not any(
    np.asarray(x).any() for x in jax.tree.leaves(restored.net_state)
  )
  for either in (actor, other):
    either.close()


def test_one_program_acts_in_several_environments():
  """For example, of several seeds with environments on the host."""
  _, params, make_actor = _make('catch_numpy')
  actor = make_actor()
  env = registry.get_environment('catch_numpy', 3, random_seed=5)
  other = actor.with_env(env)
  rollouts = [
    own.unroll(params, _init(own), _step_keys(0))[1] for own in (actor, other)
  ]
  assert (rollouts[0].observations != rollouts[1].observations).any()
  assert actor._step is other._step and actor._step._cache_size() == 1
