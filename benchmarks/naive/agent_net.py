"""The agent network, with outputs of all actions at once."""

import math
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types


class AgentNet(hk.Module):
  """A ReLU torso, linear heads, and one LSTM step for every action."""

  def __init__(
    self,
    out_spec: types.Specs,
    model_out_spec: types.Specs,
    num_actions: int,
    net_args: Any,
  ):
    """Initialises the network.

    Args:
      out_spec: name to spec of an output per observation.
      model_out_spec: name to spec of an output per action.
      num_actions: A.
      net_args: `dense` and `model_kwargs`, see `disco_rl.networks.nets.MLP`.
    """
    super().__init__(name='mlp')
    self._out_spec = out_spec
    self._model_out_spec = model_out_spec
    self._num_actions = num_actions
    self._dense = tuple(net_args['dense'])
    self._hiddens = tuple(net_args['model_kwargs']['head_mlp_hiddens'])
    self._lstm_size = net_args['model_kwargs']['lstm_size']

  def __call__(self, observations: Any) -> dict[str, jax.Array]:
    """Computes all outputs.

    Args:
      observations: tree of [T+1, B, ...].

    Returns:
      Name to [T+1, B, ...] or, per action, [T+1, B, A, ...].
    """
    shape = jax.tree.leaves(observations)[0].shape[:2]
    merged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), observations)
    torso = self._embedding_pass(merged)
    outs = self._head_pass(torso)

    # The root state and the one-hots are tiled: one LSTM step of N·A rows.
    tile = lambda x: jnp.repeat(x, self._num_actions, axis=0)
    cell = tile(hk.Linear(self._lstm_size)(torso))
    root = hk.LSTMState(hidden=jnp.tanh(cell), cell=cell)
    one_hots = jnp.tile(jnp.eye(self._num_actions), (torso.shape[0], 1))
    hidden, _ = hk.LSTM(self._lstm_size, name='action_cond')(one_hots, root)
    for name, spec in self._model_out_spec.items():
      out = hk.nets.MLP((*self._hiddens, math.prod(spec.shape)))(hidden)
      outs[name] = out.reshape(-1, self._num_actions, *spec.shape)
    return {k: x.reshape(*shape, *x.shape[1:]) for k, x in outs.items()}

  # The names of both methods are part of the parameter names.

  def _embedding_pass(self, observations: Any) -> jax.Array:
    leaves = [
      x.astype(jnp.float32).reshape(x.shape[0], -1)
      for x in jax.tree.leaves(observations)
    ]
    return hk.nets.MLP(self._dense, name='torso')(jnp.concatenate(leaves, -1))

  def _head_pass(self, torso: jax.Array) -> dict[str, jax.Array]:
    outs = {}
    for name in sorted(self._out_spec):
      shape = self._out_spec[name].shape
      head = hk.nets.MLP((math.prod(shape),), name='torso_head')
      outs[name] = head(torso).reshape(-1, *shape)
    return outs
