"""The contract of input transforms, and how inputs are named."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import meta_nets
from disco_rl.update_rules import disco
from disco_rl.update_rules import input_transforms
from tests.support import golden
from tests.support import leaks
from tests.support import small

T, B, A, C = 4, 2, 3, 5


def _inputs(name):
  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  steps = T if name == 'select_a' else T + 1
  x = jax.random.normal(keys[0], (steps, B, A, C))
  actions = jax.random.randint(keys[1], (T, B), 0, A)
  policy = jax.nn.softmax(jax.random.normal(keys[2], (T + 1, B, A)))
  return x, actions, policy


def _pure(name, axis_name=None):
  """The transform as init and apply functions."""
  return hk.without_apply_rng(
    hk.transform_with_state(
      lambda *args: input_transforms.TRANSFORMS[name]()(*args, axis_name)
    )
  )


@pytest.fixture(params=sorted(input_transforms.TRANSFORMS))
def name(request):
  return request.param


def test_jit_vmap_grad_and_state(name):
  fn, args = _pure(name), _inputs(name)
  params, state = fn.init(None, *args)
  copies = utils.copy_tree(args)
  out, new_state = fn.apply(params, state, *args)
  assert out.shape[1] == B and out.dtype == jnp.float32
  jax.tree.map(np.testing.assert_array_equal, args, copies)
  spec = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
  assert spec(new_state) == spec(state)
  compiled = jax.jit(fn.apply)
  golden.check_trees_close(
    compiled(params, state, *args), (out, new_state), 1e-5
  )
  compiled(params, new_state, *args)
  assert compiled._cache_size() == 1
  stacked = jax.tree.map(lambda x: jnp.stack([x, x]), args)
  mapped = jax.vmap(lambda *a: fn.apply(params, state, *a)[0])(*stacked)
  golden.check_close(mapped, jnp.stack([out, out]), 1e-5, name)

  grad = jax.grad(lambda x: jnp.sum(fn.apply(params, state, x, *args[1:])[0]))
  assert np.isfinite(grad(args[0])).all()
  leaks.check_none(lambda *a: fn.apply(params, state, *a), *args)


def test_normalize_averages_over_the_named_axis():
  x, actions, policy = _inputs('normalize')
  whole = _pure('normalize')
  sharded = _pure('normalize', 'i')
  x = jnp.concatenate([x, 2 * x + 1], axis=1)  # [T+1, 2B, A, C]
  shards = jnp.stack([x[:, :B], x[:, B:]])
  _, state = whole.init(None, x, actions, policy)
  out, _ = whole.apply({}, state, x, actions, policy)
  shard_out, _ = jax.vmap(
    lambda x: sharded.apply({}, state, x, actions, policy), axis_name='i'
  )(shards)
  golden.check_close(jnp.concatenate(shard_out, axis=1), out, 1e-5, 'normalize')


def test_sources_are_found_or_named():
  rollout = small.rule_inputs(small.make_agent('disco')).replace(
    extra_from_rule=dict(
      adv=jnp.zeros((5, 3)),
      target_out=dict(q=jnp.zeros((6, 3, 3, 11)), y=jnp.zeros((6, 3, 7))),
    )
  )
  shape = lambda path: input_transforms.get_source(rollout, path).shape
  assert shape('agent_out/y') == (6, 3, 7)
  assert shape('rewards') == (5, 3)
  assert shape('should_reset_mask_fwd') == (6, 3)
  assert shape('extra_from_rule/adv') == (5, 3, 1)
  assert shape('extra_from_rule/target_out/y') == (6, 3, 7)
  assert shape('extra_from_rule/target_out/q') == (6, 3, 3, 11, 1)
  with pytest.raises(KeyError, match=r'agent_out/w.*aux_pi'):
    shape('agent_out/w')
  with pytest.raises(KeyError, match='agentout/y'):
    shape('agentout/y')
  with pytest.raises(ValueError, match="'value_out' is None"):
    shape('value_out/adv')


def _build(option: types.MetaNetInputOption):
  kwargs = dict(small.settings('disco').update_rule.net)
  kwargs.pop('name')
  kwargs['input_option'] = option
  return hk.transform_with_state(lambda: meta_nets.LSTM(**kwargs))


def test_unknown_transform_is_named():
  option = disco.get_input_option()
  option.base[0] = types.TransformConfig(
    source='rewards', transforms=('sign_lgo',)
  )
  with pytest.raises(KeyError, match=r"transform 'sign_lgo'.*sign_log"):
    _build(option).init(None)


@pytest.mark.parametrize(
  ('chain', 'wanted'),
  [
    ('drop_last softmax z_net select_a', 'softmax z_net drop_last select_a'),
    ('drop_last softmax', 'softmax drop_last'),
    ('drop_last normalize softmax', 'drop_last normalize softmax'),
    ('softmax drop_last', 'softmax drop_last'),
    ('', ''),
  ],
)
def test_dropping_the_last_step_is_postponed(chain, wanted):
  postponed = input_transforms.postpone_drop_last(chain.split())
  assert postponed == tuple(wanted.split())


def test_any_output_can_be_an_input():
  config = small.settings('disco')
  option = disco.get_input_option()
  for source in ('agent_out/q', 'extra_from_rule/target_out/q'):
    option.action_conditional.append(
      types.TransformConfig(source=source, transforms=('drop_last',))
    )
  config.update_rule.net.input_option = option
  rule = small.make_agent('disco', config).update_rule
  params, _ = jax.eval_shape(rule.init_params, jax.random.PRNGKey(0))
  # Two more inputs of 11 bins each, concatenated with their means.
  size = params['lstm/sequential/conv1_d']['w'].shape[1]
  assert size == 18 + 2 * 2 * 11
