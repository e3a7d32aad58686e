"""Probes find what is there, and nothing else."""

import numpy as np
import pytest

from disco_rl import types
from disco_rl.inspection import probes


def _noise(rng, *shape):
  return rng.normal(size=shape).astype(np.float32)


def test_a_planted_signal_is_found_and_noise_is_not():
  rng = np.random.default_rng(0)
  known, noise = _noise(rng, 60, 100, 5), _noise(rng, 60, 100, 30)
  weights = rng.normal(size=5)
  label = known @ weights
  sources = {
    'signal': np.concatenate([known, noise], axis=-1),
    'noise': noise,
    'constant': np.ones((60, 100, 3), np.float32),
  }
  labels = {
    ('number', 1): label,
    ('noisy number', 1): label + label.std() * _noise(rng, 60, 100),
    ('event', 1): label > 1,
  }
  mask = rng.random((60, 100)) < 0.9
  found = {(s.source, s.label): s for s in probes.probe(sources, labels, mask)}
  assert found['signal', 'number'].score > 0.999
  # Half of the variance is noise.
  assert found['signal', 'noisy number'].score == pytest.approx(0.5, abs=0.06)
  assert found['signal', 'event'].score > 0.97
  for source in ('noise', 'constant'):
    for label in ('number', 'noisy number'):
      assert abs(found[source, label].score) < 0.03, source
    assert found[source, 'event'].score == pytest.approx(0.5, abs=0.06)
  assert found['noise', 'event'].measure == 'AUC'


def test_a_probe_with_more_inputs_than_samples_does_not_overfit():
  rng = np.random.default_rng(1)
  sources = {'noise': _noise(rng, 10, 10, 200)}
  labels = {('number', 1): _noise(rng, 10, 10)}
  (found,) = probes.probe(sources, labels, np.ones((10, 10), bool))
  assert found.score < 0.1


def _rollout(rewards, is_last):
  shape = np.shape(rewards)
  zeros = np.zeros(shape)
  return types.ActorRollout(
    observations=zeros,
    actions=zeros.astype(int),
    rewards=np.asarray(rewards, float),
    discounts=~np.asarray(is_last, bool),
    agent_outs={},
    states=None,
    logits=zeros[..., None],
  )


def test_labels_are_those_of_a_loop():
  rng = np.random.default_rng(2)
  num_steps, num_streams, discount = 20, 6, 0.9
  is_last = rng.random((num_steps, num_streams)) < 0.2
  rewards = rng.integers(-1, 2, (num_steps, num_streams))
  entropy = rng.random((num_steps, num_streams))
  horizons = [1, 2, 5]
  labels, mask = probes.labels_of(
    _rollout(rewards, is_last), entropy, horizons, discount
  )
  for h in horizons:
    for t in range(num_steps - max(horizons)):
      for b in range(num_streams):
        total, has_reward, has_ended = 0.0, False, False
        for i in range(1, h + 1):
          total += discount ** (i - 1) * rewards[t + i, b]
          has_reward |= bool(rewards[t + i, b])
          if is_last[t + i, b]:
            has_ended = True
            break
        assert labels['reward', h][t, b] == pytest.approx(total)
        assert labels['any reward', h][t, b] == has_reward
        assert labels['episode end', h][t, b] == has_ended
        assert labels['entropy', h][t, b] == entropy[t + h, b]
  np.testing.assert_array_equal(mask, ~is_last[: num_steps - 5])


def test_the_area_under_the_curve_counts_pairs():
  rng = np.random.default_rng(3)
  actual = rng.random(40) < 0.3
  predicted = rng.integers(0, 6, 40).astype(float)  # With ties.
  pairs = [
    (predicted[i] > predicted[j]) + 0.5 * (predicted[i] == predicted[j])
    for i in np.flatnonzero(actual)
    for j in np.flatnonzero(~actual)
  ]
  area = probes.area_under_curve(predicted, actual)
  assert area == pytest.approx(np.mean(pairs))
  assert np.isnan(probes.area_under_curve(predicted, np.ones(40)))
  assert np.isnan(probes.explained(predicted, np.ones(40)))


def test_components_are_the_directions_of_most_variance():
  rng = np.random.default_rng(4)
  directions = np.linalg.qr(rng.normal(size=(10, 10)))[0]
  scales = np.array([5, 3, *([0.1] * 8)])
  x = (rng.normal(size=(30, 8, 10)) * scales) @ directions.T
  found = probes.components(x, 2)
  assert found.shape == (30, 8, 2)
  kept = found.var(axis=(0, 1)).sum() / x.var(axis=(0, 1)).sum()
  assert kept > 0.99


def test_horizons():
  assert probes.horizons_up_to(28)[0] == 1
  assert probes.horizons_up_to(28)[-1] == 28
  assert probes.horizons_up_to(1) == [1]


def test_few_streams_are_refused():
  with pytest.raises(ValueError, match='at least 5 streams'):
    probes.probe({}, {('x', 1): np.zeros((3, 4))}, np.ones((3, 4), bool))
