"""An agent network with a memory, which the library itself does not have."""

from typing import Any

import haiku as hk
import jax

from disco_rl import types
from disco_rl.networks import nets


class _Recurrent(hk.Module):
  """A resettable LSTM in front of the library's own MLP."""

  def __init__(self, hidden_size: int, **mlp_kwargs: Any):
    super().__init__(name='recurrent')
    self._core = hk.ResetCore(hk.LSTM(hidden_size))
    self._mlp = nets.MLP(**mlp_kwargs)

  def __call__(self, observations: Any, should_reset: jax.Array) -> Any:
    batch_size = should_reset.shape[0]
    state = hk.get_state(
      'core', (), init=lambda *_: self._core.initial_state(batch_size)
    )
    flat = jax.numpy.concatenate(
      [
        jax.numpy.asarray(x, jax.numpy.float32).reshape(batch_size, -1)
        for x in jax.tree.leaves(observations)
      ],
      axis=-1,
    )
    hidden, state = self._core((flat, should_reset), state)
    hk.set_state('core', state)
    return self._mlp(hidden, should_reset)


def get_network(**kwargs: Any) -> types.PolicyNetwork:
  """A `PolicyNetwork` whose state is the LSTM's, [B, H]."""
  step_net = hk.without_apply_rng(
    hk.transform_with_state(
      lambda observations, should_reset: _Recurrent(hidden_size=4, **kwargs)(
        observations, should_reset
      )
    )
  )

  def unroll(params, state, observations, should_reset):
    def step(state, inputs):
      outs, state = step_net.apply(params, state, *inputs)
      return state, outs

    state, outs = jax.lax.scan(step, state, (observations, should_reset))
    return outs, state

  return types.PolicyNetwork(
    init=jax.jit(step_net.init), one_step=step_net.apply, unroll=unroll
  )
