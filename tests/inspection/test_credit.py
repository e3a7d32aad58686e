"""Credit for a policy that a rule does not train."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.inspection import credit
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import registry
from examples import token_credit
from tests.support import small


def _small_rule():
  settings = small.settings('disco')
  update_rule = registry.get_update_rule('disco', **settings.update_rule)
  eta, _ = update_rule.init_params(jax.random.PRNGKey(0))
  kept = rule_lib.rule_settings(settings)
  return rule_lib.Rule('small', 'disco', eta, kept)


def _trajectories(num_steps=5, batch=64, seed=0):
  """One-step choices between three actions; the first is rewarded."""
  keys = jax.random.split(jax.random.PRNGKey(seed), 2)
  shape = (num_steps + 1, batch)
  actions = jax.random.randint(keys[0], shape, 0, 3)
  rewards = jnp.concatenate([jnp.zeros((1, batch)), 1.0 * (actions[:-1] == 0)])
  return credit.Trajectories(
    features=jax.random.normal(keys[1], (*shape, 4)),
    logits=jnp.zeros((*shape, 3)),
    actions=actions,
    rewards=rewards,
    is_last=jnp.zeros(shape, bool),
  )


def test_the_action_that_earns_the_reward_gets_the_credit():
  functions = credit.make_credit(_small_rule(), 3, 4, hidden_sizes=(8,))
  state = functions.init(jax.random.PRNGKey(0))
  update = jax.jit(functions.update)
  for seed in range(60):
    experience = _trajectories(seed=seed)
    state, given = update(
      functions.eta, state, experience, jax.random.PRNGKey(seed)
    )
  assert given.advantages.shape == given.pull_on_taken.shape == (5, 64)
  assert given.policy_target.shape == given.pull.shape == (5, 64, 3)
  is_good = np.asarray(experience.actions[:-1] == 0)
  advantages = np.asarray(given.advantages)
  assert advantages[is_good].mean() > advantages[~is_good].mean() + 0.5
  np.testing.assert_allclose(given.pull.sum(-1), 0, atol=1e-5)
  taken = np.asarray(experience.actions[:-1])[..., None]
  np.testing.assert_allclose(
    given.pull_on_taken,
    np.take_along_axis(np.asarray(given.pull), taken, -1)[..., 0],
  )


def test_no_gradient_reaches_the_policy():
  functions = credit.make_credit(_small_rule(), 3, 4, hidden_sizes=(8,))
  state = functions.init(jax.random.PRNGKey(0))
  experience = _trajectories(batch=4)

  def learned(features, logits):
    own = experience._replace(features=features, logits=logits)
    new, _ = functions.update(functions.eta, state, own, jax.random.PRNGKey(0))
    return sum(jnp.sum(x) for x in jax.tree.leaves(new.params))

  grads = jax.grad(learned, (0, 1))(experience.features, experience.logits)
  assert not any(np.any(x) for x in grads)


def test_credit_stops_at_the_end_of_an_episode():
  functions = credit.make_credit(_small_rule(), 3, 4, hidden_sizes=(8,))
  state = functions.init(jax.random.PRNGKey(0))
  experience = _trajectories(batch=4)
  is_last = experience.is_last.at[3].set(True)
  before = experience._replace(is_last=is_last)
  after = before._replace(rewards=before.rewards.at[5].add(10.0))
  a, b = (
    functions.update(functions.eta, state, x, jax.random.PRNGKey(0))[1]
    for x in (before, after)
  )
  np.testing.assert_array_equal(a.advantages[:3], b.advantages[:3])
  assert (a.advantages[3:] != b.advantages[3:]).all()


def test_other_rules_are_refused():
  with pytest.raises(ValueError, match='ppo is of the kind ppo'):
    credit.make_credit('ppo', 3, 4)


def test_the_transformer_reads_only_the_past():
  sizes = token_credit.Sizes(length=3, width=8)
  params = token_credit.init(jax.random.PRNGKey(0), sizes)
  tokens = jnp.arange(14).reshape(2, 7) % 6
  logits, _ = token_credit.apply(params, tokens)
  changed, _ = token_credit.apply(params, tokens.at[:, 5].add(-1))
  np.testing.assert_allclose(logits[:, :5], changed[:, :5], atol=1e-5)
  assert np.abs(logits - changed)[:, 5:].max() > 1e-3


@pytest.mark.parametrize('method', token_credit.METHODS)
def test_the_example_runs(method, monkeypatch):
  rule = _small_rule()
  make = credit.make_credit
  monkeypatch.setattr(
    credit, 'make_credit', lambda _, *sizes: make(rule, *sizes)
  )
  sizes = token_credit.Sizes(3, 2, 8, 1, 4, 4)
  rewards = token_credit.train(method, 'small', 0, 4, sizes, chunk=2)
  assert rewards.shape == (4,) and ((rewards >= 0) & (rewards <= 1)).all()


def test_the_transformer_learns_to_reverse():
  sizes = token_credit.Sizes(2, 2, 16, 1, 8, 8)
  rewards = token_credit.train('group', 'none', 0, 150, sizes, lr=3e-3)
  assert rewards[:10].mean() < 0.65 and rewards[-10:].mean() > 0.9
