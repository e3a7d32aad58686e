"""Agent networks: a torso, an optional memory, and one head per output.

A network is built by the name of its torso (`torsos.TORSOS`) or by its own name
in `NETWORKS`. Networks around a torso take the keyword arguments of the torso
and those of `MLPHeadNet`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
import inspect
import math
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_models
from disco_rl.networks import checks
from disco_rl.networks import cores
from disco_rl.networks import initializers
from disco_rl.networks import precision as precision_lib
from disco_rl.networks import pure
from disco_rl.networks import torsos


class MLPHeadNet(hk.Module):
  """A torso with an optional core, one linear head per output, an action model.

  The torso is the method `_embedding_pass` of a subclass. The network is
  applied to one step of a batch, [B, ...], or to a trajectory, [T, B, ...].
  """

  def __init__(
    self,
    out_spec: types.Specs,
    action_spec: types.ActionSpec | None,
    head_w_init_std: float | None,
    model_out_spec: types.Specs | None = None,
    model_arch_name: str | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    module_name: str | None = None,
    core: str | None = None,
    core_kwargs: Mapping[str, Any] | None = None,
  ):
    """Initialises the network.

    Args:
      out_spec: name to spec of one step's output, predicted by a linear head.
      action_spec: the actions of the action model; unused without one.
      head_w_init_std: standard deviation of the heads' truncated-normal
        weights, None for Haiku's default.
      model_out_spec: name to spec of one action's output, from the action
        model.
      model_arch_name: see `action_models.get_action_model`.
      model_kwargs: keyword arguments of the action model.
      module_name: Haiku name, that of the class by default.
      core: name of the memory, a key of `cores.CORES`; None for no memory.
      core_kwargs: keyword arguments of the core.
    """
    super().__init__(name=module_name)
    self._out_spec = out_spec
    self._head_w_init = initializers.truncated_normal(head_w_init_std)
    self._core = None
    if core is not None:
      build = utils.lookup(cores.CORES, core, 'core')
      self._core = build(**(core_kwargs or {}))
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
    inputs: Any,
    should_reset: types.Array | None = None,
    actions: types.Array | None = None,
    stage: str | None = None,
  ) -> Any:
    """Applies the network, or one of its two stages.

    Both stages are in this method, since the names of other methods would
    become part of the parameter names.

    Args:
      inputs: observations, tree of [T, B, ...] or [B, ...]; embeddings [..., D]
        for the stage `'predict'`.
      should_reset: [T, B] or [B], True where the memory is reset before the
        step. None for one step, [B], and no resets.
      actions: [T, B] or [B], the actions to predict for; None for all actions.
      stage: None for both stages, `'embed'` or `'predict'`; see the methods of
        these names.

    Returns:
      Name to [T, B, *spec.shape] or [B, *spec.shape]. Without `actions`, the
      outputs of the action model have an axis of actions before `spec.shape`.
      For the stage `'embed'`, the embedding, [T, B, D] or [B, D].
    """
    if stage == 'predict':
      shape, embedding = inputs.shape[:-1], inputs.reshape(-1, inputs.shape[-1])
    else:
      if should_reset is None:
        should_reset = _no_resets(inputs, num_dims=1)
      shape = jnp.shape(should_reset)
      merge = lambda x: jnp.asarray(x).reshape(-1, *x.shape[len(shape) :])
      embedding = self._embedding_pass(jax.tree.map(merge, inputs))
      if self._core is not None:
        embedding = self._core_pass(
          embedding.reshape(-1, shape[-1], embedding.shape[-1]),
          jnp.reshape(should_reset, (-1, shape[-1])),
        )
        embedding = embedding.reshape(-1, embedding.shape[-1])
      if stage == 'embed':
        return embedding.reshape(*shape, -1)
    outs = self._head_pass(embedding)
    if self._action_model is not None:
      if actions is not None:
        actions = jnp.reshape(actions, -1)
      outs.update(self._action_model(embedding, actions))
    return jax.tree.map(lambda x: x.reshape(shape + x.shape[1:]), outs)

  def unroll(
    self,
    inputs: Any,
    should_reset: types.Array | None = None,
    actions: types.Array | None = None,
  ) -> dict[str, jax.Array]:
    """Applies the network along a trajectory.

    Args:
      inputs: observations, tree of [T, B, ...].
      should_reset: [T, B], True where the memory is reset before the step; None
        for no resets.
      actions: [T, B], the actions to predict for; None for all actions.

    Returns:
      The outputs, as in `__call__`.
    """
    if should_reset is None:
      should_reset = _no_resets(inputs, num_dims=2)
    return self(inputs, should_reset, actions)

  def embed(
    self, inputs: Any, should_reset: types.Array | None = None
  ) -> jax.Array:
    """Applies torso and memory along a trajectory.

    Args:
      inputs: see `unroll`.
      should_reset: see `unroll`.

    Returns:
      [T, B, D], which `predict` computes the outputs from.
    """
    if should_reset is None:
      should_reset = _no_resets(inputs, num_dims=2)
    return self(inputs, should_reset, stage='embed')

  def predict(
    self, embedding: jax.Array, actions: types.Array | None = None
  ) -> dict[str, jax.Array]:
    """Computes the outputs from embeddings, each row separately.

    Args:
      embedding: [..., D].
      actions: [...], the actions to predict for; None for all actions.

    Returns:
      The outputs, as in `__call__`.
    """
    return self(embedding, None, actions, stage='predict')

  # The two method names are part of the parameter names.

  @abc.abstractmethod
  def _embedding_pass(self, observations: Any) -> jax.Array:
    """Applies the torso, from a tree of [N, ...] to [N, D]."""

  def _head_pass(self, torso: jax.Array) -> dict[str, jax.Array]:
    outs = {}
    for name in sorted(self._out_spec):
      shape = tuple(self._out_spec[name].shape)
      head = hk.nets.MLP(
        (math.prod(shape),), w_init=self._head_w_init, name='torso_head'
      )
      outs[name] = head(torso).reshape(torso.shape[:1] + shape)
    return outs

  def _core_pass(
    self, embedding: jax.Array, should_reset: jax.Array
  ) -> jax.Array:
    """Applies the core, [T, B, D] to [T, B, H]; its memory is Haiku state."""
    assert self._core is not None
    initial: Any = self._core.initial_state(should_reset.shape[1])
    state: Any = hk.get_state('core', (), init=lambda *_: initial)
    given, needed = jax.tree.map(jnp.shape, (state, initial))
    if given != needed:
      raise ValueError(
        f'the state of the memory has shapes {given}, but {needed} are needed '
        f'for a batch of {should_reset.shape[1]}'
      )
    embedding, state = self._core(embedding, should_reset, state)
    hk.set_state('core', state)
    return embedding


class AgentNet(MLPHeadNet):
  """An `MLPHeadNet` around any torso."""

  def __init__(self, torso: Callable[[], Any], *args: Any, **kwargs: Any):
    """Initialises the network.

    Args:
      torso: makes the torso, see `torsos.py`.
      *args: see `MLPHeadNet`.
      **kwargs: see `MLPHeadNet`.
    """
    super().__init__(*args, **kwargs)
    self._make_torso = torso

  def _embedding_pass(self, observations: Any) -> jax.Array:
    return self._make_torso()(observations)


class MLP(MLPHeadNet):
  """An `MLPHeadNet` with a ReLU torso on the flattened observation."""

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
    core: str | None = None,
    core_kwargs: Mapping[str, Any] | None = None,
  ):
    """Initialises the network.

    Args:
      out_spec: see `MLPHeadNet`.
      dense: layer sizes of the torso; no activation after the last one.
      action_spec: see `MLPHeadNet`.
      head_w_init_std: see `MLPHeadNet`.
      model_out_spec: see `MLPHeadNet`.
      model_arch_name: see `MLPHeadNet`.
      model_kwargs: see `MLPHeadNet`.
      module_name: Haiku name, `'mlp'` by default.
      core: see `MLPHeadNet`.
      core_kwargs: see `MLPHeadNet`.
    """
    super().__init__(
      out_spec,
      action_spec,
      head_w_init_std,
      model_out_spec,
      model_arch_name,
      model_kwargs,
      module_name,
      core,
      core_kwargs,
    )
    self._dense = dense

  def _embedding_pass(self, observations: Any) -> jax.Array:
    return torsos.mlp_torso(self._dense)(observations)


def _no_resets(inputs: Any, num_dims: int) -> jax.Array:
  """Makes a mask of False with the leading dimensions of observations."""
  return jnp.zeros(jnp.shape(jax.tree.leaves(inputs)[0])[:num_dims], bool)


# Networks besides those of `torsos.TORSOS`: name to a function that builds a
# network from the arguments of `get_network`. See `register_network`.
NETWORKS: dict[str, Callable[..., types.PolicyNetwork]] = {
  'mlp': pure.from_module(MLP)
}


def register_network(
  name: str, build: Callable[..., types.PolicyNetwork]
) -> None:
  """Registers an agent network of your own, written in any library.

  To replace only the torso, see `torsos.register_torso`.

  Args:
    name: its name, e.g. for `--net`. Registering a name again replaces the
      earlier network; built-in names cannot be replaced.
    build: called with the keyword arguments `out_spec`, `action_spec` and
      `model_out_spec` (see `MLPHeadNet`); returns a `types.PolicyNetwork` with
      the outputs of both specs, those of `model_out_spec` with an axis of
      actions in front. Further arguments need defaults and become settings
      (`agent.net_settings.net_args`).
  """
  utils.check_name(name, 'network', {'mlp', *torsos.TORSOS})
  if not callable(build):
    raise ValueError(
      f'register_network needs a function that returns a PolicyNetwork, got '
      f'{build!r}'
    )
  NETWORKS[name] = build


def get_network(
  name: str, *args: Any, precision: str = 'float32', **kwargs: Any
) -> types.PolicyNetwork:
  """Builds the agent network registered under `name`.

  Args:
    name: a key of `NETWORKS` or of `torsos.TORSOS`.
    *args: positional arguments of its constructor; networks around a torso take
      keyword arguments only.
    precision: precision of the computation, `'float32'` or e.g. `'bfloat16'`;
      parameters and outputs are always float32. See `precision.get_policy`.
    **kwargs: keyword arguments of its constructor: those of the torso and of
      `MLPHeadNet`.

  Returns:
    Pure functions; see `types.PolicyNetwork`.
  """
  known = {name: _with_torso(name) for name in torsos.TORSOS} | NETWORKS
  network = utils.lookup(known, name, 'network')(*args, **kwargs)
  checks.check_network(network, f'the network {name} made', False)
  if precision == 'float32':
    return network
  return precision_lib.with_policy(network, precision_lib.get_policy(precision))


def _with_torso(name: str) -> Callable[..., types.PolicyNetwork]:
  """Makes a network factory around a torso; splits its arguments by name."""

  def build(**kwargs: Any) -> types.PolicyNetwork:
    signature = inspect.signature(MLPHeadNet.__init__)
    net_kwargs = {k: v for k, v in kwargs.items() if k in signature.parameters}
    torso_kwargs = {k: v for k, v in kwargs.items() if k not in net_kwargs}
    net_kwargs.setdefault('module_name', name)
    torso = lambda: torsos.TORSOS[name](**torso_kwargs)
    return pure.from_module(AgentNet)(torso, **net_kwargs)

  return build
