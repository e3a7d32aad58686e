"""Action models: predict outputs for every action from one embedding."""

from collections.abc import Callable, Sequence
import math
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import lstm


class LSTMModel:
  """Takes one LSTM step per action, from a root state given by the embedding.

  The root cell is a linear map of the embedding, and the root hidden vector its
  tanh. Each action's one-hot is the input of one step from that root, and one
  MLP per output is applied to the result. To be called inside a Haiku
  transform: its parameters belong to the calling module.
  """

  def __init__(
    self,
    action_spec: types.ActionSpec,
    out_spec: types.Specs,
    head_mlp_hiddens: Sequence[int],
    lstm_size: int,
  ):
    """Initialises the model.

    Args:
      action_spec: scalar discrete action spec.
      out_spec: name to spec of one action's output; heads are created in this
        order.
      head_mlp_hiddens: hidden sizes of each output's MLP.
      lstm_size: hidden units of the LSTM.
    """
    self._num_actions = utils.get_num_actions_from_spec(action_spec)
    self._out_spec = out_spec
    self._head_mlp_hiddens = tuple(head_mlp_hiddens)
    self._lstm_size = lstm_size

  def __call__(
    self, embedding: jax.Array, actions: types.Array | None = None
  ) -> dict[str, jax.Array]:
    """Predicts the outputs of all actions, or of one action per row.

    Args:
      embedding: [B, D].
      actions: [B], int, or None for all actions.

    Returns:
      Name to [B, A, *spec.shape]; with `actions`, to [B, *spec.shape].
    """
    return self.model_step(self.root_embedding(embedding), actions)

  def root_embedding(self, state: jax.Array) -> hk.LSTMState:
    """Computes the LSTM's root state, [B, H], from an embedding [B, D]."""
    cell = hk.Linear(self._lstm_size)(state)
    return hk.LSTMState(hidden=jnp.tanh(cell), cell=cell)

  def model_step(
    self, embedding: hk.LSTMState, actions: types.Array | None = None
  ) -> dict[str, jax.Array]:
    """Takes one LSTM step and predicts the outputs.

    Args:
      embedding: the root state, see `root_embedding`.
      actions: [B], int, or None for all actions.

    Returns:
      Name to [B, A, *spec.shape]; with `actions`, to [B, *spec.shape].
    """
    cell = embedding.cell
    weights = lstm.get_weights(
      self._num_actions, self._lstm_size, name='action_cond'
    )
    # A one-hot input selects a row of w_x and the root is the same for every
    # action, so the only product is [B, H] x [H, 4H].
    gates = embedding.hidden @ weights.w_h + weights.b  # [B, 4H]
    if actions is None:
      gates = gates[:, None, :] + weights.w_x  # [B, A, 4H]
      cell = cell[:, None, :]
    else:
      # A product with one-hots: its gradient is a product, not a scatter.
      w_x = weights.w_x
      gates += jax.nn.one_hot(actions, self._num_actions, dtype=w_x.dtype) @ w_x
    hidden = lstm.apply_gates(gates, cell).hidden  # [B, A, H] or [B, H]

    outs = {}
    for name, spec in self._out_spec.items():
      sizes = self._head_mlp_hiddens + (math.prod(spec.shape),)
      out = hk.nets.MLP(sizes)(hidden)
      outs[name] = out.reshape(hidden.shape[:-1] + tuple(spec.shape))
    return outs


ACTION_MODELS: dict[str, Callable[..., Any]] = {'lstm': LSTMModel}


def get_action_model(name: str | None, *args: Any, **kwargs: Any) -> Any:
  """Builds the action model registered under `name`.

  Args:
    name: a key of `ACTION_MODELS`.
    *args: passed to its constructor.
    **kwargs: passed to its constructor.

  Returns:
    A callable from an embedding [B, D] to a dict of [B, A, ...].
  """
  return utils.lookup(ACTION_MODELS, name, 'action model')(*args, **kwargs)
