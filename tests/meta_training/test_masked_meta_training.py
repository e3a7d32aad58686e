"""Meta-training with illegal actions, on the device and on the host."""

import jax
import numpy as np
import pytest

from disco_rl import agent as agent_lib
from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.meta_training import alike
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import trainer
from tests.support import golden
from tests.support import masked
from tests.support import masked_learning
from tests.support import small
from tests.support import small_meta


def _meta_agent(kind=masked.Doors, **changes):
  config = small_meta.config(**changes)
  env = masked.environment(config.batching.num_envs, kind)
  settings = small_meta.with_critic(small.settings('disco'))
  an_agent = agent_lib.Agent.for_environment(env, settings)
  return meta_gradient.MetaAgent(an_agent, actors.make(an_agent, env), config)


def _eta(seed=1):
  rule = small.make_agent('disco').update_rule
  return rule.init_params(jax.random.PRNGKey(seed))[0]


def _experience(meta_agent):
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state = jax.jit(meta_agent.init)(keys[0])
  state, train, valid, _ = jax.jit(meta_agent.act)(state, keys[1])
  return (state, train, valid), keys[2]


@pytest.mark.slow
def test_ways_to_compute_the_meta_gradient_agree():
  """The plain one, and rematerialised in mixed mode."""
  ways = [
    dict(rematerialize_all_but=None, meta_gradient_mode='reverse'),
    dict(rematerialize_all_but=0, meta_gradient_mode='mixed'),
  ]
  (state, train, valid), key = _experience(_meta_agent())
  for rollout in (train, valid):
    locked = np.asarray(rollout.observations[..., masked.NUM_DOORS :])
    np.testing.assert_array_equal(rollout.action_mask, locked == 0)
    assert np.asarray(rollout.rewards).min() == 0
  results = []
  for way in ways:
    result = jax.jit(_meta_agent(**way).differentiate)(
      _eta(), state, train, valid, key
    )
    assert masked_learning.all_finite(result)
    results.append(jax.device_get(result.grads))
  scale = max(np.abs(x).max() for x in jax.tree.leaves(results[0]))
  assert scale > 1e-3
  scaled = [jax.tree.map(lambda x: x / scale, grads) for grads in results]
  golden.check_trees_close(*scaled, 1e-4)


def test_masks_of_legal_actions_only_give_the_same_meta_gradient():
  meta_agent = _meta_agent(masked.AllLegalDoors)
  (state, train, valid), key = _experience(meta_agent)
  differentiate = jax.jit(meta_agent.differentiate)
  free = [x.replace(action_mask=None) for x in (train, valid)]
  grads = [
    jax.device_get(differentiate(_eta(), state, *own, key).grads)
    for own in ((train, valid), free)
  ]
  scale = max(np.abs(x).max() for x in jax.tree.leaves(grads[0]))
  assert scale > 1e-3
  scaled = [jax.tree.map(lambda x: x / scale, own) for own in grads]
  golden.check_trees_close(*scaled, 1e-4)


@pytest.fixture
def settings(own_rule):
  """Settings of agents whose programs compile quickly."""
  own = small_meta.with_critic(own_rule['agent_settings'])
  own.net_settings.net_args.dense = (9, 8)
  return own


def _group(settings, env_fn, name):
  return trainer.Group(env_fn, settings, 2, name=name)


def test_groups_with_and_without_masks_train_one_rule(settings):
  gym = 'gym:tests.support.masked:GymDoors'
  groups = [
    _group(settings, lambda batch, seed: masked.environment(batch), 'doors'),
    _group(settings, registry.environment_fn(gym), 'free'),
    _group(settings, registry.environment_fn(gym, action_mask=True), 'masked'),
    _group(settings, registry.environment_fn('catch', rows=5, columns=4), 'c'),
  ]
  own = small_meta.make_trainer(*groups, num_inner_updates=1)
  state = own.init(
    jax.random.PRNGKey(2), own.init_params(jax.random.PRNGKey(1))
  )
  for i in range(2):
    state, log = own.update(state, jax.random.PRNGKey(i))
    wrong = [k for k, x in log.averages.items() if not np.isfinite(x)]
    assert all('return' in name for name in wrong), wrong  # Without episodes.
  timesteps = [group.agents.actor for group in state.groups[1:3]]
  has_mask = [x[0].timestep.action_mask is not None for x in timesteps]
  assert has_mask == [False, True]
  own.close()


def test_groups_with_and_without_masks_are_not_alike(settings):
  """Although observations and actions are the same."""
  gym = 'gym:tests.support.masked:GymDoors'
  fns = {
    name: registry.environment_fn(gym, action_mask=has_mask)
    for name, has_mask in (('a', False), ('b', True), ('c', True))
  }
  groups = [_group(settings, fn, name) for name, fn in fns.items()]
  assert alike.count(groups, fns) == {0: 1, 1: 2}
