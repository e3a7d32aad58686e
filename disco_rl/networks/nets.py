"""Agent networks: a torso, perhaps a memory, and one head per output.

Networks are found by the name of their torso (`torsos.TORSOS`), or among
`NETWORKS`; all of them take the same keyword arguments besides those of the
torso.
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
from disco_rl.networks import cores
from disco_rl.networks import initializers
from disco_rl.networks import precision as precision_lib
from disco_rl.networks import torsos


class MLPHeadNet(hk.Module):
  """Core, one linear head per output, and an action model, around a torso.

  The torso is the method `_embedding_pass` of a subclass. The network works on
  one step of a batch, [B, ...], and on a trajectory, [T, B, ...], alike.
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
      out_spec: name to spec of one step's output, read off the torso.
      action_spec: what the action model conditions on; unused without one.
      head_w_init_std: standard deviation of the heads' truncated-normal
        weights, None for Haiku's default.
      model_out_spec: name to spec of one action's output, from the action
        model.
      model_arch_name: see `action_models.get_action_model`.
      model_kwargs: keyword arguments of the action model.
      module_name: Haiku name, that of the class by default.
      core: name of a memory, see `cores.CORES`; None for none.
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
  ) -> dict[str, jax.Array]:
    """Applies the network.

    Args:
      inputs: observations, tree of [T, B, ...] or [B, ...].
      should_reset: [T, B] or [B], where the memory is cleared first. None for
        one step, [B], and no resets.
      actions: [T, B] or [B], the actions to predict for, or None for all.

    Returns:
      Name to [T, B, *spec.shape] or [B, *spec.shape], with an axis of actions
      before the spec's for the action model's if no actions are given.
    """
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
    outs = self._head_pass(embedding)
    if self._action_model is not None:
      actions = None if actions is None else merge(actions)
      outs.update(self._action_model(embedding, actions))
    return {name: x.reshape(shape + x.shape[1:]) for name, x in outs.items()}

  def unroll(
    self,
    inputs: Any,
    should_reset: types.Array | None = None,
    actions: types.Array | None = None,
  ) -> dict[str, jax.Array]:
    """Applies the network along a trajectory.

    Args:
      inputs: observations, tree of [T, B, ...].
      should_reset: [T, B], where the memory is cleared first; None for nowhere.
      actions: [T, B], the actions to predict for, or None for all.

    Returns:
      As of a call.
    """
    if should_reset is None:
      should_reset = _no_resets(inputs, num_dims=2)
    return self(inputs, should_reset, actions)

  # The two method names are part of the parameter names.

  @abc.abstractmethod
  def _embedding_pass(self, observations: Any) -> jax.Array:
    """The torso: tree of [N, ...] to [N, D]."""

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
    """[T, B, D] to [T, B, H]; the memory is part of the Haiku state."""
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
      *args: those of `MLPHeadNet`.
      **kwargs: those of `MLPHeadNet`.
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
      out_spec: as of `MLPHeadNet`.
      dense: layer sizes of the torso; no activation after the last one.
      action_spec: as of `MLPHeadNet`.
      head_w_init_std: as of `MLPHeadNet`.
      model_out_spec: as of `MLPHeadNet`.
      model_arch_name: as of `MLPHeadNet`.
      model_kwargs: as of `MLPHeadNet`.
      module_name: Haiku name, `'mlp'` by default.
      core: as of `MLPHeadNet`.
      core_kwargs: as of `MLPHeadNet`.
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
  """Zeros of the leading dimensions of observations."""
  return jnp.zeros(jnp.shape(jax.tree.leaves(inputs)[0])[:num_dims], bool)


def from_module(module: Callable[..., Any]) -> Callable[..., Any]:
  """Makes a network factory out of a class of Haiku modules.

  Args:
    module: class of modules called with `(observations [B, ...], should_reset
      [B], actions [B] or None)`. Its method `unroll` takes the same with a
      leading axis of time; without one, trajectories too are for the call. What
      the modules remember is Haiku state.

  Returns:
    A function from the module's constructor arguments to a `PolicyNetwork`.
  """

  def build(*args: Any, **kwargs: Any) -> types.PolicyNetwork:
    def pure(method: Callable[..., Any]) -> Any:
      return hk.without_apply_rng(
        hk.transform_with_state(
          lambda *inputs: method(module(*args, **kwargs), *inputs)
        )
      )

    one_step = pure(lambda net, *inputs: net(*inputs))
    unroll = pure(
      lambda net, *inputs: getattr(net, 'unroll', net.__call__)(*inputs)
    )
    return types.PolicyNetwork(
      # Compiled: initialising runs the whole network, one operation at a time.
      init=jax.jit(one_step.init),
      one_step=one_step.apply,
      unroll=unroll.apply,
      unroll_taken=unroll.apply,
    )

  return build


# Besides the torsos: name to a function from the keyword arguments that
# `get_network` was given to a network. See `register_network`.
NETWORKS: dict[str, Callable[..., types.PolicyNetwork]] = {
  'mlp': from_module(MLP)
}


def register_network(
  name: str, build: Callable[..., types.PolicyNetwork]
) -> None:
  """Adds an agent network of your own, in any library.

  To change only what comes before the heads, register a torso instead, see
  `torsos.register_torso`.

  Args:
    name: by which it will be known, e.g. to `--net`. Registering a name again
      replaces what it stood for; those of the library itself are taken.
    build: called with the keyword arguments `out_spec`, `action_spec` and
      `model_out_spec` (see `AgentNet`) and those of its own, which need
      defaults and become settings (`agent.net_settings.net_args`); returns a
      `types.PolicyNetwork` whose outputs are those of both specs, the latter's
      with an axis of actions in front.
  """
  utils.check_name(name, 'network', {'mlp', *torsos.TORSOS})
  if not callable(build):
    raise ValueError(
      f'register_network wants a function that returns a PolicyNetwork, got '
      f'{build!r}'
    )
  NETWORKS[name] = build


def get_network(
  name: str, *args: Any, precision: str = 'float32', **kwargs: Any
) -> types.PolicyNetwork:
  """Builds the agent network registered under `name`.

  Args:
    name: a key of `NETWORKS` or of `torsos.TORSOS`.
    *args: passed to its constructor.
    precision: in which to compute, `'float32'` or e.g. `'bfloat16'`; parameters
      and outputs are float32 in any case. See `precision.get_policy`.
    **kwargs: passed to its constructor: those of the torso, and those of
      `MLPHeadNet`.

  Returns:
    Pure functions; see `types.PolicyNetwork`.
  """
  known = {name: _with_torso(name) for name in torsos.TORSOS} | NETWORKS
  network = utils.lookup(known, name, 'network')(*args, **kwargs)
  if precision == 'float32':
    return network
  return precision_lib.with_policy(network, precision_lib.get_policy(precision))


def _with_torso(name: str) -> Callable[..., types.PolicyNetwork]:
  """A network factory around a torso; its arguments are told apart by name."""

  def build(**kwargs: Any) -> types.PolicyNetwork:
    signature = inspect.signature(MLPHeadNet.__init__)
    net_kwargs = {k: v for k, v in kwargs.items() if k in signature.parameters}
    torso_kwargs = {k: v for k, v in kwargs.items() if k not in net_kwargs}
    net_kwargs.setdefault('module_name', name)
    torso = lambda: torsos.TORSOS[name](**torso_kwargs)
    return from_module(AgentNet)(torso, **net_kwargs)

  return build
