"""`make_learner` with any network learns as `Agent` does."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import disco_rl
from disco_rl import optimizers
from disco_rl import types
from disco_rl.learning import learner as learner_lib
from disco_rl.update_rules import actor_critic
from tests.support import golden
from tests.support import small


@pytest.mark.parametrize('rule', ['disco', 'actor_critic'])
def test_learns_as_the_agent_does(rule):
  """In two updates of a network with memory, over the ends of episodes."""
  config = small.settings(rule)
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  an_agent = small.make_agent(rule, config)
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  learner = learner_lib.make_learner(
    an_agent.update_rule,
    an_agent._network.unroll,
    learning_rate=config.learning_rate,
    hyper_params=config.hyper_params,
  )
  wanted = an_agent.initial_learner_state(rng)
  state = learner.init(rng, wanted.params)
  # Only the state is donated; `init` copied the parameters.
  update = jax.jit(learner.update, donate_argnums=1)
  learner_step = jax.jit(an_agent.learner_step, static_argnums=5)
  for i in range(2):
    rollout = small.act(an_agent, state.params, jax.random.PRNGKey(i), 9)
    assert not rollout.discounts.all()
    rollout = jax.tree.map(lambda x: x[4:], rollout)  # A new episode.
    state, out = update(eta, state, rollout, rng)
    wanted, _, wanted_log = learner_step(
      rng, rollout, wanted, rollout.first_state(0), eta, False
    )
    golden.check_trees_close(
      jax.device_get(dict(state)), jax.device_get(dict(wanted)), 2e-4
    )
    for name, value in out.log.items():
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
    learner = learner_lib.make_learner(
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


def test_a_rule_that_needs_a_critic_is_refused_without_one():
  an_agent = small.make_agent('policy_gradient')
  with pytest.raises(ValueError, match='PolicyGradientUpdate needs a critic'):
    learner_lib.make_learner(an_agent.update_rule, None, hyper_params={})
  learner = _make_learner(an_agent)
  params = an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  with pytest.raises(ValueError, match='needs example observations'):
    learner.init(jax.random.PRNGKey(0), params)


def _make_learner(an_agent, **kwargs):
  """Makes a learner with the network, settings and critic of an agent."""
  config = an_agent.settings
  critic = None
  if 'value_fn' in config:
    critic = types.ValueFnConfig(**config.value_fn)
  return learner_lib.make_learner(
    an_agent.update_rule,
    an_agent._network,
    optimizer=optimizers.agent_optimizer(config),
    hyper_params=config.hyper_params,
    critic=critic,
    **kwargs,
  )


def _first_rollout(an_agent, rng):
  """Makes parameters, η and a rollout in which episodes end."""
  state = an_agent.initial_learner_state(rng)
  eta, _ = an_agent.update_rule.init_params(rng)
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 6)
  assert not rollout.discounts.all()
  return state, eta, rollout


@pytest.mark.parametrize('rule', ['disco', 'actor_critic', 'policy_gradient'])
def test_is_exactly_the_learner_step_of_the_agent(rule):
  """With the same network, and with a critic where the rule needs one."""
  an_agent = small.make_agent(rule)
  rng = jax.random.PRNGKey(0)
  wanted, eta, rollout = _first_rollout(an_agent, rng)
  learner = _make_learner(an_agent)
  own = learner.init(
    jax.random.split(rng)[1], wanted.params, rollout.observations[0]
  )
  assert (own.critic is not None) == (rule == 'policy_gradient')
  update = jax.jit(learner.update)
  learner_step = jax.jit(an_agent.learner_step, static_argnums=5)
  state = wanted
  golden.check_trees_close(own, wanted, 0)
  for i in range(2):
    key = jax.random.PRNGKey(i)
    state, out = update(eta, state, rollout, key)
    wanted, net_state, wanted_log = learner_step(
      key, rollout, wanted, {}, eta, False
    )
    golden.check_trees_close(state, wanted, 0)
    golden.check_trees_close(out.log, wanted_log, 0)
    assert out.net_state == net_state == {}
    assert out.agent_out is out.meta_out is out.value_out is None


def test_a_learner_with_a_critic_learns():
  """The policy prefers actions with a positive advantage."""
  config = small.settings('policy_gradient')
  config.learning_rate = 5e-3
  an_agent = small.make_agent('policy_gradient', config)
  rng = jax.random.PRNGKey(0)
  state, eta, rollout = _first_rollout(an_agent, rng)
  # Action 0 is rewarded, on all steps.
  rewards = jnp.roll(1.0 * (rollout.actions == 0), 1, axis=0)
  rollout = rollout.replace(
    rewards=rewards, discounts=jnp.ones_like(rollout.discounts)
  )
  learner = _make_learner(an_agent, with_outputs=True)
  state = learner.init(rng, state.params, rollout.observations[0])
  update = jax.jit(learner.update, donate_argnums=1)
  losses = []
  for _ in range(40):
    state, out = update(eta, state, rollout, rng)
    losses.append(float(out.log['value_loss']))
  assert losses[-1] < losses[0]
  assert out.value_out.value.shape == (6, 3)
  probabilities = jax.nn.softmax(out.agent_out['logits'])
  before = jax.nn.softmax(rollout.logits)
  assert probabilities[..., 0].mean() > before[..., 0].mean() + 0.1
  with pytest.raises(ValueError, match='has a critic, but its state has none'):
    learner.update(eta, state.replace(critic=None), rollout, rng)


def test_gradients_in_eta_are_those_of_the_agent():
  """Through the new parameters, which depend on η through the targets."""
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  state, _, rollout = _first_rollout(an_agent, rng)
  eta, _ = an_agent.update_rule.init_params(jax.random.PRNGKey(1))
  learner = _make_learner(an_agent)
  # In the first update, the state of the life-long LSTM is zero.
  state, _ = jax.jit(learner.update)(eta, state, rollout, rng)
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(2), 6)

  def measure(params):
    outs, _ = an_agent.unroll_net(params, {}, rollout)
    return jnp.mean(jnp.square(outs['y'])) + jnp.mean(outs['logits'][..., 0])

  def by_learner(eta):
    return measure(learner.update(eta, state, rollout, rng)[0].params)

  def by_agent(eta):
    new_state, _, _ = an_agent.learner_step(rng, rollout, state, {}, eta, True)
    return measure(new_state.params)

  actual = jax.jit(jax.grad(by_learner))(eta)
  wanted = jax.jit(jax.grad(by_agent))(eta)
  for name, grad in golden.named_leaves(actual):
    # The life-long LSTM changes the targets of later updates only.
    is_memory = 'meta_lstm' in name or 'lstm/linear_1/' in name
    assert np.isfinite(grad).all()
    assert np.asarray(grad).any() != is_memory, name
  golden.check_trees_close(actual, wanted, 0)


def test_outputs_on_request():
  """The network's outputs before the update, and the rule's targets."""
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  state, eta, rollout = _first_rollout(an_agent, rng)
  learner = _make_learner(an_agent, with_outputs=True)
  _, out = jax.jit(learner.update)(eta, state, rollout, rng)
  _, _, log = jax.jit(an_agent.learner_step, static_argnums=5)(
    rng, rollout, state, {}, eta, True
  )
  golden.check_trees_close(dict(out.meta_out), dict(log['meta_out']), 1e-5)
  golden.check_trees_close(dict(out.agent_out), dict(rollout.agent_outs), 1e-5)
  assert out.value_out is None


@pytest.fixture(scope='module')
def bare():
  """A network of two arrays, and the actor-critic as a loaded rule."""

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
  states, out = jax.jit(update)({}, states, rollout, keys)
  assert out.log['total_loss'].shape == (2,)
  # Action 0 was rewarded.
  gain = states.params['logits'][:, 0, 0] - states.params['logits'][:, 0, 1]
  assert (gain > 0).all()


def test_what_would_have_no_effect_or_is_missing_is_refused(bare):
  unroll, params, rollout = bare
  with pytest.raises(ValueError, match='would have no effect beside optimize'):
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
