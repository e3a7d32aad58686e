"""A naive port in NumPy passes all cases, and fails them with its mistakes."""

import dataclasses

import numpy as np
import pytest

from disco_rl.conformance import compare
from disco_rl.conformance import file_set
from tests.support.port import basics
from tests.support.port import cases

REFERENCES = {name: file_set.load(name) for name in file_set.names()}
MISTAKES = [(name, m) for name, r in REFERENCES.items() for m in r.mistakes]
# Needs derivatives, see `test_meta_gradient`.
NOT_PORTED = {('meta_gradient', 'through_the_denominator')}
# How much larger than its tolerance an error must be to be seen for sure.
SAFE = 20


def _without_gradient(reference):
  """Leaves out the meta-gradient."""
  if reference.description['name'] != 'meta_gradient':
    return reference
  expected = {
    name: x
    for name, x in reference.expected.items()
    if not name.startswith('gradient/')
  }
  return dataclasses.replace(reference, expected=expected)


def _run(name, *mistakes, in_64_bits=True):
  reference = REFERENCES[name]
  settings = reference.description['settings']
  outs = cases.compute(name, reference.inputs, settings, mistakes, in_64_bits)
  return compare.compare(_without_gradient(reference), outs)


@pytest.mark.parametrize('name', REFERENCES)
def test_port_passes(name):
  result = _run(name)
  assert result.status == compare.OK, result
  # Both have 64 bits: all that differs is what the library has in 32.
  assert result.used < 0.05, result


# The port computes a derivative by finite differences, which need 64 bits.
@pytest.mark.parametrize('name', sorted({*REFERENCES} - {'adam_derivative'}))
def test_port_in_32_bits_passes(name):
  result = _run(name, in_64_bits=False)
  assert result.status == compare.OK, result


@pytest.mark.parametrize(
  ('name', 'mistake'), [pair for pair in MISTAKES if pair not in NOT_PORTED]
)
def test_mistakes_are_named(name, mistake):
  result = _run(name, mistake)
  sentence = REFERENCES[name].description['mistakes'][mistake]
  assert result.status == compare.DEPARTS and result.hint == sentence, result
  assert result.used > SAFE, result


@pytest.mark.parametrize('mistake', sorted({m for _, m in MISTAKES}))
def test_mistakes_show_first_in_their_own_case(mistake):
  first = next(name for name, other in MISTAKES if other == mistake)
  for name in REFERENCES:
    result = _run(name, mistake)
    if result.status != compare.OK:
      assert name == first and result.used > SAFE, result
      return
  raise AssertionError(f'{mistake} departs nowhere')


@pytest.mark.parametrize(
  ('name', 'mistake'),
  [
    ('target_average', 'other_way_round'),
    ('adam_then_clip', 'clip_before_adam'),
    ('from_rollout', 'masks_the_wrong_step'),
    ('retrace', 'shifted_trace'),
    ('retrace', 'shifted_return'),
    ('from_rollout', 'rewards_one_early'),
    ('from_rollout', 'ends_one_early'),
    ('from_rollout', 'resets_one_early'),
    ('adam', 'not_debiased'),
    ('moving_average', 'moments_not_debiased'),
    ('action_blocks', 'mean_over_batch'),
  ],
)
def test_common_mistakes_are_in_the_catalogue(name, mistake):
  assert (name, mistake) in MISTAKES


def test_mistakes_of_parts_show_in_the_whole():
  """Also those that were not found earlier."""
  for mistake in (
    *('other_way_round', 'clip_before_adam', 'masks_the_wrong_step'),
    *('shifted_trace', 'rewards_one_early', 'ends_one_early'),
    *('reversed_kl', 'aux_not_masked', 'mask_one_early', 'gate_after_update'),
  ):
    result = _run('learner_step', mistake)
    assert result.status == compare.DEPARTS, (mistake, result)


def test_meta_gradient():
  """Its directional derivatives are those of finite differences."""
  reference = REFERENCES['meta_gradient']
  inputs = cases.nest(
    {
      name: x.astype(np.float64) if x.dtype.kind == 'f' else x
      for name, x in reference.inputs.items()
    }
  )
  settings, eta = reference.description['settings'], inputs['eta']
  gradient = {
    name.removeprefix('gradient/'): x
    for name, x in reference.expected.items()
    if name.startswith('gradient/')
  }
  assert gradient.keys() == eta.keys()
  rng = np.random.default_rng(0)
  constants = basics.Switches()
  cases.meta_loss_at(eta, inputs, settings, constants)  # Records them.

  def derivative(direction, step=1e-6):
    losses = []
    for sign in (1, -1):
      constants.replay()
      moved = {k: eta[k] + sign * step * direction[k] for k in eta}
      outs = cases.meta_loss_at(moved, inputs, settings, constants)
      losses.append(outs['meta_loss'])
    return (losses[0] - losses[1]) / (2 * step)

  def check(direction):
    wanted = sum((gradient[k] * direction[k]).sum() for k in eta)
    scale = sum(abs(gradient[k] * direction[k]).sum() for k in eta)
    # Larger steps cross kinks, of ReLU and of maxima.
    assert abs(derivative(direction) - wanted) < 2e-5 * scale

  check({k: rng.normal(size=x.shape) for k, x in eta.items()})
  for name in eta:
    direction = {k: np.zeros_like(x) for k, x in eta.items()}
    direction[name] = np.sign(gradient[name])
    check(direction)
