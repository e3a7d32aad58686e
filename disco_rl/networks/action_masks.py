"""Action masks: which actions are legal, and what becomes of all others.

Wherever a policy is read, the logits of illegal actions are `ILLEGAL_LOGIT`. It
is finite, so that no derivative of any order is NaN, and so low that their
probabilities are exactly 0: terms such as `p·log p` are then 0, too. Averages
over actions are over the legal ones.

A mask is True for legal actions. Without one, None, all functions return their
argument.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types

ILLEGAL_LOGIT = -1e9


def check(mask: Any, logits: types.Array) -> None:
  """Raises a `ValueError` for the mask of a rollout that cannot be used.

  Args:
    mask: the mask, or None.
    logits: [T+1, B, A], those of the policy that acted, or of the agent.
  """
  if mask is None:
    return
  dtype = getattr(mask, 'dtype', type(mask).__name__)
  if np.shape(mask) != np.shape(logits) or dtype != np.bool_:
    raise ValueError(
      'rollout.action_mask must be None or booleans of the shape of the '
      f'logits, {np.shape(logits)}; got {dtype} of the shape {np.shape(mask)}'
    )


def mask_logits(logits: types.Array, mask: types.Array | None) -> Any:
  """Replaces the logits of illegal actions.

  Args:
    logits: [..., A], also those that are masked already.
    mask: [..., A], bool, or None.

  Returns:
    [..., A], of which the softmax is 0 for illegal actions. Their gradients
    are 0.
  """
  if mask is None:
    return logits
  logits = jnp.asarray(logits)
  lowest = float(jnp.finfo(logits.dtype).min) / 2  # Of half precision.
  illegal = jnp.asarray(max(ILLEGAL_LOGIT, lowest), logits.dtype)
  return jnp.where(mask, logits, illegal)


def mask_outputs(outs: types.AgentOuts, mask: types.Array | None) -> Any:
  """Masks the policy among a network's outputs.

  Args:
    outs: name to [..., *rest], with `logits` [..., A].
    mask: [..., A], bool, or None.

  Returns:
    The outputs by name.
  """
  if mask is None:
    return outs
  return {**outs, 'logits': mask_logits(outs['logits'], mask)}


def mask_unroll(
  unroll_fn: types.AgentUnrollFn, mask: types.Array | None
) -> types.AgentUnrollFn:
  """Makes an unroll function whose policy is masked.

  Args:
    unroll_fn: the unroll function.
    mask: [T+1, B, A], bool, that of the trajectory it is applied to, or None.

  Returns:
    A function of the same arguments.
  """
  if mask is None:
    return unroll_fn

  def unroll(
    *inputs: Any, **more: Any
  ) -> tuple[types.AgentOuts, types.HaikuState]:
    outs, state = unroll_fn(*inputs, **more)
    return mask_outputs(outs, mask), state

  return unroll


def mask_rollout(rollout: types.ActorRollout) -> types.ActorRollout:
  """Masks the policy that acted, for rollouts that are not from `Agent`.

  Args:
    rollout: leaves [T+1, B, ...].

  Returns:
    The rollout.
  """
  if rollout.action_mask is None:
    return rollout
  return rollout.replace(
    agent_outs=mask_outputs(rollout.agent_outs, rollout.action_mask),
    logits=mask_logits(rollout.logits, rollout.action_mask),
  )


def mask_inputs(rollout: types.UpdateRuleInputs) -> types.UpdateRuleInputs:
  """Masks the policies among the inputs of a rule.

  Args:
    rollout: the inputs.

  Returns:
    The inputs, with masked logits of the agent and of the policy that acted.
  """
  if rollout.action_mask is None:
    return rollout
  masked = {}
  for name in ('agent_out', 'behaviour_agent_out'):
    outs = rollout[name] or {}
    if 'logits' in outs:  # Rules say what is missing.
      check(rollout.action_mask, outs['logits'])
      masked[name] = mask_outputs(outs, rollout.action_mask)
  return rollout.replace(**masked)


def fill(x: types.Array, mask: types.Array | None, value: float) -> Any:
  """Replaces what belongs to illegal actions.

  Args:
    x: [T, B, A, ...].
    mask: [T or T+1, B, A], bool, or None; only the first T steps count.
    value: the number to put there.

  Returns:
    [T, B, A, ...].
  """
  if mask is None:
    return x
  return jnp.where(_as(mask, x), x, jnp.asarray(value, jnp.result_type(x)))


def mean(x: types.Array, mask: types.Array | None) -> jax.Array:
  """Averages over the legal actions.

  Args:
    x: [T, B, A, ...].
    mask: [T or T+1, B, A], bool, or None; only the first T steps count.

  Returns:
    [T, B, ...].
  """
  x = jnp.asarray(x)
  if mask is None:
    return x.mean(axis=2)
  number = jnp.sum(_as(mask, x), axis=2)
  # A mask from outside of the library may be empty.
  return jnp.sum(fill(x, mask, 0.0), axis=2) / jnp.maximum(number, 1)


def mean_over_all(x: types.Array, mask: types.Array | None) -> jax.Array:
  """Averages over steps and legal actions; every step has the same weight.

  Args:
    x: [T, B, A].
    mask: [T or T+1, B, A], bool, or None.

  Returns:
    [], the average.
  """
  return jnp.mean(x if mask is None else mean(x, mask))


def sample(rng: chex.PRNGKey, mask: types.Array) -> jax.Array:
  """Chooses legal actions, all with the same probability.

  Args:
    rng: key; it is not split.
    mask: [..., A], bool.

  Returns:
    [...], int32.
  """
  logits = mask_logits(jnp.zeros(jnp.shape(mask)), mask)
  return jax.random.categorical(rng, logits).astype(jnp.int32)


def _as(mask: types.Array, x: types.Array) -> jax.Array:
  """Returns the mask of the steps of `x`, with its number of dimensions."""
  shape = jnp.shape(x)
  own = jnp.asarray(mask)[: shape[0]]
  return own.reshape(own.shape + (1,) * (len(shape) - own.ndim))
