"""Learner steps whose networks compute in bfloat16.

A number in bfloat16 has 8 significant bits, so that rounding changes it by at
most 0.4%. Losses are averages over a batch, in which such changes cancel: those
of the first step differ by less than 0.3% (measured), and after five updates,
whose parameters differ, too, by 3.5%.
"""

import jax
import jax.numpy as jnp
import pytest

from benchmarks import learner_programs
from benchmarks import sizes
import disco_rl
from disco_rl.config import batching as batching_lib
from tests.support import small
from tests.support import weights

FIRST_TOLERANCE = 0.01
LATER_TOLERANCE = 0.06
LOSSES = ('total_loss', 'pi_loss', 'q_loss', 'aux_kl_loss')


def _logs(settings, precision, num_steps, batch_size):
  """Runs six learner steps on the same experience; returns their logs."""
  settings = settings.copy_and_resolve_references()
  # Larger than usual, so that the agent's outputs are no constants.
  settings.net_settings.net_args.head_w_init_std = 0.3
  with settings.unlocked():
    settings.net_settings.net_args.precision = precision
  problem = learner_programs.Problem(
    settings, 3, num_steps, batch_size, (5, 4, 1)
  )
  step = jax.jit(learner_programs.WAYS['summary'](problem))
  state = problem.agent.initial_learner_state(problem.rng)
  before = jax.tree.map(lambda x: x.dtype, state)
  logs = []
  for _ in range(6):
    state, log = step(problem.eta, problem.rollout, state)
    logs.append({name: float(log[name]) for name in LOSSES})
  # Parameters, optimiser, target network and the rule's state stay as they are.
  assert jax.tree.map(lambda x: x.dtype, state) == before
  assert jnp.bfloat16 not in [x.dtype for x in jax.tree.leaves((state, log))]
  return logs


@pytest.mark.parametrize(
  ('settings', 'num_steps', 'batch_size'),
  [
    (small.settings('disco'), 9, 16),
    pytest.param(
      sizes.agent_settings('published'), 29, 8, marks=pytest.mark.slow
    ),
  ],
  ids=['small', 'published'],
)
def test_losses_are_those_of_float32(settings, num_steps, batch_size):
  full, half = (
    _logs(settings, precision, num_steps, batch_size)
    for precision in ('float32', 'bfloat16')
  )
  assert half != full
  for i, (a, b) in enumerate(zip(half, full, strict=True)):
    tolerance = LATER_TOLERANCE if i else FIRST_TOLERANCE
    assert a == pytest.approx(b, rel=tolerance), i


@pytest.mark.slow
@pytest.mark.parametrize('precision', ['float32', 'bfloat16'])
def test_an_agent_learns_catch(precision, monkeypatch):
  """With the published rule, on a board of 5x5; the last 100 iterations."""
  weights.need_disco_103(monkeypatch)
  result = disco_rl.evaluate(
    'catch',
    'disco_103',
    num_iterations=500,
    devices=jax.devices()[:1],
    batching=batching_lib.Batching(batch_size=16, num_envs=8),
    env_settings=dict(rows=5, columns=5),
    settings={'agent.net_settings.net_args.precision': precision},
  )
  assert result.final_returns()[0] > 0.95  # Measured: 0.997 and 0.998.
