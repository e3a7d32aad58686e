"""What every agent network promises, checked on every network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_models
from disco_rl.networks import nets
from tests import golden
from tests import leaks
from tests import recurrent
from tests import small

T, B = 4, 3
OBSERVATIONS = dict(
  board=jnp.ones((T + 1, B, 5, 4), jnp.uint8), clock=jnp.zeros((T + 1, B))
)


def _build(name: str) -> types.PolicyNetwork:
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
  if name == 'recurrent':
    return recurrent.get_network(**kwargs)
  return nets.get_network(name, **kwargs)


@pytest.fixture(scope='module', params=[*sorted(nets.NETWORKS), 'recurrent'])
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

  # Step by step gives the same; and the second step does not recompile.
  one_step = jax.jit(network.one_step)
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


def test_taken_actions_are_rows_of_all_actions(network):
  if network.unroll_taken is None:
    return  # Such a network need not have it.
  params, state = _init(network)
  resets = jnp.zeros((T + 1, B), bool)
  actions = jax.random.randint(jax.random.PRNGKey(1), (T + 1, B), 0, 3)
  outs, _ = jax.jit(network.unroll)(params, state, OBSERVATIONS, resets)
  taken, _ = jax.jit(network.unroll_taken)(
    params, state, OBSERVATIONS, resets, actions
  )
  for name in ('z', 'q'):
    outs[name] = utils.batch_lookup(outs[name], actions)
  golden.check_trees_close(taken, outs, 1e-5)


def test_nothing_is_mutated(network):
  params, state = _init(network)
  arguments = (params, state, dict(OBSERVATIONS), jnp.zeros((T + 1, B), bool))
  copies = small.copy_tree(arguments)
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
