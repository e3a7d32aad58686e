"""Shape checks of experience, with errors that name the field."""

import jax
import numpy as np

from disco_rl import types
from disco_rl.networks import action_masks
from disco_rl.update_rules import checks as rule_checks


def check_actor_rollout(rollout: types.ActorRollout) -> None:
  """Raises a `ValueError` unless every field is [T+1, B, ...].

  Args:
    rollout: T and B must be at least 1. `states` must have a leading axis of
      T+1, or of 1 if only the first state is kept; the rest of their shape
      depends on the network and is not checked.
  """
  shape = np.shape(rollout.rewards)
  if len(shape) != 2 or shape[0] < 2 or shape[1] < 1:
    raise ValueError(
      'rollout.rewards must be [T+1, B] with T and B at least 1, got '
      f'shape {shape}'
    )
  rule_checks.check_has_logits('rollout.agent_outs', rollout.agent_outs)
  for field in ('observations', 'actions', 'discounts', 'agent_outs', 'logits'):
    rule_checks.check_leading_dims(f'rollout.{field}', rollout[field], shape)
  action_masks.check(rollout.action_mask, rollout.agent_outs['logits'])
  for path, leaf in jax.tree_util.tree_leaves_with_path(rollout.states):
    if np.shape(leaf)[:1] not in ((shape[0],), (1,)):
      raise ValueError(
        f'rollout.states{jax.tree_util.keystr(path)} must have a leading axis '
        f'of time, of {shape[0]} steps as rollout.rewards or of 1 (the state '
        f'before the first step alone), got shape {np.shape(leaf)}'
      )
