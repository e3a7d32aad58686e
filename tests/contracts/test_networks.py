"""The contract of agent networks, tested on every network."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_models
from disco_rl.networks import cores
from disco_rl.networks import nets
from disco_rl.networks import observations
from disco_rl.networks import precision as precision_lib
from disco_rl.networks import torsos
from tests.support import golden
from tests.support import leaks
from tests.support import small

T, B = 4, 3
OBSERVATIONS = dict(
  board=jnp.ones((T + 1, B, 5, 4), jnp.uint8), clock=jnp.zeros((T + 1, B))
)


def _build(name: str, **changes) -> types.PolicyNetwork:
  spec = lambda *shape: types.ArraySpec(shape, jnp.float32)
  kwargs = dict(
    out_spec=dict(logits=spec(3), y=spec(2, 4)),
    action_spec=small.environment().single_action_spec(),
    head_w_init_std=1e-2,
    dense=[9, 8],
    model_out_spec=dict(z=spec(7), q=spec(11)),
    model_arch_name='lstm',
    model_kwargs=dict(head_mlp_hiddens=[6], lstm_size=5),
  )
  kwargs.update(NETWORKS[name], **changes)
  return nets.get_network(kwargs.pop('name'), **kwargs)


# Name to what differs from a plain MLP.
NETWORKS = dict(
  mlp=dict(name='mlp'),
  mlp_lstm=dict(name='mlp', core='lstm', core_kwargs=dict(size=4)),
  conv=dict(name='conv', channels=(4, 3)),
  conv_lstm=dict(name='conv', core='lstm', core_kwargs=dict(size=4)),
  residual=dict(name='residual', channels=(3, 4), num_blocks=1),
  glyphs=dict(name='glyphs', channels=(3,), num_symbols=6, symbol_size=2),
)


@pytest.fixture(scope='module', params=sorted(NETWORKS))
def network(request):
  return _build(request.param)


def _first(tree):
  return jax.tree.map(lambda x: x[0], tree)


def _init(network):
  return network.init(
    jax.random.PRNGKey(0), _first(OBSERVATIONS), jnp.zeros(B, bool)
  )


def test_outputs_and_states(network):
  params, state = _init(network)
  resets = jnp.zeros((T + 1, B), bool).at[2, 1].set(True)
  outs, new_state = jax.jit(network.unroll)(params, state, OBSERVATIONS, resets)
  shapes = {name: out.shape for name, out in outs.items()}
  assert shapes == dict(
    logits=(T + 1, B, 3),
    y=(T + 1, B, 2, 4),
    z=(T + 1, B, 3, 7),
    q=(T + 1, B, 3, 11),
  )
  assert jax.tree.structure(new_state) == jax.tree.structure(state)
  for new, old in zip(
    jax.tree.leaves(new_state), jax.tree.leaves(state), strict=True
  ):
    assert (new.shape, new.dtype) == (old.shape, old.dtype)

  # Stepping gives the same outputs, and the second step does not recompile.
  one_step = jax.jit(lambda *args: network.one_step(*args))
  for t in range(T + 1):
    step_outs, state = one_step(
      params, state, jax.tree.map(lambda x, t=t: x[t], OBSERVATIONS), resets[t]
    )
    golden.check_trees_close(
      step_outs, {name: out[t] for name, out in outs.items()}, 1e-5
    )
  assert one_step._cache_size() == 1
  golden.check_trees_close(state, new_state, 1e-5)


def test_vmap_grad_and_leaks(network):
  params, state = _init(network)
  resets = jnp.zeros((T + 1, B), bool)

  def loss(params):
    outs, _ = network.unroll(params, state, OBSERVATIONS, resets)
    return sum(jnp.sum(jnp.square(out)) for out in outs.values())

  grads = jax.jit(jax.grad(loss))(params)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
  double = jax.tree.map(lambda x: jnp.stack([x, x]), params)
  np.testing.assert_allclose(
    jax.jit(jax.vmap(loss))(double), jax.jit(loss)(params), 1e-5
  )
  leaks.check_none(loss, params)


def test_stages_make_up_the_unroll(network):
  if network.embed is None:
    return  # Such a network need not have stages.
  params, state = _init(network)
  resets = jnp.zeros((T + 1, B), bool).at[2, 0].set(True)
  actions = jax.random.randint(jax.random.PRNGKey(1), (T + 1, B), 0, 3)
  outs, new_state = jax.jit(network.unroll)(params, state, OBSERVATIONS, resets)
  embedding, embed_state = jax.jit(network.embed)(
    params, state, OBSERVATIONS, resets
  )
  golden.check_trees_close(embed_state, new_state, 1e-5)
  predict = jax.jit(network.predict)
  golden.check_trees_close(predict(params, embedding, None), outs, 1e-5)
  # Rows of any shape, and in any order.
  rows = embedding.reshape(-1, embedding.shape[-1])[::-1]
  for name, out in predict(params, rows, None).items():
    wanted = outs[name].reshape(-1, *outs[name].shape[2:])[::-1]
    np.testing.assert_allclose(out, wanted, 1e-5, 1e-5)
  for name in ('z', 'q'):
    outs[name] = utils.batch_lookup(outs[name], actions)
  golden.check_trees_close(predict(params, embedding, actions), outs, 1e-5)


def test_nothing_is_mutated(network):
  params, state = _init(network)
  arguments = (params, state, dict(OBSERVATIONS), jnp.zeros((T + 1, B), bool))
  copies = utils.copy_tree(arguments)
  jax.eval_shape(lambda: network.unroll(*arguments))
  jax.tree.map(np.testing.assert_array_equal, arguments, copies)


def test_leaks_are_seen():
  kept = []
  leaks.check_some(lambda x: kept.append(x) or x, jnp.zeros(1))


def test_same_key_same_parameters(network):
  golden.check_trees_close(_init(network), _init(network), 0)


def test_unknown_names_are_refused():
  with pytest.raises(ValueError, match=r"unknown network 'resnet'.*mlp"):
    nets.get_network('resnet')
  with pytest.raises(ValueError, match=r"unknown action model 'gru'.*lstm"):
    action_models.get_action_model('gru')
  with pytest.raises(ValueError, match=r"unknown core 'gru'.*lstm"):
    _init(_build_with(core='gru'))
  with pytest.raises(ValueError, match='accepted: float32, bfloat16'):
    _build_with(precision='float23')


def _build_with(**kwargs):
  spec = types.ArraySpec((3,), jnp.float32)
  network = dict(name='mlp', dense=(5,), action_spec=None, head_w_init_std=None)
  return nets.get_network(**{**network, 'out_spec': dict(x=spec), **kwargs})


def test_every_torso_is_a_network_and_is_tested():
  assert {entry['name'] for entry in NETWORKS.values()} == set(torsos.TORSOS)


def test_convolutions_need_images():
  network = _build_with(name='conv')
  with pytest.raises(ValueError, match="'mlp' reads any"):
    network.init(
      jax.random.PRNGKey(0), dict(x=jnp.ones((2, 4))), jnp.zeros(2, bool)
    )


def test_new_torsos_and_cores_plug_in(monkeypatch):
  class Sum:
    def __init__(self, scale):
      self._scale = scale

    def __call__(self, observations):
      leaves = jax.tree.leaves(observations)
      total = sum(x.reshape(x.shape[0], -1).sum(-1) for x in leaves)
      return self._scale * total[:, None]

  class Counter:
    def initial_state(self, batch_size):
      return jnp.zeros(batch_size)

    def __call__(self, embeddings, should_reset, state):
      def step(count, inputs):
        x, reset = inputs
        count = jnp.where(reset, 0.0, count) + 1
        return count, x + count[:, None]

      state, out = jax.lax.scan(step, state, (embeddings, should_reset))
      return out, state

  monkeypatch.setitem(torsos.TORSOS, 'sum', Sum)
  monkeypatch.setitem(cores.CORES, 'counter', Counter)
  network = nets.get_network(
    'sum',
    scale=0.0,
    core='counter',
    out_spec=dict(x=types.ArraySpec((), jnp.float32)),
    action_spec=None,
    head_w_init_std=1.0,
  )
  params, state = _init(network)
  resets = jnp.zeros((T + 1, B), bool).at[2, 1].set(True)
  outs, _ = network.unroll(params, state, OBSERVATIONS, resets)
  counts = outs['x'] / outs['x'][0, 0]
  np.testing.assert_allclose(counts[:, 0], [1, 2, 3, 4, 5], 1e-5)
  np.testing.assert_allclose(counts[:, 1], [1, 2, 1, 2, 3], 1e-5)


def test_pixels_of_images_are_scaled_and_no_others():
  image = jnp.full((1, 2, 2, 3), 255, jnp.uint8)
  seen = dict(codes=jnp.asarray([[0, 255]], jnp.uint8), image=image)
  images, vectors = observations.split_images(seen)
  np.testing.assert_array_equal(images[0], np.ones((1, 2, 2, 3)))
  np.testing.assert_array_equal(vectors[0], [[0, 255]])
  # As published, an MLP does not scale its inputs.
  assert observations.flatten(seen).tolist() == [[0] + [255] * 13]


@pytest.mark.parametrize('name', ['mlp_lstm', 'conv'])
def test_half_precision_computes_the_same_roughly(name):
  """Outputs and states are float32, the computation is not."""
  full = _build(name)
  half = _build(name, precision='bfloat16')
  params, state = _init(full)
  golden.check_trees_close(_init(half), (params, state), 0)
  resets = jnp.zeros((T + 1, B), bool)
  wanted = full.unroll(params, state, OBSERVATIONS, resets)
  actual = half.unroll(params, state, OBSERVATIONS, resets)
  for a, b in zip(
    jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True
  ):
    assert a.dtype == b.dtype == jnp.float32
    np.testing.assert_allclose(a, b, rtol=0.1, atol=0.02 * np.abs(b).max())
  differs = jax.tree.map(lambda a, b: (a != b).any(), actual, wanted)
  assert any(jax.tree.leaves(differs))
  # Most of the program's products are inside the functions it is made of.
  embedding, _ = half.embed(params, state, OBSERVATIONS, resets)
  actions = jnp.zeros((T + 1, B), jnp.int32)
  observed = (params, state, OBSERVATIONS, resets)
  for apply, inputs in (
    (half.unroll, observed),
    (half.embed, observed),
    (half.predict, (params, embedding, None)),
    (half.predict, (params, embedding, actions)),
  ):
    program = str(jax.make_jaxpr(apply)(*inputs))
    products = re.findall(
      r':(\w+)\[[\d,]*\] = (?:dot_general|conv_general_dilated)', program
    )
    assert products and set(products) == {'bf16'}


def test_precisions_that_the_rule_would_see_are_refused():
  name = 'params=float32,compute=bfloat16,output=bfloat16'
  with pytest.raises(ValueError, match='which the rule and the loss use'):
    _build('conv', precision=name)


@pytest.mark.parametrize('name', ['float64', 'params=float32,compute=float64'])
def test_networks_do_not_compute_in_64_bits(name):
  with pytest.raises(ValueError, match='compute in float32, bfloat16 or float'):
    precision_lib.get_policy(name)
