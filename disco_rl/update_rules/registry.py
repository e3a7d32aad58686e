"""Update rules by name."""

from collections.abc import Callable
from typing import Any

from disco_rl import utils
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import base
from disco_rl.update_rules import disco
from disco_rl.update_rules import policy_gradient

UPDATE_RULES: dict[str, Callable[..., base.UpdateRule]] = {
  'disco': disco.DiscoUpdateRule,
  'actor_critic': actor_critic.ActorCritic,
  'policy_gradient': policy_gradient.PolicyGradientUpdate,
}


def get_update_rule(name: str, **kwargs: Any) -> base.UpdateRule:
  """Builds the rule registered under `name`.

  Args:
    name: a key of `UPDATE_RULES`.
    **kwargs: passed to its constructor.

  Returns:
    The rule.
  """
  return utils.lookup(UPDATE_RULES, name, 'update rule')(**kwargs)
