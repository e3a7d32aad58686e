"""Mixed precision: networks that compute in half, with float32 parameters."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jmp

from disco_rl import types
from disco_rl.networks import observations as observations_lib
from disco_rl.networks import staged_unroll

# Precisions to compute in; 64 bits are not enabled in JAX.
_COMPUTE = (jnp.float32, jnp.bfloat16, jnp.float16)


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

  def wrap(apply: Callable[..., Any]) -> Any:
    def wrapped(
      params: Any, state: Any, observations: Any, *args: Any
    ) -> tuple[Any, types.HaikuState]:
      inputs = policy.cast_to_compute((params, state, observations))
      with observations_lib.computing_in(policy.compute_dtype):
        return policy.cast_to_output(apply(*inputs, *args))

    return wrapped

  unroll = wrap(network.unroll)
  embed = predict = None
  if network.embed is not None and network.predict is not None:
    embed, apply_predict = wrap(network.embed), network.predict

    def predict(
      params: Any, embedding: Any, actions: Any = None
    ) -> types.AgentOuts:
      inputs = policy.cast_to_compute((params, embedding))
      return policy.cast_to_output(apply_predict(*inputs, actions))

    unroll = staged_unroll.StagedUnroll(unroll, embed, predict)
  return types.PolicyNetwork(
    init=network.init,
    one_step=wrap(network.one_step),
    unroll=unroll,
    embed=embed,
    predict=predict,
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
  if policy.compute_dtype not in _COMPUTE:
    raise ValueError(
      f'precision {name!r}: networks compute in float32, bfloat16 or float16'
    )
  if policy.output_dtype != jnp.float32 or policy.param_dtype != jnp.float32:
    raise ValueError(
      f'precision {name!r}: only compute may be less precise than float32; '
      'params and output, which the rule and the loss use, must be float32'
    )
  return policy
