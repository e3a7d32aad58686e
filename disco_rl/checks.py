"""Shape checks at the public boundary, with errors that name the field."""

from typing import Any

import jax
import numpy as np

from disco_rl import types


def check_actor_rollout(rollout: types.ActorRollout) -> None:
  """Raises a `ValueError` unless every field is [T+1, B, ...].

  Args:
    rollout: T and B must be at least 1. Of network states only the leading axis
      is looked at, which must be T+1, or 1 if only the first state was kept:
      only the network knows the rest of their shape.
  """
  shape = np.shape(rollout.rewards)
  if len(shape) != 2 or shape[0] < 2 or shape[1] < 1:
    raise ValueError(
      'rollout.rewards must be [T+1, B] with T and B at least 1, got '
      f'shape {shape}'
    )
  check_has_logits('rollout.agent_outs', rollout.agent_outs)
  for field in ('observations', 'actions', 'discounts', 'agent_outs', 'logits'):
    _check_leading_dims(f'rollout.{field}', rollout[field], shape)
  for path, leaf in jax.tree_util.tree_leaves_with_path(rollout.states):
    if np.shape(leaf)[:1] not in ((shape[0],), (1,)):
      raise ValueError(
        f'rollout.states{jax.tree_util.keystr(path)} must have a leading axis '
        f'of time, of {shape[0]} steps as rollout.rewards or of 1 (the state '
        f'before the first step alone), got shape {np.shape(leaf)}'
      )


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
  _check_leading_dims('rollout.is_terminal', rollout.is_terminal, shape)
  longer = (shape[0] + 1, shape[1])
  for field in ('actions', 'observations', 'agent_out', 'behaviour_agent_out'):
    _check_leading_dims(f'rollout.{field}', rollout[field], longer)


def check_has_logits(name: str, outs: types.AgentOuts | None) -> None:
  """Raises a `ValueError` if the logits of the policy that acted are missing.

  Args:
    name: of the field they should be in.
    outs: what is in it.
  """
  if 'logits' not in (outs or {}):
    raise ValueError(
      f"{name}['logits'] is missing: put the logits [T+1, B, A] of the policy "
      f'that acted there; the field has {sorted(outs or {})}'
    )


def _check_leading_dims(name: str, tree: Any, dims: tuple[int, ...]) -> None:
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    shape = np.shape(leaf)
    if shape[: len(dims)] != dims:
      raise ValueError(
        f'{name}{jax.tree_util.keystr(path)} must start with '
        f'{list(dims)} to go with rollout.rewards, got shape {shape}'
      )


def check_at_least(config: Any, **least: int) -> None:
  """Raises a `ValueError` if a setting is too small.

  Args:
    config: an object with the settings as attributes.
    **least: the smallest value of each.
  """
  for name, value in least.items():
    if getattr(config, name) < value:
      raise ValueError(
        f'{name} must be at least {value}, got {getattr(config, name)}'
      )
