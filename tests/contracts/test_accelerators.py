"""The compiled programs can be lowered for accelerators that are not here."""

import dataclasses
import re

import jax
import jax.export
import pytest

from tests.support import hosted
from tests.support import small
from tests.support import small_meta

PLATFORMS = ['cuda', 'tpu']


def _check(jitted, *args):
  """Lowers a program for both platforms, and checks what it consists of."""
  exported = jax.export.export(jitted, platforms=PLATFORMS)(*args)
  text = exported.mlir_module()
  assert len(text) > 10_000
  assert 'callback' not in text and 'infeed' not in text
  assert not re.search(r'tensor<[^>]*f64>', text)
  assert not re.search(r'tensor<\?', text)


@pytest.mark.parametrize(
  'rule', ['disco', 'actor_critic', 'policy_gradient', 'ppo']
)
def test_a_learner_step(rule):
  an_agent = small.make_agent(rule)
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  state = an_agent.initial_learner_state(rng)
  rollout = small.act(an_agent, state.params, rng, 5)
  step = lambda eta, state, rollout: an_agent.learner.update(
    eta, state, rollout, rng, backprop=False
  )[0]
  _check(jax.jit(step), eta, state, rollout)


def test_acting():
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  env = small.environment()
  state = an_agent.initial_learner_state(rng)
  env_state, timestep = jax.jit(env.reset)(rng)
  actor_state = an_agent.initial_actor_state(rng, 3)

  def act(params, env_state, timestep, actor_state):
    def step(carry, key):
      env_state, timestep, actor_state = carry
      out, actor_state = an_agent.actor_step(params, key, timestep, actor_state)
      env_state, timestep = env.step(env_state, out.actions)
      return (env_state, timestep, actor_state), out

    keys = jax.random.split(rng, 4)
    return jax.lax.scan(step, (env_state, timestep, actor_state), keys)

  _check(jax.jit(act), state.params, env_state, timestep, actor_state)


@pytest.mark.parametrize(
  'settings',
  [{}, dict(num_inner_updates=3, rematerialize_all_but=0)],
  ids=['plain', 'rematerialised'],
)
def test_a_meta_gradient(settings):
  meta_agent = small_meta.make_meta_agent(**settings)
  rng = jax.random.PRNGKey(0)
  state = meta_agent.init(rng)
  eta, _ = small.make_agent('disco').update_rule.init_params(rng)
  gradient = lambda eta, state: meta_agent.meta_gradient(eta, state, rng, rng)
  _check(jax.jit(gradient), eta, state)


def test_the_programs_of_agents_on_the_host():
  on_host = hosted.environment_fn(rows=5, columns=4)
  group = dataclasses.replace(small_meta.make_group(), env_fn=on_host)
  trainer = small_meta.make_trainer(group)
  spec, key = trainer._update_specs()
  keys = jax.ShapeDtypeStruct((2, *key.shape), key.dtype)
  (own,) = spec.groups
  rollouts = trainer.hosts.groups[0].rollouts_spec(own.agents.learner.params)
  (contribute,) = trainer._update._contribute
  _check(contribute, spec.eta, own, keys, keys, rollouts)
