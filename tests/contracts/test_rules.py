"""The contract of update rules, tested on every rule."""

import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils
from disco_rl.update_rules import base
from disco_rl.update_rules import disco
from disco_rl.update_rules import policy_gradient
from disco_rl.update_rules import registry
from tests.support import golden
from tests.support import leaks
from tests.support import small

RULES = sorted(registry.UPDATE_RULES)


class Case:
  """A rule, the arguments of its call, and the call as a pure function."""

  def __init__(self, name: str):
    self.agent = small.make_agent(name)
    self.rule = self.agent.update_rule
    self.hyper_params = dict(self.agent.settings.hyper_params)
    rng = jax.random.PRNGKey(0)
    state = self.agent.initial_learner_state(rng)
    self.params = state.params
    self.meta_state = self.rule.init_meta_state(rng, self.params)
    self.meta_params, _ = self.rule.init_params(rng)
    self.rollout = small.rule_inputs(self.agent)

  def __call__(
    self, meta_params, params, rollout, meta_state, backprop=False, axis=None
  ):
    return self.rule(
      meta_params,
      params,
      {},
      rollout,
      self.hyper_params,
      meta_state,
      self.agent._network.unroll,
      jax.random.PRNGKey(0),
      axis,
      backprop,
    )

  def with_network_outputs(self, params) -> types.UpdateRuleInputs:
    """Returns the rollout with the outputs of the network at θ."""
    agent_out, _ = self.agent._network.unroll(
      params,
      {},
      self.rollout.observations,
      self.rollout.should_reset_mask_fwd,
    )
    return self.rollout.replace(agent_out=agent_out)


@pytest.fixture(scope='module', params=RULES)
def case(request):
  return Case(request.param)


def test_outputs_are_as_promised(case):
  loss, meta_state, log = jax.jit(case)(
    case.meta_params, case.params, case.rollout, case.meta_state
  )
  assert loss.shape == case.rollout.rewards.shape
  assert loss.dtype == jnp.float32
  assert all(np.shape(value) == () for value in log.values())
  assert all(np.isfinite(value) for value in log.values())
  # Structure, shapes and dtypes of the state do not change: it can be scanned.
  assert jax.tree.structure(meta_state) == jax.tree.structure(case.meta_state)
  for new, old in zip(
    jax.tree.leaves(meta_state), jax.tree.leaves(case.meta_state), strict=True
  ):
    assert (new.shape, new.dtype) == (old.shape, old.dtype)


def test_can_be_scanned(case):
  def step(meta_state, _):
    loss, meta_state, _ = case(
      case.meta_params, case.params, case.rollout, meta_state
    )
    return meta_state, loss

  scanned_state, losses = jax.jit(
    lambda state: jax.lax.scan(step, state, None, length=2)
  )(case.meta_state)
  state = case.meta_state
  call = jax.jit(case)
  for i in range(2):
    loss, state, _ = call(case.meta_params, case.params, case.rollout, state)
    golden.check_close(losses[i], loss, 2e-4, f'loss {i}')
  golden.check_trees_close(scanned_state, state, 2e-4)


def test_nothing_is_mutated(case):
  arguments = (case.meta_params, case.params, case.rollout, case.meta_state)
  copies = utils.copy_tree(arguments)
  hyper_params = dict(case.hyper_params)
  # Traced, not run: mutation of containers happens while tracing.
  jax.eval_shape(lambda: case(*arguments))
  assert jax.tree.structure(arguments) == jax.tree.structure(copies)
  jax.tree.map(np.testing.assert_array_equal, arguments, copies)
  assert case.hyper_params == hyper_params


def test_second_call_does_not_recompile(case):
  call = jax.jit(case)
  meta_state = case.meta_state
  for _ in range(2):
    _, meta_state, _ = call(
      case.meta_params, case.params, case.rollout, meta_state
    )
  assert call._cache_size() == 1


def test_no_tracer_leaks(case):
  leaks.check_none(
    case, case.meta_params, case.params, case.rollout, case.meta_state
  )


def test_vmap_is_a_loop(case):
  rollouts = [small.rule_inputs(case.agent, seed=seed) for seed in (1, 2)]
  stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *rollouts)
  run = lambda rollout: case(
    case.meta_params, case.params, rollout, case.meta_state
  )
  mapped = jax.jit(jax.vmap(run))(stacked)
  run_one = jax.jit(run)
  for i, rollout in enumerate(rollouts):
    golden.check_trees_close(
      jax.tree.map(lambda x, i=i: x[i], mapped), run_one(rollout), 2e-4
    )


def test_statistics_are_averaged_over_the_named_axis(case):
  rollouts = [small.rule_inputs(case.agent, seed=seed) for seed in (1, 2)]
  stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *rollouts)
  whole = jax.tree.map(
    lambda *xs: jnp.concatenate(xs, axis=1) if np.ndim(xs[0]) else xs[0],
    *rollouts,
  )
  _, sharded_state, _ = jax.jit(
    jax.vmap(
      lambda rollout: case(
        case.meta_params, case.params, rollout, case.meta_state, axis='i'
      ),
      axis_name='i',
    )
  )(stacked)
  _, state, _ = jax.jit(case)(
    case.meta_params, case.params, whole, case.meta_state
  )
  for i in range(2):
    golden.check_trees_close(
      jax.tree.map(lambda x, i=i: x[i], sharded_state), state, 2e-4
    )


def test_gradients_reach_theta(case):
  def loss(params):
    rollout = case.with_network_outputs(params)
    return jnp.mean(case(case.meta_params, params, rollout, case.meta_state)[0])

  grads = jax.jit(jax.grad(loss))(case.params)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
  used = [g for g in jax.tree.leaves(grads) if np.abs(g).max() > 0]
  assert len(used) == len(jax.tree.leaves(grads))


@pytest.mark.parametrize('case', ['disco'], indirect=True)
def test_gradients_reach_eta_only_with_backprop(case):
  def loss(meta_params, backprop):
    return jnp.mean(
      case(meta_params, case.params, case.rollout, case.meta_state, backprop)[0]
    )

  grad = jax.jit(jax.grad(loss), static_argnums=1)
  size = lambda tree: sum(np.abs(g).sum() for g in jax.tree.leaves(tree))
  assert size(grad(case.meta_params, False)) == 0
  with_backprop = grad(case.meta_params, True)
  assert np.isfinite(size(with_backprop)) and size(with_backprop) > 0


def test_output_specs_describe_the_network(case):
  env = small.environment()
  spec = case.rule.agent_output_spec(env.single_action_spec())
  rollout = jax.eval_shape(case.with_network_outputs, case.params)
  assert set(spec) == set(rollout.agent_out)
  for name, out in rollout.agent_out.items():
    assert out.shape == (6, 3) + spec[name].shape
    assert out.dtype == spec[name].dtype


@pytest.mark.parametrize(
  'case', ['disco', 'actor_critic', 'ppo'], indirect=True
)
@pytest.mark.parametrize('position', [0, -1])
def test_missing_hyper_parameter_is_named(case, position):
  name = case.rule.required_hyper_params[position]
  hyper_params = {k: v for k, v in case.hyper_params.items() if k != name}
  with pytest.raises(KeyError, match=f'missing .*{name}.*accepted'):
    case.rule.check_hyper_params(hyper_params)
  with pytest.raises(KeyError, match=f'missing .*{name}.*accepted'):
    case.rule.unroll_meta_net(
      case.meta_params,
      case.params,
      {},
      case.meta_state,
      case.rollout,
      hyper_params,
      case.agent._network.unroll,
      jax.random.PRNGKey(0),
      None,
    )


def test_misspelt_hyper_parameter_is_named(case):
  hyper_params = {**case.hyper_params, 'pi_cots': 1.0}
  with pytest.raises(KeyError, match=r"unknown \['pi_cots'\]"):
    case.rule.check_hyper_params(hyper_params)


@pytest.mark.parametrize(
  ('field', 'value', 'message'),
  [
    ('rewards', jnp.zeros((5, 0)), r'rewards must be \[T, B\]'),
    ('rewards', jnp.zeros(5), r'rewards must be \[T, B\]'),
    ('rewards', jnp.zeros((4, 3)), 'is_terminal'),
    ('actions', jnp.zeros((5, 3), int), r'actions must start with \[6, 3\]'),
    ('agent_out', {}, "needs the agent output 'logits'"),
    ('agent_out', None, "needs the agent output 'logits'"),
  ],
)
def test_bad_rollouts_are_refused(case, field, value, message):
  rollout = case.rollout.replace(**{field: value})
  with pytest.raises((ValueError, KeyError), match=message):
    case(case.meta_params, case.params, rollout, case.meta_state)


def test_overlapping_outputs_are_refused():
  class Overlapping(registry.UPDATE_RULES['actor_critic']):
    def model_output_spec(self, action_spec):
      return self.flat_output_spec(action_spec)

  with pytest.raises(ValueError, match='both flat and per-action'):
    Overlapping().agent_output_spec(small.environment().single_action_spec())


def test_life_long_network_has_the_inputs_of_its_net():
  """Unless it has an `input_option` of its own."""
  net = small.settings('disco').update_rule.net.to_dict()
  assert 'input_option' not in net['meta_rnn_kwargs']

  def shapes(**more):
    kwargs = {**net['meta_rnn_kwargs'], **more}
    rule = disco.DiscoUpdateRule(
      net=config_dict.ConfigDict({**net, 'meta_rnn_kwargs': kwargs}),
      value_discount=0.97,
      max_abs_value=5.0,
      num_bins=11,
    )
    params, _ = jax.eval_shape(rule.init_params, jax.random.PRNGKey(0))
    return jax.tree.map(lambda x: x.shape, params)

  option = net['input_option']
  assert shapes() == shapes(input_option=option)
  fewer = option.replace(base=option.base[:4])
  assert shapes(input_option=fewer) != shapes()


def test_published_arguments_of_the_policy_gradient_are_accepted():
  rule = policy_gradient.PolicyGradientUpdate(
    0.01, True, 1.0, 0.5, 0.03, 0.003, 0.1
  )
  action_spec = small.environment().single_action_spec()
  assert set(rule.agent_output_spec(action_spec)) == {'logits'}


def test_unknown_rule_is_refused():
  with pytest.raises(ValueError, match=r"unknown update rule 'dqn'.*disco"):
    registry.get_update_rule('dqn')


def test_base_rule_cannot_be_built():
  with pytest.raises(TypeError):
    base.UpdateRule()


@pytest.mark.parametrize('case', ['disco'], indirect=True)
@pytest.mark.parametrize(('name', 'size'), [('y', 8), ('q', 4), ('aux_pi', 2)])
def test_outputs_of_a_wrong_size_are_named(case, name, size):
  agent_out = dict(case.rollout.agent_out)
  agent_out[name] = jnp.zeros(agent_out[name].shape[:-1] + (size,))
  with pytest.raises(ValueError, match=rf"agent_out\['{name}'\] must be"):
    case(
      case.meta_params,
      case.params,
      case.rollout.replace(agent_out=agent_out),
      case.meta_state,
    )


@pytest.mark.parametrize(
  'case', ['disco', 'actor_critic', 'ppo'], indirect=True
)
@pytest.mark.parametrize('behaviour', [None, {}])
def test_missing_behaviour_policy_is_named(case, behaviour):
  rollout = case.rollout.replace(behaviour_agent_out=behaviour)
  with pytest.raises(ValueError, match=r"behaviour_agent_out\['logits'\]"):
    case(case.meta_params, case.params, rollout, case.meta_state)


@pytest.mark.parametrize('case', ['policy_gradient'], indirect=True)
def test_missing_critic_is_named(case):
  for value_out in (None, types.ValueOuts(adv=jnp.zeros((5, 3)))):
    with pytest.raises(ValueError, match='value_out'):
      case({}, {}, case.rollout.replace(value_out=value_out), {})


@pytest.mark.parametrize('case', ['disco'], indirect=True)
def test_any_parameter_tree_keeps_its_dtypes(case):
  params = dict(
    w=jnp.ones(2, jnp.bfloat16), steps=jnp.array(3), name=str, n=np.ones(2)
  )
  target = case.rule.init_meta_state(jax.random.PRNGKey(0), params)
  moved = jax.tree.map(
    lambda t, o: disco._move_towards(t, o, jnp.float32(0.5)),
    target['target_params'],
    {**params, 'w': jnp.zeros(2), 'steps': jnp.array(4)},
  )
  assert moved['w'].dtype == jnp.bfloat16 and float(moved['w'][0]) == 0.5
  assert moved['steps'].dtype == jnp.int32 and int(moved['steps']) == 4
  assert moved['name'] is str
