"""The simplest trainable: a counter."""

from disco_rl import memory
from disco_rl.runs import loop


class Counter:
  """A `loop.Trainable` that counts in chunks of `size`.

  It diverges after the step `diverges_at`.
  """

  def __init__(self, size=3, seeds=(0, 1), diverges_at=None):
    self.size = size
    self.seeds = seeds
    self.diverges_at = diverges_at
    self.is_open = True

  def init(self):
    return dict(step=0)

  def check_memory(self):
    return memory.Estimate(dict(state=8), 16)

  def columns(self):
    return ('iteration', 'seed', 'value')

  def done(self, state):
    return state['step']

  def advance(self, state, total):
    step = min(state['step'] + self.size, total)
    rows = [
      dict(iteration=step, seed=seed, value=0.5 * step) for seed in self.seeds
    ]
    if self.diverges_at is not None and step > self.diverges_at:
      raise loop.DivergenceError('too large', dict(step=self.diverges_at), rows)
    return dict(step=step), rows

  def to_checkpoint(self, state):
    return state

  def checkpoint_like(self):
    return self.init()

  def from_checkpoint(self, saved):
    return saved

  def close(self):
    self.is_open = False
