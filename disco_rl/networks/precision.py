"""Mixed precision: networks that compute in half, with float32 parameters."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jmp

from disco_rl import types
from disco_rl.networks import observations as observations_lib


def with_policy(
  network: types.PolicyNetwork, policy: jmp.Policy
) -> types.PolicyNetwork:
  """Wraps a network to compute in another precision.

  Initial parameters are those of the network itself. Its state and outputs are
  in the policy's output precision, in which the rule and the loss are computed.

  Args:
    network: a network in float32.
    policy: a precision policy, e.g. `jmp.get_policy('params=float32,
      compute=bfloat16,output=float32')`.

  Returns:
    The network.
  """

  def wrap(apply: Callable[..., Any] | None) -> Any:
    if apply is None:
      return None

    def wrapped(
      params: Any, state: Any, observations: Any, *args: Any
    ) -> tuple[types.AgentOuts, types.HaikuState]:
      inputs = policy.cast_to_compute((params, state, observations))
      with observations_lib.computing_in(policy.compute_dtype):
        return policy.cast_to_output(apply(*inputs, *args))

    return wrapped

  unroll_reduced = wrap(network.unroll_reduced)

  def wrapped_reduced(
    params: Any,
    state: Any,
    observations: Any,
    should_reset: Any,
    reduce_fn: Callable[[Any], Any],
  ) -> tuple[Any, types.HaikuState]:
    return unroll_reduced(
      params,
      state,
      observations,
      should_reset,
      lambda outs: reduce_fn(policy.cast_to_output(outs)),
    )

  return types.PolicyNetwork(
    init=network.init,
    one_step=wrap(network.one_step),
    unroll=wrap(network.unroll),
    unroll_taken=wrap(network.unroll_taken),
    unroll_reduced=None if unroll_reduced is None else wrapped_reduced,
  )


def get_policy(name: str) -> jmp.Policy:
  """Makes a precision policy by name.

  Args:
    name: `'float32'`, `'bfloat16'` or `'float16'`, the precision of the
      computation, with parameters and outputs in float32; or a policy as in
      `jmp.get_policy`.

  Returns:
    The policy.
  """
  if '=' not in name:
    name = f'params=float32,compute={name},output=float32'
  try:
    policy = jmp.get_policy(name)
  except (KeyError, ValueError, TypeError) as error:
    raise ValueError(
      f'unknown precision {name!r} ({error}); accepted: float32, bfloat16, '
      "float16, or e.g. 'params=float32,compute=bfloat16,output=float32'"
    ) from None
  if policy.output_dtype != jnp.float32 or policy.param_dtype != jnp.float32:
    raise ValueError(
      f'precision {name!r}: only compute may be less precise than float32; '
      'params and output, which the rule and the loss use, must be float32'
    )
  return policy
