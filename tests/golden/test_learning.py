"""Acting and learning, step for step as in the published harness."""

import jax
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils
from disco_rl.environments import catch
from disco_rl.value_fns import value_fn
from tests.support import golden
from tests.support import small


@pytest.mark.parametrize(
  ('file', 'rule', 'num_updates'),
  [
    ('learner_step', 'disco', 3),
    ('actor_critic_learner_step', 'actor_critic', 2),
  ],
)
def test_acting_and_learning(file, rule, num_updates):
  an_agent = small.make_agent(rule)
  template = an_agent.initial_learner_state(jax.random.PRNGKey(0))
  env = small.environment()
  env_state, timestep = env.reset(jax.random.PRNGKey(5))
  actor_step, env_step = jax.jit(an_agent.actor_step), jax.jit(env.step)
  learner_step = jax.jit(an_agent.learner_step, static_argnums=5)
  with golden.opened(file) as g:
    meta_params = g.params('meta_params') if rule == 'disco' else {}
    state = g.fill(template, 'learner_states/0')
    for i in range(num_updates):
      steps = []
      for key in jax.random.split(jax.random.PRNGKey(100 + i), 9):
        step, _ = actor_step(state.params, key, timestep, {})
        env_state, timestep = env_step(env_state, step.actions)
        steps.append(step)
      rollout = types.ActorRollout.from_timestep(utils.tree_stack(steps))
      recorded = g.nested(f'rollouts/{i}')
      for name in ('observations', 'actions', 'rewards', 'discounts'):
        np.testing.assert_array_equal(rollout[name], recorded[name])
      # The policy that acts has been updated i times by our own learner.
      g.check(rollout, f'rollouts/{i}', golden.AFTER_UPDATES)

      state, _, log = learner_step(
        jax.random.PRNGKey(0), rollout, state, {}, meta_params, False
      )
      after = f'learner_states/{i + 1}'
      g.check(state, after, golden.AFTER_UPDATES)
      g.check(log, f'logs/{i}', golden.AFTER_UPDATES)


def test_value_function():
  config = types.ValueFnConfig(
    net='mlp',
    net_args=dict(dense=(6, 6), head_w_init_std=1e-2),
    learning_rate=1e-3,
    max_abs_update=1.0,
    discount_factor=0.99,
    td_lambda=0.96,
    outer_value_cost=1.0,
  )
  critic = value_fn.ValueFunction(config, axis_name=None)
  with golden.opened('value_fn') as g:
    rollouts = [
      types.ActorRollout(**g.nested(f'rollouts/{i}'), states={})
      for i in range(2)
    ]
    template = critic.initial_state(
      jax.random.PRNGKey(0), rollouts[0].observations[0]
    )
    state = g.fill(template, 'state0')
    logits = g['pi_logits']
    evaluated, net_out, _, _ = critic.get_value_outs(state, rollouts[0], logits)
    assert net_out.shape == (7, 3, 1)
    for i in (1, 2):
      state, outs, log = critic.update(state, rollouts[i - 1], logits)
      if i == 1:
        g.check(outs, 'value_outs1')
        # Looser: undoing the signed-hyperbolic map turns the last bit of a
        # network output into 1e-4 of a value.
        golden.check_trees_close(evaluated, outs, 2e-4)
      g.check(state, f'state{i}', golden.AFTER_UPDATES)
      g.check(log, f'log{i}', golden.AFTER_UPDATES)


def _play(env, rng, actions):
  states, timestep = env.reset(rng)
  timesteps = [timestep]
  for action in actions:
    states, timestep = env.step(states, action)
    timesteps.append(timestep)
  return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)


def test_catch():
  settings = catch.get_config()
  settings.update(rows=6, columns=5)
  with golden.opened('catch') as g:
    for name, env, rng in [
      ('jittable', small.environment(batch_size=4), jax.random.PRNGKey(3)),
      ('cpu', catch.CatchEnvironment(4, settings), None),
    ]:
      trace = _play(env, rng, g['actions'])
      for field, wanted in g.under(name).items():
        np.testing.assert_array_equal(trace[field], wanted)
        assert trace[field].dtype == wanted.dtype
