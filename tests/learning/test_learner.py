"""`init` and `update` around any network learn as `Agent` does."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import disco_rl
from disco_rl import optimizers
from disco_rl import types
from disco_rl.learning import learner as rule_learner
from disco_rl.update_rules import actor_critic
from tests.support import golden
from tests.support import small


@pytest.mark.parametrize('rule', ['disco', 'actor_critic'])
def test_learns_as_the_agent_does(rule):
  """Two updates, with a memory in the network, episode ends included."""
  config = small.settings(rule)
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  an_agent = small.make_agent(rule, config)
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  learner = rule_learner.make_learner(
    an_agent.update_rule,
    an_agent._network.unroll,
    learning_rate=config.learning_rate,
    hyper_params=config.hyper_params,
  )
  wanted = an_agent.initial_learner_state(rng)
  state = learner.init(rng, wanted.params)
  # η outlives the state it was used with, and so do the first parameters.
  update = jax.jit(learner.update, donate_argnums=1)
  learner_step = jax.jit(an_agent.learner_step, static_argnums=5)
  for i in range(2):
    rollout = small.act(an_agent, state.params, jax.random.PRNGKey(i), 9)
    assert not rollout.discounts.all()
    rollout = jax.tree.map(lambda x: x[4:], rollout)  # Begins with an episode.
    state, log = update(eta, state, rollout, rng)
    wanted, _, wanted_log = learner_step(
      rng, rollout, wanted, rollout.first_state(0), eta, False
    )
    golden.check_trees_close(
      jax.device_get(dict(state)), jax.device_get(dict(wanted)), 2e-4
    )
    for name, value in log.items():
      np.testing.assert_allclose(value, wanted_log[name], 2e-3, 2e-4)
  assert update._cache_size() == 1


@pytest.mark.slow
def test_many_devices_learn_as_one():
  an_agent = small.make_agent('disco')
  config = small.settings('disco')
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  params = an_agent.initial_learner_state(rng).params
  rollout = small.act(an_agent, params, rng, 9, batch_size=8)
  results = []
  for axis_name in (None, 'batch'):
    learner = rule_learner.make_learner(
      an_agent.update_rule,
      an_agent._network.unroll,
      optimizer=optimizers.clipped_adam(1e-2, 1.0),
      hyper_params=config.hyper_params,
      axis_name=axis_name,
    )
    state = learner.init(rng, params)
    if axis_name is None:
      new_state, _ = jax.jit(learner.update)(eta, state, rollout, rng)
      results.append(new_state.params)
      continue
    shards = jax.tree.map(
      lambda x: x.reshape(x.shape[0], 4, 2, *x.shape[2:]).swapaxes(0, 1),
      rollout,
    )
    new_state, _ = jax.pmap(
      learner.update, axis_name=axis_name, in_axes=(None, None, 0, None)
    )(eta, state, shards, rng)
    results += [
      jax.tree.map(lambda x, i=i: x[i], new_state.params) for i in (0, 3)
    ]
  for result in results[1:]:
    golden.check_trees_close(
      jax.device_get(result), jax.device_get(results[0]), 2e-4
    )


def test_a_rule_that_needs_a_critic_is_refused():
  an_agent = small.make_agent('policy_gradient')
  with pytest.raises(ValueError, match='PolicyGradientUpdate needs a critic'):
    rule_learner.make_learner(an_agent.update_rule, None, hyper_params={})


@pytest.fixture(scope='module')
def bare():
  """A network of two arrays, a loaded rule of the actor-critic's kind."""

  def unroll(params, state, observations, should_reset):
    del should_reset
    return dict(
      logits=observations @ params['logits'], v=observations @ params['v']
    ), state

  params = dict(logits=jnp.zeros((4, 3)), v=jnp.zeros((4, 601)))
  logits = jnp.zeros((6, 2, 3))
  rollout = types.ActorRollout(
    observations=jnp.ones((6, 2, 4)),
    actions=jnp.zeros((6, 2), jnp.int32),
    rewards=jnp.ones((6, 2)),
    discounts=jnp.ones((6, 2)),
    agent_outs=dict(logits=logits),
    logits=logits,
    states=None,
  )
  return unroll, params, rollout


def test_a_loaded_rule_brings_its_settings_and_vmapped_seeds_share_eta(bare):
  unroll, params, rollout = bare
  learner = disco_rl.make_learner('actor_critic', unroll, learning_rate=0.1)
  keys = jax.random.split(jax.random.PRNGKey(0), 2)
  states = jax.vmap(learner.init, in_axes=(0, None))(keys, params)
  update = jax.vmap(learner.update, in_axes=(None, 0, None, 0))
  states, log = jax.jit(update)({}, states, rollout, keys)
  assert log['total_loss'].shape == (2,)
  # Action 0 was rewarded.
  gain = states.params['logits'][:, 0, 0] - states.params['logits'][:, 0, 1]
  assert (gain > 0).all()


def test_what_would_have_no_effect_or_is_missing_is_refused(bare):
  unroll, params, rollout = bare
  with pytest.raises(ValueError, match='would have no effect beside an optim'):
    disco_rl.make_learner(
      'actor_critic', unroll, optimizer=optax.sgd(1.0), learning_rate=0.1
    )
  rule = actor_critic.ActorCritic()
  with pytest.raises(ValueError, match='ActorCritic needs its hyper_params'):
    disco_rl.make_learner(rule, unroll)
  learner = disco_rl.make_learner('actor_critic', unroll)
  rng = jax.random.PRNGKey(0)
  state = learner.init(rng, params)
  with pytest.raises(ValueError, match=r"load_rule\('disco_103'\).eta"):
    learner.update('disco_103', state, rollout, rng)
  # The message names the field that the caller fills.
  without = rollout.replace(agent_outs={})
  with pytest.raises(ValueError, match=r"rollout.agent_outs\['logits'\] is mi"):
    learner.update({}, state, without, rng)
