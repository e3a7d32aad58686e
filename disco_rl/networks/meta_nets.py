"""The meta-network: computes an agent's targets from its experience.

An LSTM runs backward over the trajectory, so that the target of a step may
depend on later steps. It is gated by a second, life-long LSTM, which takes one
step per *update* and whose state is kept for the agent's lifetime.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_masks
from disco_rl.networks import initializers
from disco_rl.networks import lstm
from disco_rl.networks import prediction_embeddings
from disco_rl.update_rules import input_transforms


class MetaNet(hk.Module):
  """The interface of a meta-network, a Haiku module."""

  @abc.abstractmethod
  def __call__(
    self, inputs: types.UpdateRuleInputs, axis_name: Any | None
  ) -> dict[str, jax.Array]:
    """Computes the targets of one trajectory.

    Args:
      inputs: the trajectory.
      axis_name: axis (or axes) to average over besides time and batch.

    Returns:
      Name to targets, [T, B, ...].
    """


class LSTM(MetaNet):
  """The meta-network of the Disco rule."""

  def __init__(
    self,
    hidden_size: int,
    embedding_size: Sequence[int],
    prediction_size: int,
    meta_rnn_kwargs: Mapping[str, Any],
    input_option: types.MetaNetInputOption,
    policy_channels: Sequence[int] = (16, 2),
    policy_target_channels: Sequence[int] = (128,),
    policy_target_stddev: float | None = None,
    output_stddev: float | None = None,
    aux_stddev: float | None = None,
    state_stddev: float | None = None,
    name: str | None = None,
  ):
    """Initialises the network.

    Args:
      hidden_size: H, units of the backward LSTM.
      embedding_size: layer sizes of the MLPs that embed y and z.
      prediction_size: Y, the size of the targets ŷ and ẑ.
      meta_rnn_kwargs: keyword arguments of the life-long `MetaLSTM`, whose
        `input_option` is by default that of this network.
      input_option: the inputs of the network.
      policy_channels: channels of the blocks that embed per-action inputs.
      policy_target_channels: channels of the blocks that compute π̂.
      policy_target_stddev: standard deviation of the initial weights of π̂'s
        last layer; None for Haiku's default, here and below.
      output_stddev: the same for `meta_input_emb`.
      aux_stddev: the same for ŷ and ẑ.
      state_stddev: the same for the life-long gate.
      name: Haiku name.
    """
    super().__init__(name=name)
    input_transforms.check_option(input_option)
    init = initializers.truncated_normal
    self._hidden_size = hidden_size
    self._embedding_size = tuple(embedding_size)
    self._prediction_size = prediction_size
    self._input_option = input_option
    self._policy_channels = tuple(policy_channels)
    self._policy_target_channels = tuple(policy_target_channels)
    self._policy_target_init = init(policy_target_stddev)
    self._output_init = init(output_stddev)
    self._aux_init = init(aux_stddev)
    self._state_init = init(state_stddev)
    self._meta_lstm = MetaLSTM(
      **{'input_option': input_option, **meta_rnn_kwargs}
    )

  def __call__(
    self, inputs: types.UpdateRuleInputs, axis_name: Any | None
  ) -> dict[str, jax.Array]:
    """Computes the targets of one trajectory and updates the life-long state.

    Args:
      inputs: a trajectory; see `update_rules.disco.get_input_option` for its
        required entries.
      axis_name: axis (or axes) to average the life-long LSTM's input over.

    Returns:
      `pi` [T, B, A], `y` [T, B, Y] and `z` [T, B, Y] (logits of π̂, ŷ, ẑ), and
      `meta_input_emb` [T, B, 1].
    """
    embedded = embed_inputs(
      inputs,
      self._input_option,
      self._embedding_size,
      self._policy_channels,
      axis_name,
      prediction_embeddings.precomputed(inputs, 0),
    )
    weights = lstm.get_weights(
      embedded.base.shape[-1], self._hidden_size, name='lstm'
    )
    x, _ = lstm.unroll(
      weights,
      embedded.base,
      inputs.should_reset_mask_bwd[:-1],
      reverse=True,
    )  # [T, B, H]

    zero_state: Any = self._meta_lstm.initial_state()
    rnn_state: Any = hk.get_state(
      'meta_rnn_state', (), init=lambda *_: zero_state
    )
    x *= hk.Linear(self._hidden_size, w_init=self._state_init)(
      self._meta_lstm.output(rnn_state)
    )

    meta_input_emb = hk.Linear(1, w_init=self._output_init)(x)
    y = hk.Linear(self._prediction_size, w_init=self._aux_init)(x)
    z = hk.Linear(self._prediction_size, w_init=self._aux_init)(x)
    pi = ActionMixer(self._policy_target_channels)(
      embedded.actions, shared=x, mask=inputs.action_mask
    )
    pi = hk.Linear(1, w_init=self._policy_target_init)(pi).squeeze(-1)

    meta_out = dict(pi=pi, y=y, z=z, meta_input_emb=meta_input_emb)
    hk.set_state(
      'meta_rnn_state',
      self._meta_lstm.unroll(inputs, meta_out, rnn_state, axis_name),
    )
    return meta_out


class MetaLSTM(hk.Module):
  """The life-long LSTM, with one step per agent update, one state per agent."""

  def __init__(
    self,
    input_option: types.MetaNetInputOption,
    policy_channels: Sequence[int],
    embedding_size: Sequence[int],
    pred_embedding_size: Sequence[int],
    hidden_size: int,
    name: str = 'meta_lstm',
  ):
    """Initialises the network.

    Args:
      input_option: the inputs of the network.
      policy_channels: channels of the blocks that embed per-action inputs.
      embedding_size: layer sizes of the MLP before the LSTM.
      pred_embedding_size: layer sizes of the MLPs that embed y and z.
      hidden_size: units of the LSTM.
      name: Haiku name.
    """
    super().__init__(name=name)
    input_transforms.check_option(input_option)
    self._input_option = input_option
    self._policy_channels = tuple(policy_channels)
    self._embedding_size = tuple(embedding_size)
    self._pred_embedding_size = tuple(pred_embedding_size)
    self._hidden_size = hidden_size

  def initial_state(self) -> hk.LSTMState:
    """Makes the state before the first update, unbatched."""
    return hk.LSTMState(
      hidden=jnp.zeros(self._hidden_size), cell=jnp.zeros(self._hidden_size)
    )

  def output(self, state: hk.LSTMState) -> jax.Array:
    """Returns the output of a state, [hidden_size]."""
    return state.hidden

  # The method's name is part of the parameter names.
  def unroll(
    self,
    inputs: types.UpdateRuleInputs,
    meta_out: Mapping[str, types.Array],
    state: hk.LSTMState,
    axis_name: Any | None,
  ) -> hk.LSTMState:
    """Advances the state by one update.

    Args:
      inputs: the trajectory of this update.
      meta_out: the network's outputs for it, with `meta_input_emb` [T, B, 1]
        and `y` [T, B, Y], the logits of ŷ.
      state: the state before this update, unbatched.
      axis_name: axis (or axes) to average over besides time and batch.

    Returns:
      The state after this update.
    """
    embedded = embed_inputs(
      inputs,
      self._input_option,
      self._pred_embedding_size,
      self._policy_channels,
      axis_name,
      prediction_embeddings.precomputed(inputs, 1),
    )
    y_hat_emb = embedded.y_net(jax.nn.softmax(meta_out['y']))
    x = jnp.concatenate(
      [embedded.base, meta_out['meta_input_emb'], y_hat_emb], axis=-1
    )
    x = hk.nets.MLP(self._embedding_size)(x).mean(axis=(0, 1))
    if axis_name is not None:
      x = jax.lax.pmean(x, axis_name)
    _, new_state = hk.LSTM(self._hidden_size)(x, state)
    return new_state


class ActionMixer(hk.Module):
  """Permutation-equivariant blocks over any number of actions.

  A block concatenates each action's channels with their mean over actions and
  applies one ReLU layer. Split by rows, its matrix gives
  `xₐ·W + mean(x)·W'`, which needs no concatenation. Channels that all actions
  share equal their mean, so `W` and `W'` are added up for them and nothing is
  tiled.
  """

  def __init__(self, channels: Sequence[int], name: str = 'sequential'):
    """Initialises the blocks.

    Args:
      channels: output channels of each block.
      name: Haiku name.
    """
    super().__init__(name=name)
    self._channels = tuple(channels)

  def __call__(
    self,
    x: jax.Array,
    shared: jax.Array | None = None,
    mask: types.Array | None = None,
  ) -> jax.Array:
    """Applies the blocks.

    Args:
      x: [T, B, A, C], channels of each action.
      shared: [T, B, S], channels that come before x's, the same for all
        actions.
      mask: [T+1, B, A], the legal actions, or None. Means are over the legal
        ones, so that outputs of these do not depend on any others.

    Returns:
      [T, B, A, channels[-1]].
    """
    for channels in self._channels:
      num_shared = 0 if shared is None else shared.shape[-1]
      size = num_shared + x.shape[-1]
      w, b = _pointwise_conv_weights(2 * size, channels)
      w_each, w_mean = w[:size], w[size:]
      mean = action_masks.mean(x, mask)
      common = mean @ w_mean[num_shared:] + b  # [T, B, channels]
      if shared is not None:
        common += shared @ (w_each[:num_shared] + w_mean[:num_shared])
      x = jax.nn.relu(x @ w_each[num_shared:] + common[:, :, None])
      shared = None
    return x


def _pointwise_conv_weights(
  size_in: int, size_out: int
) -> tuple[jax.Array, jax.Array]:
  """Gets the matrix and bias of a `hk.Conv1D` with kernel 1."""
  with hk.name_scope('conv1_d'):
    w = hk.get_parameter(
      'w',
      (1, size_in, size_out),
      init=hk.initializers.TruncatedNormal(1.0 / np.sqrt(size_in)),
    )
    b = hk.get_parameter('b', (size_out,), init=jnp.zeros)
  return w[0], b


class EmbeddedInputs(NamedTuple):
  """The inputs of a trajectory as vectors."""

  base: jax.Array  # [T, B, D]
  actions: jax.Array  # [T, B, A, C]
  y_net: Callable[[jax.Array], jax.Array]


def embed_inputs(
  inputs: types.UpdateRuleInputs,
  option: types.MetaNetInputOption,
  embedding_size: Sequence[int],
  policy_channels: Sequence[int],
  axis_name: Any | None,
  precomputed: Mapping[tuple[str, ...], jax.Array],
) -> EmbeddedInputs:
  """Embeds all inputs, with parameters that belong to the calling module.

  Args:
    inputs: the trajectory.
    option: which inputs are read.
    embedding_size: layer sizes of the MLPs that embed y and z.
    policy_channels: channels of the blocks that embed per-action inputs.
    axis_name: axis (or axes) to average statistics over, or None.
    precomputed: see `prediction_embeddings.precomputed`.

  Returns:
    The embedded inputs.
  """
  y_net = hk.nets.MLP(embedding_size)
  z_net = hk.nets.MLP(embedding_size)
  actions = jnp.asarray(inputs.actions)[:-1]  # [T, B]
  logits = jnp.asarray(inputs.agent_out['logits'])  # [T+1, B, A]
  policy = jax.lax.stop_gradient(jax.nn.softmax(logits))
  mask = inputs.action_mask
  num_steps, batch_size = actions.shape
  num_actions = policy.shape[-1]

  # Several inputs share a prefix of expensive transforms, which is computed
  # once.
  shared = dict(precomputed)

  def transformed(source: str, transforms: tuple[str, ...]) -> jax.Array:
    if not transforms:
      return input_transforms.get_source(inputs, source)
    key = (source, *transforms)
    if key not in shared or 'normalize' in transforms:
      *before, last = transforms
      transform = input_transforms.get_transform(
        last, dict(y_net=y_net, z_net=z_net)
      )
      x = transformed(source, tuple(before))
      if last == 'max_a':
        x = action_masks.fill(x, mask, action_masks.ILLEGAL_LOGIT)
      shared[key] = transform(x, actions, policy, axis_name)
    return shared[key]

  def read(config: types.TransformConfig, shape: tuple[int, ...]) -> jax.Array:
    transforms = input_transforms.postpone_drop_last(config.transforms)
    x = transformed(config.source, transforms)
    return x.reshape(shape + (-1,)).astype(policy.dtype)

  base = [read(c, (num_steps, batch_size)) for c in option.base]
  per_action = [
    action_masks.fill(read(c, (num_steps, batch_size, num_actions)), mask, 0.0)
    for c in option.action_conditional
  ]
  per_action.append(jax.nn.one_hot(actions, num_actions)[..., None])
  action_emb = ActionMixer(policy_channels)(
    jnp.concatenate(per_action, -1), mask=mask
  )
  base.append(action_masks.mean(action_emb, mask))
  base.append(utils.batch_lookup(action_emb, actions))
  return EmbeddedInputs(
    base=jnp.concatenate(base, axis=-1), actions=action_emb, y_net=y_net
  )


META_NETS: dict[str, Callable[..., Any]] = {'lstm': LSTM}


def get_meta_net(name: str, **kwargs: Any) -> Any:
  """Builds the meta-network registered under `name`, inside a transform.

  Args:
    name: a key of `META_NETS`.
    **kwargs: passed to its constructor.

  Returns:
    A module called with `(inputs, axis_name)`.
  """
  return utils.lookup(META_NETS, name, 'meta-network')(**kwargs)
