"""Effects of changes on earlier targets: known decays, and ends of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.inspection import bootstrapping
from disco_rl.inspection import targets
from disco_rl.inspection import values
from disco_rl.update_rules import actor_critic
from tests.support import inspected


def _actor_critic(discount, lambda_):
  """Makes the hand-designed rule, and on-policy experience with random V."""
  rule = actor_critic.ActorCritic()
  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  example = inspected.make('actor_critic').scene.inputs
  num_steps, batch_size = example.rewards.shape
  longer = (num_steps + 1, batch_size)
  logits = jax.random.normal(keys[0], (*longer, 3))
  inputs = example.replace(
    rewards=jax.random.normal(keys[1], (num_steps, batch_size)),
    agent_out={
      'logits': logits,
      'v': jax.random.normal(keys[2], (*longer, 1)),
      'never_read': jnp.ones((*longer, 4)),
    },
    behaviour_agent_out={'logits': logits},
  )
  hyper_params = dict(
    discount_factor=discount,
    vtrace_lambda=lambda_,
    entropy_cost=0.1,
    pg_cost=1.0,
    value_cost=1.0,
  )
  state = rule.init_meta_state(jax.random.PRNGKey(0), {})
  return (
    targets.View('actor_critic', rule, {}, hyper_params),
    targets.Scene(inputs, {}, state, {}),
    values.Head('v', None, False),
  )


def _by_name(effects):
  return {(x.changed, x.target): x.effect for x in effects}


@pytest.mark.parametrize('lambda_', [0.0, 0.8, 1.0])
def test_effects_on_the_actor_critic_decay_as_in_vtrace(lambda_):
  gamma = 0.9
  seen = _actor_critic(gamma, lambda_)
  found = _by_name(bootstrapping.effects(*seen, reward=2.0))
  assert set(found) == {
    (changed, target)
    for changed in ('reward', 'value')
    for target in ('raw_advs', 'value_target')
  }
  k = np.arange(len(found['reward', 'value_target']))
  decay = (gamma * lambda_) ** k
  np.testing.assert_allclose(
    found['reward', 'value_target'], 2 * decay, atol=1e-5
  )
  # A = r + γ·(target of the next step) − V.
  np.testing.assert_allclose(found['reward', 'raw_advs'], 2 * decay, atol=1e-5)
  # r + γ·V' is cut off with 1 − λ at every step; V itself does not change the
  # target of its step.
  expected = np.zeros(len(k))
  expected[1:] = 2 * gamma * (1 - lambda_) * decay[:-1]
  np.testing.assert_allclose(
    found['value', 'value_target'], expected, atol=1e-5
  )


def test_effects_vanish_beyond_the_end_of_an_episode():
  small = inspected.make()
  found = bootstrapping.effects(small.view, small.scene, small.head, ends='cut')
  assert {x.changed for x in found} == {'reward', 'value', 'y', 'z'}
  assert {x.target for x in found} == {'pi', 'y', 'z', 'q_target'}
  for x in found:
    assert np.all(x.effect[bootstrapping.CUT :] == 0), (x.changed, x.target)
  # Without the end there are effects.
  found = bootstrapping.effects(small.view, small.scene, small.head)
  for x in found:
    if x.target == 'q_target' and x.changed in 'yz':
      assert not x.effect.any()  # Retrace reads no predictions.
      assert x.reach() == -1
    else:
      # Some of those of y on π̂ are so small that they are rounded to 0.
      is_there = x.effect[bootstrapping.CUT :] > 0
      assert is_there.mean() > 0.5, (x.changed, x.target)


def test_only_steps_of_the_same_episode_count():
  seen = _actor_critic(0.9, 0.8)
  num_steps, batch_size = seen[1].inputs.rewards.shape
  is_terminal = np.zeros((num_steps, batch_size), bool)
  is_terminal[5, 0] = is_terminal[8, 1] = True
  scene = seen[1].with_inputs(is_terminal=jnp.asarray(is_terminal))
  found = _by_name(
    bootstrapping.effects(
      seen[0], scene, seen[2], ends='lived', steps=[num_steps - 1]
    )
  )
  k = np.arange(num_steps)
  # The other two streams have no end, so all distances have some steps.
  np.testing.assert_allclose(
    found['reward', 'value_target'], (0.9 * 0.8) ** k, atol=1e-5
  )
  scene = seen[1].with_inputs(
    is_terminal=jnp.asarray(is_terminal).at[9].set(True)
  )
  found = _by_name(
    bootstrapping.effects(
      seen[0], scene, seen[2], ends='lived', steps=[num_steps - 1]
    )
  )
  effect = found['reward', 'value_target']
  assert np.isnan(effect[num_steps - 10 :]).all()
  assert np.isfinite(effect[: num_steps - 10]).all()


def test_reach():
  make = lambda *effect: bootstrapping.Effect(
    '', '', 'pi', '', np.array(effect)
  )
  assert make(1.0, 0, 0).reach() == 0
  assert make(1.0, 1, 1, 1).reach(0.5) == 1
  assert make(1.0, 1, np.nan).reach() == 1


def test_wrong_arguments():
  small = inspected.make()
  for wrong, match in (
    (dict(ends='some'), 'ends must be one of'),
    (dict(steps=[2]), 'must be above 3'),
    (dict(steps=[12]), 'below 12'),
  ):
    with pytest.raises(ValueError, match=match):
      bootstrapping.effects(small.view, small.scene, small.head, **wrong)


def test_values_are_shifted_where_asked_and_nowhere_else():
  small = inspected.make()
  head = small.head
  amount = jnp.zeros((13, 1)).at[4].set(1.5)
  shifted = values.shift(small.scene, head, amount)
  before, after = (
    [head.decode(x) for x in targets.outputs(scene, 'q')]
    for scene in (small.scene, shifted)
  )
  assert len(before) == 2
  for old, new in zip(before, after, strict=True):
    np.testing.assert_allclose(new[4], old[4] + 1.5, atol=1e-3)
    np.testing.assert_array_equal(np.delete(new, 4, 0), np.delete(old, 4, 0))
