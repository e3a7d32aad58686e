"""The rule's network, with every input transformed by itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.update_rules import input_transforms


class MetaNet(hk.Module):
  """An LSTM backward over the trajectory, gated by a life-long LSTM."""

  def __init__(self, settings: Mapping[str, Any]):
    """Initialises the network.

    Args:
      settings: the arguments of `disco_rl.networks.meta_nets.LSTM`.
    """
    super().__init__(name='lstm')
    self._settings = settings
    self._life_long = _LifeLongLSTM(
      settings['input_option'], settings['meta_rnn_kwargs']
    )

  def __call__(self, inputs: types.UpdateRuleInputs) -> dict[str, jax.Array]:
    """Computes the targets of a trajectory and updates the life-long state.

    Args:
      inputs: the trajectory.

    Returns:
      `pi` [T, B, A], `y` [T, B, Y], `z` [T, B, Y], `meta_input_emb` [T, B, 1].
    """
    sizes = self._settings
    hidden_size, prediction_size = (
      sizes['hidden_size'],
      sizes['prediction_size'],
    )
    base, action_emb, _ = _embed(
      inputs,
      sizes['input_option'],
      sizes['embedding_size'],
      sizes['policy_channels'],
    )
    core = hk.ResetCore(hk.LSTM(hidden_size))
    x, _ = hk.dynamic_unroll(
      core,
      (base, inputs.should_reset_mask_bwd[:-1]),
      core.initial_state(base.shape[1]),
      reverse=True,
    )  # [T, B, H]

    zero_state: Any = self._life_long.initial_state()
    state: Any = hk.get_state('meta_rnn_state', (), init=lambda *_: zero_state)
    x *= hk.Linear(hidden_size)(state.hidden)

    meta_input_emb = hk.Linear(1)(x)
    y = hk.Linear(prediction_size)(x)
    z = hk.Linear(prediction_size)(x)
    num_actions = action_emb.shape[2]
    tiled = jnp.repeat(x[:, :, None], num_actions, axis=2)
    pi = _ActionBlocks(sizes['policy_target_channels'])(
      jnp.concatenate([tiled, action_emb], axis=-1)
    )
    pi = hk.Linear(1)(pi).squeeze(-1)

    outs = dict(pi=pi, y=y, z=z, meta_input_emb=meta_input_emb)
    hk.set_state('meta_rnn_state', self._life_long.unroll(inputs, outs, state))
    return outs


class _LifeLongLSTM(hk.Module):
  """An LSTM with one step per update."""

  def __init__(self, option: types.MetaNetInputOption, sizes: Any):
    super().__init__(name='meta_lstm')
    self._option = option
    self._sizes = sizes

  def initial_state(self) -> hk.LSTMState:
    zeros = jnp.zeros(self._sizes['hidden_size'])
    return hk.LSTMState(hidden=zeros, cell=zeros)

  # The method's name is part of the parameter names.
  def unroll(
    self,
    inputs: types.UpdateRuleInputs,
    outs: Mapping[str, jax.Array],
    state: hk.LSTMState,
  ) -> hk.LSTMState:
    base, _, y_net = _embed(
      inputs,
      self._option,
      self._sizes['pred_embedding_size'],
      self._sizes['policy_channels'],
    )
    y_hat = y_net(jax.nn.softmax(outs['y']))
    x = jnp.concatenate([base, outs['meta_input_emb'], y_hat], axis=-1)
    x = hk.nets.MLP(self._sizes['embedding_size'])(x).mean(axis=(0, 1))
    _, new_state = hk.LSTM(self._sizes['hidden_size'])(x, state)
    return new_state


class _ActionBlocks(hk.Module):
  """Blocks of a 1x1 convolution on [x, mean of x over actions], and ReLU."""

  def __init__(self, channels: Sequence[int]):
    super().__init__(name='sequential')
    self._channels = tuple(channels)

  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies the blocks, [T, B, A, C] to [T, B, A, channels[-1]]."""
    shape = x.shape[:3]
    x = x.reshape(-1, *x.shape[2:])  # [T * B, A, C]
    for channels in self._channels:
      mean = jnp.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
      x = jnp.concatenate([x, mean], axis=-1)
      x = jax.nn.relu(hk.Conv1D(channels, kernel_shape=1)(x))
    return x.reshape(*shape, -1)


def _embed(
  inputs: types.UpdateRuleInputs,
  option: types.MetaNetInputOption,
  embedding_size: Sequence[int],
  policy_channels: Sequence[int],
) -> tuple[jax.Array, jax.Array, Callable[[jax.Array], jax.Array]]:
  """Embeds all inputs, with parameters that belong to the calling module.

  Args:
    inputs: the trajectory.
    option: the inputs to read.
    embedding_size: layer sizes of the MLPs that embed y and z.
    policy_channels: channels of the blocks that embed inputs per action.

  Returns:
    Vectors [T, B, D], those of each action [T, B, A, C], and y's MLP.
  """
  networks: dict[str, Any] = dict(
    y_net=hk.nets.MLP(embedding_size), z_net=hk.nets.MLP(embedding_size)
  )
  actions = inputs.actions[:-1]
  policy = jax.lax.stop_gradient(jax.nn.softmax(inputs.agent_out['logits']))
  num_actions = policy.shape[-1]

  def read(config: types.TransformConfig, shape: tuple[int, ...]) -> jax.Array:
    x = input_transforms.get_source(inputs, config.source)
    for name in config.transforms:
      transform = input_transforms.get_transform(name, networks)
      x = transform(x, actions, policy, None)
    return x.reshape(*shape, -1).astype(jnp.float32)

  base = [read(config, actions.shape) for config in option.base]
  per_action = [
    read(config, (*actions.shape, num_actions))
    for config in option.action_conditional
  ]
  per_action.append(jax.nn.one_hot(actions, num_actions)[..., None])
  action_emb = _ActionBlocks(policy_channels)(jnp.concatenate(per_action, -1))
  base += [action_emb.mean(axis=2), utils.batch_lookup(action_emb, actions)]
  return jnp.concatenate(base, axis=-1), action_emb, networks['y_net']
