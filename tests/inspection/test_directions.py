"""Comparison with known algorithms, on pulls with known answers."""

import numpy as np
import pytest

from disco_rl.inspection import directions
from tests.support import inspected


def _pulls(rule, policy, q, actions, advantage):
  taken = np.eye(policy.shape[-1])[actions]
  best, temperature = directions._regularised(rule, policy, q)
  return directions.Pulls(
    rule=rule,
    known={
      'policy gradient': advantage[:, None] * (taken - policy),
      'KL-regularised': best,
    },
    advantage=advantage,
    probability=(policy * taken).sum(-1),
    actions=actions,
    temperature=temperature,
  )


def _experience(seed=0, n=200):
  rng = np.random.default_rng(seed)
  policy = rng.dirichlet(np.ones(4), n)
  actions = np.array([rng.choice(4, p=p) for p in policy])
  return rng, policy, rng.normal(size=(n, 4)), actions, rng.normal(size=n)


def test_policy_gradient_is_recognised():
  _, policy, q, actions, advantage = _experience()
  rule = 0.1 * advantage[:, None] * (np.eye(4)[actions] - policy)
  found = _pulls(rule, policy, q, actions, advantage)
  by_name = {x.algorithm: x for x in directions.agreement(found)}
  assert by_name['policy gradient'].share == pytest.approx(1)
  assert by_name['policy gradient'].cosine == pytest.approx(1)
  assert by_name['KL-regularised'].share < 0.1
  # The opposite of an algorithm is not explained by it.
  against = _pulls(-rule, policy, q, actions, advantage)
  opposite = directions.agreement(against)[0]
  assert opposite.share == 0 and opposite.cosine == pytest.approx(-1)


def test_the_temperature_of_an_improvement_is_recovered():
  _, policy, q, actions, advantage = _experience(1)
  improved = policy * np.exp(q / 0.5)
  improved /= improved.sum(-1, keepdims=True)
  found = _pulls(improved - policy, policy, q, actions, advantage)
  assert found.temperature == pytest.approx(0.5, rel=0.2)
  assert directions.agreement(found)[1].share > 0.99


def test_the_picture_averages_the_pull_on_the_action_taken():
  rng, policy, q, actions, advantage = _experience(2, n=3000)
  rule = rng.normal(size=policy.shape)
  found = _pulls(rule, policy, q, actions, advantage)
  across, up, mean = directions.step_picture(found, num_bins=4)
  scaled = np.clip(advantage / advantage.std(), -3, 3)
  for i in range(4):
    for j in range(4):
      inside = (up[i] <= found.probability) & (found.probability < up[i + 1])
      inside &= (across[j] <= scaled) & (scaled < across[j + 1])
      if inside.sum() >= 3 and j < 3 and i < 3:
        steps = rule[np.arange(3000), actions][inside]
        assert mean[i, j] == pytest.approx(steps.mean())


def test_pulls_of_a_rule():
  small = inspected.make()
  found = directions.pulls(small.view, small.scene, small.head)
  # Probabilities sum to 1, before and after.
  np.testing.assert_allclose(found.rule.sum(-1), 0, atol=1e-5)
  starts = np.asarray(small.scene.inputs.should_reset_mask_fwd)[:-1]
  assert len(found.rule) == (~starts).sum() < starts.size
  assert set(found.known) == {'policy gradient', 'greedy', 'KL-regularised'}
  both = directions.pool([found, found])
  assert len(both.rule) == 2 * len(found.rule)
  for one, twice in zip(
    directions.agreement(found), directions.agreement(both), strict=True
  ):
    assert one.share == pytest.approx(twice.share)
    assert one.cosine == pytest.approx(twice.cosine)


def test_rules_without_targets_of_the_policy_are_refused():
  small = inspected.make('actor_critic')
  with pytest.raises(ValueError, match='no targets for the policy'):
    directions.pulls(small.view, small.scene, small.head)
