"""Shape checks of a rule's inputs, with errors that name the field."""

from typing import Any

import jax
import numpy as np

from disco_rl import types
from disco_rl.networks import action_masks


def check_update_rule_inputs(rollout: types.UpdateRuleInputs) -> None:
  """Raises a `ValueError` unless fields are [T, B, ...] or [T+1, B, ...].

  Args:
    rollout: T and B must be at least 1; see `types.UpdateRuleInputs` for which
      field has T steps and which T+1.
  """
  shape = np.shape(rollout.rewards)
  if len(shape) != 2 or 0 in shape:
    raise ValueError(
      'rollout.rewards must be [T, B] with T and B at least 1, got '
      f'shape {shape}'
    )
  check_leading_dims('rollout.is_terminal', rollout.is_terminal, shape)
  longer = (shape[0] + 1, shape[1])
  for field in ('actions', 'observations', 'agent_out', 'behaviour_agent_out'):
    check_leading_dims(f'rollout.{field}', rollout[field], longer)
  if rollout.action_mask is not None:
    outs: Any = rollout.agent_out or rollout.behaviour_agent_out or {}
    check_has_logits('rollout.agent_out', outs)
    action_masks.check(rollout.action_mask, outs['logits'])


def check_has_logits(name: str, outs: types.AgentOuts | None) -> None:
  """Raises a `ValueError` if the logits of the policy that acted are missing.

  Args:
    name: name of the field that should have them, for the message.
    outs: its value.
  """
  if 'logits' not in (outs or {}):
    raise ValueError(
      f"{name}['logits'] is missing: put the logits [T+1, B, A] of the policy "
      f'that acted there; the field has {sorted(outs or {})}'
    )


def check_leading_dims(name: str, tree: Any, dims: tuple[int, ...]) -> None:
  """Raises a `ValueError` unless all leaves have some leading dimensions.

  Args:
    name: name of the field, for the message.
    tree: its value.
    dims: the leading dimensions.
  """
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    shape = np.shape(leaf)
    if shape[: len(dims)] != dims:
      raise ValueError(
        f'{name}{jax.tree_util.keystr(path)} must start with '
        f'{list(dims)} to go with rollout.rewards, got shape {shape}'
      )
