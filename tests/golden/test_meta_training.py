"""Meta-training as in the published harness, from keys alone."""

import jax
import numpy as np

from disco_rl import types
from disco_rl.meta_training import meta_gradient
from tests.support import golden
from tests.support import small_meta


def test_init():
  state = jax.jit(small_meta.make_meta_agent().init)(jax.random.PRNGKey(6))
  with golden.opened('meta_train_init') as g:
    g.check(state.learner.params, 'learner_params', golden.INITIAL)
    g.check(state.learner.critic.params, 'value_params', golden.INITIAL)
    np.testing.assert_array_equal(
      state.actor.timestep.observation, g['env_obs']
    )


def test_meta_gradient():
  agent = small_meta.make_meta_agent(meta_gradient_mode='reverse')
  template = agent.init(jax.random.PRNGKey(0))
  with golden.opened('meta_gradient') as g:
    learner = g.fill(template.learner.replace(critic=None), 'learner_state')
    critic = g.fill(template.learner.critic, 'value_state')
    state = meta_gradient.AgentState(
      learner=learner.replace(critic=critic),
      actor=None,
      buffer=None,
      episodes=None,
    )
    train, valid = (
      types.ActorRollout(**g.nested(name), states={})
      for name in ('train_rollouts', 'valid_rollout')
    )
    result = jax.jit(agent.differentiate)(
      g.params('meta_params'), state, train, valid, jax.random.PRNGKey(7)
    )
    g.check(result.grads, 'meta_grads', golden.GRADIENTS)
    learner = result.state.learner
    g.check(learner.params, 'new_params', golden.AFTER_UPDATES)
    g.check(learner.critic.params, 'new_value_params', golden.AFTER_UPDATES)
    meta_log = g.under('meta_log')
    log = {name: result.log[name] for name in meta_log}
    g.check(log, 'meta_log', golden.AFTER_UPDATES)
    inner_log = dict(result.inner_log)
    for name in ('value_loss', 'value_td', 'value_normalized_td'):
      assert inner_log.pop(name).shape == (2,)  # Of the critic.
    g.check(inner_log, 'train_metrics', golden.AFTER_UPDATES)
    # The gradients are small; their scale must be right as well.
    for name, wanted in g.under('meta_grads').items():
      module, _, leaf = name.rpartition('/')
      np.testing.assert_allclose(
        result.grads[module][leaf], wanted, atol=1e-3 * np.abs(wanted).max()
      )


def test_meta_updates(monkeypatch):
  trainer = small_meta.make_trainer()
  eta = trainer.init_params(jax.random.PRNGKey(1))
  with golden.opened('meta_update') as g:
    g.check(eta, 'params_before', golden.INITIAL)
    state = trainer.init(jax.random.PRNGKey(8), eta)
    # In optimised code, unlike other tests: some gradients are as small as the
    # rounding errors of the published harness, and Adam enlarges them.
    update = (
      trainer.trace(state, jax.random.PRNGKey(0))
      .lower()
      .compile(compiler_options={'xla_backend_optimization_level': 3})
    )
    monkeypatch.setattr(trainer, '_update', update)
    for i in range(2):
      state, log = trainer.update(state, jax.random.PRNGKey(400 + i))
      averaged = {'rewards', 'pos_rewards', 'neg_rewards'}
      of_eta = {'meta_grad_norm', 'meta_up_norm'}
      for name, wanted in g.under(f'logs/{i}').items():
        # The published log has the other quantities of the last agent only.
        if name in averaged | of_eta:
          actual = log.averages[name]
        else:
          actual = log.per_agent[name][-1]
        golden.check_close(actual, wanted, golden.AFTER_UPDATES, name)
      for name in averaged:
        np.testing.assert_allclose(
          log.per_agent[name].mean(), log.averages[name], 1e-6
        )
    g.check(state.eta, 'params_after', golden.VALUES)
