"""Hooks of the run loop: when they act."""

import numpy as np
import pytest

from disco_rl.runs import checkpoint
from disco_rl.runs import hooks


class Trainable:
  """A trainable whose checkpoint is its state."""

  def to_checkpoint(self, state):
    return dict(saved=np.int32(state))


def _calls(every, ends, first=0, **options):
  """Returns the steps after which the action was called."""
  calls = []
  hook = hooks.Periodic(every, lambda done, _: calls.append(done), **options)
  hook.start(first, None)
  for done in ends:
    hook.advanced(done, None, is_last=done == ends[-1])
  hook.close()
  return calls


@pytest.mark.parametrize(
  ('arguments', 'calls'),
  [
    (dict(every=4, ends=[2, 4, 6, 8, 10]), [4, 8, 10]),
    (dict(every=4, ends=[2, 4, 6, 8]), [4, 8]),  # Once at the end.
    (dict(every=4, ends=[2, 3], at_end=False), []),
    (dict(every=4, ends=[3, 5, 6], at_end=False), [5]),  # After a multiple.
    (dict(every=4, ends=[9, 10], at_end=False), [9]),  # Once for two of them.
    (dict(every=4, ends=[2, 4], at_start=True), [0, 4]),
    (dict(every=4, ends=[7, 8], first=6, at_start=True), [8]),  # Resumed.
    (dict(every=4, ends=[0], at_start=True), [0]),
    # Not often, but once, and at the end.
    (dict(every=4, ends=[4, 8, 12, 16], min_seconds=1000), [4, 16]),
  ],
)
def test_when_a_periodic_action_is_due(arguments, calls):
  assert _calls(**arguments) == calls


def test_checkpoints_are_saved_now_and_then_and_at_the_end(tmp_path):
  path = tmp_path / 'state.npz'
  hook = hooks.Checkpoint(Trainable(), path, every=4)
  load = lambda: int(checkpoint.load(path, dict(saved=np.int32(0)))['saved'])
  hook.start(0, 0)
  hook.advanced(3, 3, is_last=False)
  assert not path.exists()
  hook.advanced(4, 4, is_last=False)
  assert load() == 4
  hook.advanced(6, 6, is_last=False)
  assert load() == 4
  hook.advanced(7, 7, is_last=True)
  assert load() == 7


def test_pictures_that_fail_are_no_reason_to_stop(capsys):
  def draw():
    raise KeyError('backend')

  hook = hooks.Pictures(1, draw)
  hook.start(0, None)
  hook.advanced(1, None, is_last=False)
  hook.advanced(2, None, is_last=True)
  assert capsys.readouterr().err.count('no pictures: KeyError') == 1
