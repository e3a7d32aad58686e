"""Agent networks."""

from collections.abc import Callable, Mapping, Sequence
import math
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_models
from disco_rl.networks import initializers


class MLP(hk.Module):
  """A ReLU torso, one linear head per output, and an optional action model."""

  def __init__(
    self,
    out_spec: types.Specs,
    dense: Sequence[int],
    action_spec: types.ActionSpec | None,
    head_w_init_std: float | None,
    model_out_spec: types.Specs | None = None,
    model_arch_name: str | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    module_name: str | None = None,
  ):
    """Initialises the network.

    Args:
      out_spec: name to spec of one step's output, read off the torso.
      dense: layer sizes of the torso; no activation after the last one.
      action_spec: what the action model conditions on; unused without one.
      head_w_init_std: standard deviation of the heads' truncated-normal
        weights, None for Haiku's default.
      model_out_spec: name to spec of one action's output, from the action
        model.
      model_arch_name: see `action_models.get_action_model`.
      model_kwargs: keyword arguments of the action model.
      module_name: Haiku name, `'mlp'` by default.
    """
    super().__init__(name=module_name)
    self._out_spec = out_spec
    self._dense = tuple(dense)
    self._head_w_init = initializers.truncated_normal(head_w_init_std)
    self._action_model = None
    if model_out_spec:
      self._action_model = action_models.get_action_model(
        model_arch_name,
        action_spec=action_spec,
        out_spec=model_out_spec,
        **(model_kwargs or {}),
      )

  def __call__(
    self,
    observations: Any,
    should_reset: types.Array,
    actions: types.Array | None = None,
  ) -> dict[str, jax.Array]:
    """Applies the network.

    Args:
      observations: tree of [B, ...].
      should_reset: [B], unused: the network has no memory.
      actions: [B], the actions to predict for, or None for all.

    Returns:
      Name to [B, *spec.shape], or [B, A, *spec.shape] for the action model's
      if no actions are given.
    """
    del should_reset
    torso = self._embedding_pass(observations)
    outs = self._head_pass(torso)
    if self._action_model is not None:
      outs.update(self._action_model(torso, actions))
    return outs

  # The two method names are part of the parameter names.

  def _embedding_pass(self, observations: Any) -> jax.Array:
    flat = [
      jnp.asarray(x, jnp.float32).reshape(x.shape[0], -1)
      for x in jax.tree.leaves(observations)
    ]
    return hk.nets.MLP(self._dense, name='torso')(jnp.concatenate(flat, -1))

  def _head_pass(self, torso: jax.Array) -> dict[str, jax.Array]:
    outs = {}
    for name in sorted(self._out_spec):
      shape = tuple(self._out_spec[name].shape)
      head = hk.nets.MLP(
        (math.prod(shape),), w_init=self._head_w_init, name='torso_head'
      )
      outs[name] = head(torso).reshape(torso.shape[:1] + shape)
    return outs


def feed_forward(module: Callable[..., Any]) -> Callable[..., Any]:
  """Makes a network factory out of a memoryless module class.

  Args:
    module: class of modules called with `(observations [B, ...],
      should_reset [B], actions [B] or None)`.

  Returns:
    A function from the module's constructor arguments to a `PolicyNetwork`.
  """

  def build(*args: Any, **kwargs: Any) -> types.PolicyNetwork:
    def one_step(*inputs: Any) -> Any:
      return module(*args, **kwargs)(*inputs)

    def unroll(*inputs: Any) -> Any:
      return hk.BatchApply(one_step)(*inputs)

    # Both functions have the same parameters, so either can initialise them.
    step_net: Any = hk.without_apply_rng(hk.transform_with_state(one_step))
    unroll_net: Any = hk.without_apply_rng(hk.transform_with_state(unroll))
    return types.PolicyNetwork(
      # Compiled: initialising runs the whole network, one operation at a time.
      init=jax.jit(step_net.init),
      one_step=step_net.apply,
      unroll=unroll_net.apply,
      unroll_taken=unroll_net.apply,
    )

  return build


NETWORKS: dict[str, Callable[..., types.PolicyNetwork]] = {
  'mlp': feed_forward(MLP)
}


def get_network(name: str, *args: Any, **kwargs: Any) -> types.PolicyNetwork:
  """Builds the agent network registered under `name`.

  Args:
    name: a key of `NETWORKS`.
    *args: passed to its constructor.
    **kwargs: passed to its constructor; see `MLP` for `'mlp'`.

  Returns:
    Pure functions; see `types.PolicyNetwork`.
  """
  return utils.lookup(NETWORKS, name, 'network')(*args, **kwargs)
