"""Lifetimes of agents are drawn at random."""

import jax
import numpy as np

from disco_rl.meta_training import lifetimes


def _draw(sample, values, count=4000):
  keys = jax.random.split(jax.random.PRNGKey(0), count)
  return np.asarray(jax.vmap(lambda key: sample(key, values))(keys))


def test_lifetimes_are_drawn_with_weight_one_over_lifetime():
  drawn = _draw(lifetimes.sample, (10, 40))
  assert set(drawn.tolist()) == {10, 40}
  np.testing.assert_allclose((drawn == 10).mean(), 0.8, atol=0.03)


def test_the_first_lifetime_is_cut_short():
  whole = _draw(lifetimes.sample, (10, 40))
  first = _draw(lifetimes.sample_first, (10, 40))
  assert (first >= 1).all() and (first <= whole).all()
  shares = first[whole == 40] / 40
  np.testing.assert_allclose(shares.mean(), 0.5, atol=0.05)
  assert len(set(first.tolist())) > 30


def test_without_lifetimes_agents_are_never_reset():
  for sample in (lifetimes.sample, lifetimes.sample_first):
    assert (_draw(sample, (), 3) == np.iinfo(np.int32).max).all()


def test_learning_rates_are_log_uniform():
  keys = jax.random.split(jax.random.PRNGKey(0), 2000)
  draw = lambda key: lifetimes.sample_learning_rate(key, (1e-4, 1e-2))
  rates = np.asarray(jax.vmap(draw)(keys))
  assert rates.min() >= 0.99e-4 and rates.max() <= 1.01e-2
  quartiles = np.quantile(np.log10(rates), (0.25, 0.5, 0.75))
  np.testing.assert_allclose(quartiles, (-3.5, -3.0, -2.5), atol=0.06)
