"""The plain programs of the benchmarks compute what the library does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.naive import meta_update as naive_meta
from benchmarks.naive import step as naive
from disco_rl import agent
from disco_rl import types
from tests.support import golden
from tests.support import small
from tests.support import small_meta

T, B = 6, 4


def _rollout(rng, num_actions):
  keys = jax.random.split(rng, 5)
  shape = (T + 1, B)
  logits = jax.random.normal(keys[4], (*shape, num_actions))
  return types.ActorRollout(
    observations=jax.random.normal(keys[0], (*shape, 5, 4, 1)),
    actions=jax.random.randint(keys[1], shape, 0, num_actions),
    rewards=jax.random.normal(keys[2], shape),
    discounts=jax.random.bernoulli(keys[3], 0.7, shape),
    agent_outs=dict(logits=logits),
    states={},
    logits=logits,
  )


@pytest.mark.parametrize('num_actions', [3, 5])
def test_plain_step_is_that_of_the_library(num_actions):
  settings = small.settings('disco')
  an_agent = agent.Agent(
    single_observation_spec=types.ArraySpec((5, 4, 1), np.float32),
    single_action_spec=types.ActionSpec((), np.int32, 0, num_actions - 1),
    agent_settings=settings,
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  state = fast_state = an_agent.initial_learner_state(rng)
  plain_step = jax.jit(naive.make_step(settings, num_actions))
  fast_step = jax.jit(an_agent.learner_step, static_argnums=5)
  for key in jax.random.split(jax.random.PRNGKey(1), 2):
    rollout = _rollout(key, num_actions)
    assert not jnp.all(rollout.discounts)
    state, log = plain_step(eta, rollout, state)
    fast_state, _, fast_log = fast_step(
      rng, rollout, fast_state, {}, eta, False
    )
    _check_same(state, fast_state)
    meta_out = log.pop('meta_out')
    assert meta_out['target_out']['z'].shape == (T + 1, B, num_actions, 7)
    _check_same(log, fast_log)


def test_plain_step_is_the_published_one():
  template = small.make_agent('disco').initial_learner_state(
    jax.random.PRNGKey(0)
  )
  step = jax.jit(naive.make_step(small.settings('disco'), 3))
  g = golden.Golden('learner_step')
  state = g.fill(template, 'learner_states/0')
  for i in range(3):
    rollout = types.ActorRollout(**g.nested(f'rollouts/{i}'), states={})
    state, log = step(g.params('meta_params'), rollout, state)
    del log['meta_out']
    g.check(state, f'learner_states/{i + 1}', golden.AFTER_UPDATES)
    g.check(log, f'logs/{i}', golden.AFTER_UPDATES)


def test_plain_meta_gradient_is_the_published_one():
  settings = small_meta.with_critic(small.settings('disco'))
  template = small_meta.make_meta_agent().init(jax.random.PRNGKey(0)).learner
  g = golden.Golden('meta_gradient')
  learner = g.fill(template.replace(critic=None), 'learner_state')
  learner = learner.replace(critic=g.fill(template.critic, 'value_state'))
  train, valid = (
    types.ActorRollout(**g.nested(name), states={})
    for name in ('train_rollouts', 'valid_rollout')
  )
  meta_gradient = jax.jit(naive_meta.make_meta_gradient(settings, 3))
  grads, learner = meta_gradient(g.params('meta_params'), learner, train, valid)
  for name, wanted in g.under('meta_grads').items():
    module, _, leaf = name.rpartition('/')
    np.testing.assert_allclose(
      grads[module][leaf], wanted, atol=1e-3 * np.abs(wanted).max()
    )
  g.check(learner.params, 'new_params', golden.AFTER_UPDATES)
  g.check(learner.critic.params, 'new_value_params', golden.AFTER_UPDATES)


def _check_same(tree, other):
  """Compares names and, up to rounding, values."""
  values, others = map(dict, map(golden.named_leaves, (tree, other)))
  assert set(values) == set(others)
  for name, value in values.items():
    golden.check_close(value, others[name], golden.AFTER_UPDATES, name)
