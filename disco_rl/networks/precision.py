"""Networks that compute in half precision, with parameters in full."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jmp

from disco_rl import types
from disco_rl.networks import observations as observations_lib


def with_policy(
  network: types.PolicyNetwork, policy: jmp.Policy
) -> types.PolicyNetwork:
  """The same network, computing in another precision.

  Initial parameters are those of the network itself. What it carries from step
  to step and what it returns are in the policy's output precision, so that the
  loss and the rule never see any other.

  Args:
    network: in full precision.
    policy: e.g. `jmp.get_policy('params=float32,compute=bfloat16,
      output=float32')`.

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

  return types.PolicyNetwork(
    init=network.init,
    one_step=wrap(network.one_step),
    unroll=wrap(network.unroll),
    unroll_taken=wrap(network.unroll_taken),
  )


def get_policy(name: str) -> jmp.Policy:
  """A policy by name.

  Args:
    name: `'float32'`, `'bfloat16'` or `'float16'` for computing in it with
      parameters and outputs in float32; or as `jmp.get_policy` reads it.

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
      f'precision {name!r}: only what is computed with can be in less than '
      'float32; parameters and outputs, which the rule and the loss see, '
      'cannot'
    )
  return policy
