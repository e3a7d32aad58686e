"""Targets along a life, and the trajectory of the life-long state."""

import jax
import numpy as np
import pytest

from disco_rl.inspection import ageing
from disco_rl.update_rules import categorical
from tests.support import inspected


def test_an_unmoved_state_changes_nothing():
  small = inspected.make()
  state = small.scene.meta_state['rnn_state']
  same = ageing.age(small.view, small.scene, 7, state)
  assert same.iteration == 7
  assert same.strength == same.strength_at_birth
  assert set(same.strength) == {'pi', 'y', 'z'}
  assert not any(same.moved.values())
  moved = jax.tree.map(lambda x: x + 1.0, state)
  other = ageing.age(small.view, small.scene, 7, moved)
  assert other.strength == pytest.approx(same.strength)
  assert all(other.moved[name] > 0 for name in ('pi', 'y', 'z'))
  assert other.moved['q_target'] == 0  # Retrace does not read the state.


def test_the_strength_is_the_loss_of_the_agent():
  small = inspected.make()
  found = ageing.age(small.view, small.scene, 0, None)
  outs = small.scene.inputs.agent_out
  meta_out, _ = small.view.rule.unroll_meta_net(
    small.eta,
    small.scene.params,
    None,
    dict(small.scene.meta_state),
    small.scene.inputs,
    small.view.hyper_params,
    lambda *_: (small.scene.target_out, None),
    jax.random.PRNGKey(0),
  )
  kl = categorical.kl_divergence(meta_out['y'], outs['y'][:-1])
  assert found.strength['y'] == pytest.approx(float(kl.mean()), rel=1e-5)


def test_principal_components_of_a_plane():
  rng = np.random.default_rng(0)
  plane = np.linalg.qr(rng.normal(size=(9, 2)))[0]
  flat = rng.normal(size=(20, 2)) * [4, 1]
  coordinates, shares = ageing.principal_components(flat @ plane.T + 3)
  assert shares.sum() == pytest.approx(1) and shares[0] > shares[1]
  distances = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)
  np.testing.assert_allclose(distances(coordinates), distances(flat))
  coordinates, shares = ageing.principal_components(np.ones((3, 1)))
  assert coordinates.shape == (3, 2) and not shares.any()
