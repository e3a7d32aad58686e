"""Makes pure functions of Haiku modules."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax

from disco_rl import types
from disco_rl.networks import staged_unroll


def from_module(module: Callable[..., Any]) -> Callable[..., Any]:
  """Makes a network factory from a class of Haiku modules.

  Args:
    module: class of modules that are called with `(observations [B, ...],
      should_reset [B], actions [B] or None)`. A method `unroll` takes the same
      with a leading axis of time; without it, modules are called with
      trajectories, too. Methods `embed` and `predict` are optional, see
      `types.PolicyNetwork`. Their memory is Haiku state.

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
    apply_unroll: Any = unroll.apply
    embed = predict = None
    if _has_stages(module):
      embed = pure(lambda net, *inputs: net.embed(*inputs)).apply
      apply_predict = pure(lambda net, *inputs: net.predict(*inputs)).apply
      predict = lambda params, *inputs: apply_predict(params, {}, *inputs)[0]
      apply_unroll = staged_unroll.StagedUnroll(apply_unroll, embed, predict)
    return types.PolicyNetwork(
      # Compiled: initialising runs the whole network, one operation at a time.
      init=jax.jit(one_step.init),
      one_step=one_step.apply,
      unroll=apply_unroll,
      embed=embed,
      predict=predict,
    )

  return build


def _has_stages(module: Any) -> bool:
  """Returns whether a module has stages that fit its `unroll`.

  It does not if a subclass overrides only `unroll` or `__call__`.
  """
  stages = ('embed', 'predict')
  if not isinstance(module, type) or not all(
    hasattr(module, s) for s in stages
  ):
    return False
  owner = lambda name: next(c for c in module.__mro__ if name in vars(c))
  return all(
    issubclass(owner(stage), owner(name))
    for stage in stages
    for name in ('unroll', '__call__')
  )
