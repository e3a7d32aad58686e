"""`init` and `update` around any network learn as `Agent` does."""

import jax
import numpy as np
import pytest

from disco_rl import optimizers
from disco_rl import rule_learner
from tests import golden
from tests import small


@pytest.mark.parametrize('rule', ['disco', 'actor_critic'])
def test_learns_as_the_agent_does(rule):
  """Two updates, with a memory in the network, episode ends included."""
  config = small.settings(rule)
  with config.unlocked():
    config.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  an_agent = small.make_agent(rule, config)
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  learner = rule_learner.make(
    an_agent.update_rule,
    eta,
    an_agent._network.unroll,
    config.hyper_params,
    optimizers.clipped_adam(config.learning_rate, config.max_abs_update),
  )
  wanted = an_agent.initial_learner_state(rng)
  params = wanted.params
  state = learner.init(rng, params)
  update = jax.jit(learner.update)
  learner_step = jax.jit(an_agent.learner_step, static_argnums=5)
  for i in range(2):
    rollout = small.act(an_agent, params, jax.random.PRNGKey(i), 9)
    assert not rollout.discounts.all()
    rollout = jax.tree.map(lambda x: x[4:], rollout)  # Begins with an episode.
    params, state, log = update(params, state, rollout)
    wanted, _, wanted_log = learner_step(
      rng, rollout, wanted, rollout.first_state(0), eta, False
    )
    golden.check_trees_close(
      jax.device_get((params, state.meta_state, state.opt_state)),
      jax.device_get((wanted.params, wanted.meta_state, wanted.opt_state)),
      2e-4,
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
    learner = rule_learner.make(
      an_agent.update_rule,
      eta,
      an_agent._network.unroll,
      config.hyper_params,
      optimizers.clipped_adam(1e-2, 1.0),
      axis_name,
    )
    state = learner.init(rng, params)
    if axis_name is None:
      results.append(jax.jit(learner.update)(params, state, rollout)[0])
      continue
    shards = jax.tree.map(
      lambda x: x.reshape(x.shape[0], 4, 2, *x.shape[2:]).swapaxes(0, 1),
      rollout,
    )
    new_params, *_ = jax.pmap(
      learner.update, axis_name=axis_name, in_axes=(None, None, 0)
    )(params, state, shards)
    results += [jax.tree.map(lambda x, i=i: x[i], new_params) for i in (0, 3)]
  for result in results[1:]:
    golden.check_trees_close(
      jax.device_get(result), jax.device_get(results[0]), 2e-4
    )


def test_a_rule_that_needs_a_critic_is_refused():
  an_agent = small.make_agent('policy_gradient')
  with pytest.raises(ValueError, match='PolicyGradientUpdate needs a critic'):
    rule_learner.make(an_agent.update_rule, {}, None, {}, None)
