"""The sparse backward pass of unroll functions equals the ordinary one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.networks import nets
from disco_rl.networks import staged_unroll
from tests.support import golden
from tests.support import small

T, B = 4, 3
PER_ACTION = ('z', 'q', 'aux_pi')


@pytest.fixture(scope='module')
def problem():
  """An unroll function, its parameters, observations and random gradients."""
  an_agent = small.make_agent('disco')
  rule, action_spec = an_agent.update_rule, small.environment()
  action_spec = action_spec.single_action_spec()
  net_settings = an_agent.settings.net_settings
  network = nets.get_network(
    net_settings.name,
    out_spec=rule.flat_output_spec(action_spec),
    action_spec=action_spec,
    model_out_spec=rule.model_output_spec(action_spec),
    **net_settings.net_args,
  )
  rng = jax.random.PRNGKey(0)
  observations = jax.random.normal(rng, (T, B, 5, 4, 1))
  params, _ = network.init(rng, observations[0], jnp.zeros(B, bool))
  outs, _ = network.unroll(params, {}, observations, None)
  weights = jax.tree.map(lambda x: jax.random.normal(rng, x.shape), outs)
  return network.unroll, params, observations, weights


def _taken_only(weights):
  """Weights of zero for all but one action per step."""
  actions = jax.random.randint(jax.random.PRNGKey(1), (T, B), 0, 3)
  mask = jax.nn.one_hot(actions, 3)
  return {
    k: x * mask.reshape(T, B, 3, *(1,) * (x.ndim - 3)) if k in PER_ACTION else x
    for k, x in weights.items()
  }


def _loss(unroll, params, observations, weights):
  outs, _ = unroll(params, {}, observations, None)
  terms = jax.tree.map(
    lambda x, w: jnp.sum(jnp.sin(x) * w), dict(outs), weights
  )
  return sum(jax.tree.leaves(terms))


def _plain(unroll):
  return unroll._unroll


@pytest.mark.parametrize(
  'change',
  [
    _taken_only,
    lambda weights: weights,  # Gradients in all actions.
    lambda weights: jax.tree.map(jnp.zeros_like, weights),
    # In one action of every row but one.
    lambda weights: {
      **_taken_only(weights),
      'z': _taken_only(weights)['z'].at[1, 2].set(1.0),
    },
  ],
)
def test_gradients_are_those_of_plain_differentiation(problem, change):
  unroll, params, observations, weights = problem
  weights = change(weights)
  gradient = jax.jit(jax.grad(_loss, argnums=(1, 2)), static_argnums=0)
  actual = gradient(unroll, params, observations, weights)
  wanted = gradient(_plain(unroll), params, observations, weights)
  golden.check_trees_close(actual, wanted, 1e-5)


@pytest.mark.parametrize('scale', [0.0, 1.0])
def test_second_derivatives_do_not_depend_on_zeros(problem, scale):
  """Gradients that are zero in all other actions may have derivatives there."""
  unroll, params, observations, weights = problem
  taken = _taken_only(weights)

  def gradient_norm(unroll, params, scale):
    scaled = jax.tree.map(lambda x, y: x + scale * y, taken, weights)
    grads = jax.grad(_loss, argnums=1)(unroll, params, observations, scaled)
    return sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(grads))

  derivative = jax.jit(
    jax.grad(gradient_norm, argnums=(1, 2)), static_argnums=0
  )
  actual = derivative(unroll, params, scale)
  wanted = derivative(_plain(unroll), params, scale)
  assert np.abs(wanted[1]) > 1e-3
  golden.check_trees_close(actual, wanted, 1e-4)


def test_vmapped_programs_compute_one_branch(problem):
  unroll, params, observations, weights = problem
  taken = _taken_only(weights)

  def gradient(unroll, scale):
    scaled = jax.tree.map(lambda x: scale * x, params)
    return jax.grad(_loss, argnums=1)(unroll, scaled, observations, taken)

  over_scales = jax.jit(jax.vmap(gradient, in_axes=(None, 0)), static_argnums=0)
  scales = jnp.array([0.5, 1.0, 2.0])
  golden.check_trees_close(
    over_scales(unroll, scales), over_scales(_plain(unroll), scales), 1e-5
  )
  assert 'stablehlo.case' in over_scales.lower(unroll, scales).as_text()


def test_reduced_outputs_are_those_of_all_rows(problem):
  unroll, params, observations, _ = problem
  reduce_fn = lambda outs: {k: jnp.sum(x, axis=-1) for k, x in outs.items()}
  outs, _ = unroll(params, {}, observations, None)
  actual, _ = unroll.reduced(reduce_fn)(params, {}, observations, None)
  golden.check_trees_close(actual, reduce_fn(outs), 1e-6)


def test_calls_with_actions_have_outputs_of_these(problem):
  unroll, params, observations, _ = problem
  actions = jnp.ones((T, B), jnp.int32)
  whole, _ = unroll(params, {}, observations, None)
  outs, _ = unroll(params, {}, observations, None, actions)
  golden.check_trees_close(
    {k: outs[k] for k in PER_ACTION},
    {k: whole[k][:, :, 1] for k in PER_ACTION},
    1e-6,
  )


def test_the_rule_alone_gives_the_same_with_stages_and_without(problem):
  unroll, params, observations, _ = problem
  an_agent = small.make_agent('disco')
  rule = an_agent.update_rule
  rng = jax.random.PRNGKey(2)
  eta, _ = rule.init_params(rng)
  inputs = small.rule_inputs(an_agent, num_steps=T - 1, batch_size=B)
  assert isinstance(unroll, staged_unroll.StagedUnroll)

  def loss_fn(params, unroll):
    outs, _ = unroll(params, {}, observations, None)
    loss, meta_state, log = rule(
      meta_params=eta,
      params=params,
      state={},
      rollout=inputs.replace(agent_out=outs, observations=observations),
      hyper_params=dict(an_agent.settings.hyper_params),
      meta_state=rule.init_meta_state(rng, params),
      unroll_policy_fn=unroll,
      rng=rng,
      axis_name=None,
    )
    return jnp.sum(loss), (meta_state, log)

  gradient = jax.jit(jax.grad(loss_fn, has_aux=True), static_argnums=1)
  golden.check_trees_close(
    gradient(params, unroll), gradient(params, _plain(unroll)), 1e-4
  )
