"""Checks networks of users, before they are used."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types

_FUNCTIONS = ('init', 'one_step', 'unroll')
_OPTIONAL = ('embed', 'predict')


def check_network(network: Any, words: str, takes_function: bool) -> None:
  """Raises a `ValueError` for objects that are not networks.

  Args:
    network: a `types.PolicyNetwork`, with all its functions.
    words: the beginning of an error message, e.g. `'network is'`.
    takes_function: whether it may be an unroll function instead.
  """
  wanted = 'a disco_rl.types.PolicyNetwork'
  if not isinstance(network, types.PolicyNetwork):
    # A class would make objects, and an object with such methods resembles a
    # network, but would be called as a function.
    is_like = any(hasattr(network, x) for x in (*_FUNCTIONS, *_OPTIONAL))
    is_function = callable(network) and not isinstance(network, type)
    if takes_function and is_function and not is_like:
      return
    raise ValueError(
      f'{words} {_show(network)}, but {wanted}'
      f'{" or an unroll function" if takes_function else ""} is needed'
    )
  for name in (*_FUNCTIONS, *_OPTIONAL):
    function = getattr(network, name, None)
    if not callable(function) and (name in _FUNCTIONS or function is not None):
      raise ValueError(
        f'{words} a PolicyNetwork whose {name} is {fields.shorten(function)}, '
        'not a function'
      )


def check_result(result: Any, name: str) -> None:
  """Raises a `ValueError` unless a network returned outputs and a state.

  Args:
    result: what it returned.
    name: the function that was called, for the message.
  """
  is_pair = isinstance(result, tuple | list) and len(result) == 2
  if not is_pair or not isinstance(result[0], Mapping):
    raise ValueError(
      f'{name} of the network must return outputs by name and the next state, '
      f'but returned {_show(result)}'
    )


def check_outputs(
  outs: Mapping[str, Any], spec: types.Specs, dims: tuple[int, ...], name: str
) -> None:
  """Raises a `ValueError` for outputs that are not those of a rule.

  Args:
    outs: the outputs, by name; there may be others.
    spec: specs of the outputs that the rule needs, without leading dimensions.
    dims: the leading dimensions, [B] or [T+1, B].
    name: the function that was called, for the message.
  """
  wanted = {key: (*dims, *own.shape) for key, own in spec.items()}
  given = {key: np.shape(out) for key, out in outs.items()}
  for key, shape in wanted.items():
    if given.get(key) != shape:
      raise ValueError(
        f'{name} of the network predicts {fields.shorten(given)}, but the rule '
        f'needs {key} of the shape {shape} (of {fields.shorten(wanted)})'
      )
    dtype = jnp.result_type(outs[key])
    if not jnp.issubdtype(dtype, jnp.floating):
      raise ValueError(
        f'{name} of the network predicts {key} as {dtype}, but floating-point '
        'numbers are needed'
      )


def checked_unroll(
  unroll: types.AgentUnrollFn,
  spec_of: Callable[[types.ActionSpec], types.Specs],
) -> types.AgentUnrollFn:
  """Returns an unroll function whose outputs are checked when it is traced.

  Args:
    unroll: the function.
    spec_of: the rule's `agent_output_spec`.
  """

  def checked(
    params: Any, state: Any, observations: Any, should_reset: types.Array
  ) -> tuple[types.AgentOuts, Any]:
    result = unroll(params, state, observations, should_reset)
    check_result(result, 'unroll')
    outs: Mapping[str, Any] = result[0]
    spec = spec_of(_action_spec(outs))
    check_outputs(outs, spec, np.shape(should_reset), 'unroll')
    return result

  return checked


def checked_embed(embed: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a stage `embed` whose result is checked when it is traced.

  Args:
    embed: the stage, see `types.PolicyNetwork`.
  """

  def checked(
    params: Any, state: Any, observations: Any, should_reset: types.Array
  ) -> tuple[types.Array, Any]:
    result = embed(params, state, observations, should_reset)
    is_pair = isinstance(result, tuple | list) and len(result) == 2
    steps = np.shape(should_reset)
    # Trees have no shape.
    shape = getattr(result[0], 'shape', ()) if is_pair else ()
    if len(shape) != 3 or shape[:2] != steps:
      raise ValueError(
        'embed of the network must return an array of the shape '
        f'({steps[0]}, {steps[1]}, D) and the next state, but returned '
        f'{_show(result)}{f" with the shape {shape}" if shape else ""}'
      )
    return result

  return checked


def checked_predict(
  predict: Callable[..., Any],
  spec_of_all: Callable[[types.ActionSpec], types.Specs],
  spec_of_one: Callable[[types.ActionSpec], types.Specs],
) -> Callable[..., types.AgentOuts]:
  """Returns a stage `predict` whose outputs are checked when it is traced.

  Args:
    predict: the stage, see `types.PolicyNetwork`.
    spec_of_all: outputs for all actions, the rule's `agent_output_spec`.
    spec_of_one: outputs for one action.
  """

  def checked(
    params: Any, embedding: types.Array, actions: types.Array | None
  ) -> types.AgentOuts:
    outs = predict(params, embedding, actions)
    if not isinstance(outs, Mapping):
      raise ValueError(
        'predict of the network must return outputs by name, but returned '
        f'{_show(outs)}'
      )
    spec_of = spec_of_all if actions is None else spec_of_one
    check_outputs(
      outs, spec_of(_action_spec(outs)), embedding.shape[:-1], 'predict'
    )
    return outs

  return checked


def _action_spec(outs: Mapping[str, Any]) -> types.ActionSpec:
  """Returns the spec of as many actions as there are logits."""
  logits = np.shape(outs.get('logits', 0))
  num_actions = max(1, logits[-1]) if logits else 1
  return types.ActionSpec((), jnp.int32, 0, num_actions - 1)


def check_state(before: Any, after: Any, name: str) -> None:
  """Raises a `ValueError` if a step changes the structure of a network's state.

  Args:
    before: the state before the step, specs or arrays.
    after: the state after it.
    name: the function that was called, for the message.
  """
  shapes = [
    jax.tree.map(lambda x: (np.shape(x), jnp.result_type(x)), state)
    for state in (before, after)
  ]
  if shapes[0] != shapes[1]:
    raise ValueError(
      f'{name} of the network returned a state {fields.shorten(shapes[1])}, '
      f'but that of init is {fields.shorten(shapes[0])}'
    )


def _show(value: Any) -> str:
  """Returns words for an object or for what a function returned."""
  if isinstance(value, type):
    return f'the class {value.__name__}'
  if isinstance(value, tuple | list):
    kinds = ', '.join(type(x).__name__ for x in value[:5])
    return f'a {type(value).__name__} of {len(value)} ({kinds})'
  if value is None or isinstance(value, str | int | float):
    return fields.shorten(value)
  return f'an object of the type {type(value).__name__}'
