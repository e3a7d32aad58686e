"""Non-finite states are not saved."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.runs import checkpoint
from disco_rl.runs import finite
from disco_rl.runs import hooks
from disco_rl.runs import loop
from tests.support import counter


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('dtype', [np.float32, np.float16, jnp.bfloat16])
def test_the_array_is_named(bad, dtype):
  array = jnp.asarray([1.0, bad, 2.0], dtype)
  with pytest.raises(finite.NonFiniteStateError, match='a/1/b of the state'):
    finite.check(dict(a=[1.0, dict(b=array)]))
  finite.check(dict(a=[1.0, dict(b=array)]), frozenset(['b']))
  finite.check(dict(a=[1.0, dict(b=array)]), frozenset(['a']))
  with pytest.raises(finite.NonFiniteStateError):
    finite.check(float('nan'))


def test_sums_that_overflow_are_no_error():
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    finite.check([np.full(9, 3e38, np.float32), np.full(9, 6e4, np.float16)])
  finite.check([np.asarray(['nan']), 3, True, jnp.arange(3), None])


def test_the_checkpoint_before_stays(tmp_path):
  class Spoiled(counter.Counter):
    def to_checkpoint(self, state):
      value = np.nan if self.done(state) > 3 else 1.0
      return dict(state, value=value, private=dict(value=np.nan))

  path = tmp_path / 'state.npz'
  like = dict(step=0, value=0.0, private=dict(value=0.0))
  make = lambda trainable: hooks.Checkpoint(
    trainable, path, 2, private=frozenset(['private'])
  )
  trainable = Spoiled()
  with pytest.raises(finite.NonFiniteStateError, match=r'^value of the state'):
    loop.run(trainable, trainable.init(), 9, hooks=[make(trainable)])
  assert checkpoint.load(path, like)['step'] == 3
