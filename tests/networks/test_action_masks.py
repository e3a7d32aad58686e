"""Illegal actions have the probability 0, and legal ones do not see them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.networks import action_masks
from disco_rl.update_rules import categorical
from disco_rl.value_fns import value_utils

MASK = jnp.asarray([[True, False, True, True], [False, True, False, False]])
LEGAL = [np.flatnonzero(row) for row in np.asarray(MASK)]


def _logits(seed=0, scale=1.0):
  return scale * jax.random.normal(jax.random.PRNGKey(seed), MASK.shape)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
@pytest.mark.parametrize('scale', [1.0, 1e4])
def test_probabilities_are_those_among_the_legal_actions(dtype, scale):
  logits = _logits(scale=scale).astype(dtype)
  masked = action_masks.mask_logits(logits, MASK)
  assert masked.dtype == dtype and jnp.isfinite(masked).all()
  p = np.asarray(jax.nn.softmax(masked), np.float64)
  assert (p[~np.asarray(MASK)] == 0).all()
  for row, own, legal in zip(p, logits, LEGAL, strict=True):
    wanted = np.asarray(jax.nn.softmax(own[legal]), np.float64)
    np.testing.assert_allclose(row[legal], wanted, 1e-2)
  again = action_masks.mask_logits(masked, MASK)
  np.testing.assert_array_equal(again, masked)


def test_illegal_actions_are_never_sampled():
  masked = action_masks.mask_logits(_logits(), MASK)
  keys = jax.random.split(jax.random.PRNGKey(1), 2000)
  for sample in (
    jax.vmap(lambda key: jax.random.categorical(key, masked)),
    jax.vmap(lambda key: action_masks.sample(key, MASK)),
  ):
    actions = np.asarray(sample(keys))
    for column, legal in zip(actions.T, LEGAL, strict=True):
      assert set(column) == set(legal)


def test_entropies_divergences_and_values_are_those_of_fewer_actions():
  p, q = (action_masks.mask_logits(_logits(i), MASK) for i in range(2))
  values = _logits(2)
  expected = value_utils.extract_scalar_values_from_net_out(
    None, values[..., None], p, False, None, False
  )[0]
  for i, legal in enumerate(LEGAL):
    few_p, few_q = p[i, legal], q[i, legal]
    for actual, wanted in (
      (categorical.entropy(p)[i], categorical.entropy(few_p)),
      (
        categorical.kl_divergence(p, q)[i],
        categorical.kl_divergence(few_p, few_q),
      ),
      (expected[i], jnp.sum(jax.nn.softmax(few_p) * values[i, legal])),
    ):
      np.testing.assert_allclose(actual, wanted, 1e-5, 1e-6)


def test_first_and_second_derivatives_are_finite():
  def loss(x):
    p, q = (action_masks.mask_logits(y, MASK) for y in (x, 2 * x[::-1] - 1))
    rho = value_utils.importance_weight(p, q, jnp.asarray([0, 1]))
    return jnp.sum(
      categorical.entropy(p)
      + categorical.kl_divergence(p, q)
      + categorical.kl_divergence(q, p)
      + rho
    )

  # The second logit of the first stream is illegal, even if it is infinite.
  x = _logits().at[0, 1].set(jnp.inf)
  grads = jax.grad(loss)(_logits())
  assert jnp.isfinite(grads).all() and jnp.abs(grads).sum() > 0.1
  masked = lambda x: categorical.entropy(action_masks.mask_logits(x, MASK))
  grads = jax.grad(lambda x: masked(x).sum())(x)
  assert jnp.isfinite(grads).all() and (grads[~MASK] == 0).all()
  hessian = jax.hessian(loss)(_logits())
  assert jnp.isfinite(hessian).all() and jnp.abs(hessian).sum() > 0.1


def test_averages_are_over_legal_actions():
  x = jax.random.normal(jax.random.PRNGKey(0), (1, 2, 4, 3))
  mask = jnp.stack([MASK, ~MASK])  # The second step does not count.
  actual = action_masks.mean(x, mask)
  for i, legal in enumerate(LEGAL):
    np.testing.assert_allclose(actual[0, i], x[0, i, legal].mean(0), 1e-6)
  assert action_masks.mean(x, jnp.zeros((1, 2, 4), bool)).tolist() == (
    np.zeros((1, 2, 3)).tolist()
  )
  wanted = np.mean([x[0, i, legal, 0].mean() for i, legal in enumerate(LEGAL)])
  actual = action_masks.mean_over_all(x[..., 0], mask)
  np.testing.assert_allclose(actual, wanted, 1e-6)


def test_without_a_mask_nothing_is_computed():
  x = {'logits': _logits()}
  assert action_masks.mask_logits(x['logits'], None) is x['logits']
  assert action_masks.mask_outputs(x, None) is x
  assert action_masks.fill(x['logits'], None, 0.0) is x['logits']
  unroll = lambda *inputs: inputs
  assert action_masks.mask_unroll(unroll, None) is unroll
