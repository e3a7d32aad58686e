"""The influence of inputs on targets; what is not read has none."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import utils
from disco_rl.inspection import influence
from disco_rl.inspection import inputs
from disco_rl.inspection import targets
from tests.inspection import test_bootstrapping
from tests.support import inspected


def _by_name(found):
  return {(x.source, x.target): x for x in found}


def test_inputs_that_are_not_read_have_no_influence_at_all():
  small = inspected.make()
  # The first layer of the network that embeds y is without weights.
  for name in (
    'lstm/mlp/~/linear_0',
    'lstm/~/meta_lstm/~unroll/mlp/~/linear_0',
  ):
    assert name in small.eta
  eta = utils.copy_tree(dict(small.eta))
  name = 'lstm/mlp/~/linear_0'
  eta[name] = {**eta[name], 'w': jnp.zeros_like(eta[name]['w'])}
  view = dataclasses.replace(small.view, eta=eta)
  found = _by_name(influence.influences(view, small.scene))
  for (source, target), x in found.items():
    is_read = not source.endswith('/y') and target != 'q_target'
    numbers = x.gradient_times_input, x.ablation
    if not is_read:
      assert numbers == (0, 0), (source, target)
    elif source in ('agent_out/z', 'extra_from_rule/q', 'rewards'):
      assert min(numbers) > 0, (source, target)
  intact = _by_name(influence.influences(small.view, small.scene))
  assert intact['agent_out/y', 'pi'].ablation > 0


def test_influence_on_a_hand_designed_rule():
  view, scene, _ = test_bootstrapping._actor_critic(0.9, 0.8)
  found = _by_name(influence.influences(view, scene))
  for target in ('raw_advs', 'value_target'):
    x = found['agent_out/never_read', target]
    assert (x.gradient_times_input, x.ablation) == (0, 0)
    assert found['rewards', target].ablation > 0.1
  # Targets are linear in the rewards: what remains without them is what does
  # not come from them.
  zero = scene.with_inputs(rewards=jnp.zeros_like(scene.inputs.rewards))
  difference = (
    targets.compute(view, scene)['value_target']
    - targets.compute(view, zero)['value_target']
  )
  assert found['rewards', 'value_target'].gradient_times_input == pytest.approx(
    float(jnp.sqrt(jnp.mean(jnp.square(difference)))), rel=1e-3
  )


def test_unchanged_inputs_give_the_targets_of_the_rule():
  small = inspected.make()
  intact = targets.compute(small.view, small.scene)
  same = inputs.compute_changed(small.view, small.scene, {})
  names = inputs.names_of(small.view, small.scene)
  scaled = inputs.compute_changed(
    small.view, small.scene, {name: lambda x: 1.0 * x for name in names}
  )
  assert len(names) == 15
  for other in (same, scaled):
    for name, x in intact.items():
      np.testing.assert_allclose(x, other[name], atol=2e-5)


def test_an_ablated_input_has_no_information():
  x = jax.random.normal(jax.random.PRNGKey(0), (4, 3, 2, 5))
  without = inputs.ablation_of('rewards')(x)
  np.testing.assert_allclose(without[0, 0], without[3, 2])
  np.testing.assert_allclose(without[0, 0], x.mean(axis=(0, 1)), rtol=1e-5)
  without = jax.nn.softmax(inputs.ablation_of('agent_out/y')(x))
  np.testing.assert_allclose(
    without[1, 1], jax.nn.softmax(x).mean(axis=(0, 1)), rtol=1e-4
  )


def test_an_ablated_end_of_episodes_still_resets():
  """The mean of `is_terminal` is read, but resets are where episodes end."""
  small = inspected.make()
  is_terminal = small.scene.inputs.is_terminal
  is_terminal = jnp.zeros_like(is_terminal).at[6].set(True)
  scene = small.scene.with_inputs(is_terminal=is_terminal)
  ablate = {'is_terminal': inputs.ablation_of('is_terminal')}
  before = inputs.compute_changed(small.view, scene, ablate)
  rewards = scene.inputs.rewards.at[9].add(1.0)
  after = inputs.compute_changed(
    small.view, scene.with_inputs(rewards=rewards), ablate
  )
  np.testing.assert_array_equal(before['pi'][:6], after['pi'][:6])
  assert (before['pi'][7:9] != after['pi'][7:9]).any()


def test_table():
  make = lambda source, target, number: influence.Influence(
    'rule', source, target, number, 2 * number
  )
  found = [make('a', 'pi', 1.0), make('a', 'y', 2.0), make('b', 'pi', 3.0)]
  sources, columns, numbers = influence.table(found, 'ablation')
  assert (sources, columns) == (['a', 'b'], ['pi', 'y'])
  np.testing.assert_array_equal(numbers, [[2, 4], [6, 0]])
