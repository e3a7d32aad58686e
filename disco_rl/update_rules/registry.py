"""Update rules by name.

registry.register_rule('mine', MyRule)
disco_rl.evaluate('catch', 'mine')
"""

from collections.abc import Callable
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import base
from disco_rl.update_rules import disco
from disco_rl.update_rules import policy_gradient
from disco_rl.update_rules import ppo

UPDATE_RULES: dict[str, Callable[..., base.UpdateRule]] = {
  'disco': disco.DiscoUpdateRule,
  'actor_critic': actor_critic.ActorCritic,
  'policy_gradient': policy_gradient.PolicyGradientUpdate,
  'ppo': ppo.PPO,
}
BUILT_IN = frozenset(UPDATE_RULES)
# Name of a registered rule to a function that makes its agents' settings.
SETTINGS_FNS: dict[str, Callable[[], config_dict.ConfigDict]] = {}


def register_rule(
  name: str,
  rule_class: Callable[..., base.UpdateRule],
  get_settings: Callable[[], config_dict.ConfigDict] | None = None,
) -> None:
  """Registers a rule of your own for `load_rule`, `evaluate` and the commands.

  Args:
    name: its name. Registering a name again replaces the earlier rule; built-in
      names cannot be replaced.
    rule_class: makes the rule; called with the agent settings' group
      `update_rule` as keyword arguments.
    get_settings: makes the settings of an agent that learns with it, see
      `agent.get_settings_actor_critic`. By default: the constructor's default
      arguments, no hyper-parameters, a small network, and a critic if the rule
      needs one.
  """
  utils.check_name(name, 'rule', BUILT_IN)
  if not callable(rule_class):
    raise ValueError(
      f'register_rule needs a class of update rules, got {rule_class!r}'
    )
  UPDATE_RULES[name] = rule_class
  SETTINGS_FNS.pop(name, None)
  if get_settings is not None:
    SETTINGS_FNS[name] = get_settings


def known_names() -> list[str]:
  """Lists the rules that can be used without a file: all but `disco`."""
  return [name for name in UPDATE_RULES if name != 'disco']


def origin_of(name: str) -> str:
  """Returns `'hand-designed'` for the library's rules, or `'registered'`."""
  return 'hand-designed' if name in BUILT_IN else 'registered'


def get_update_rule(name: str, **kwargs: Any) -> base.UpdateRule:
  """Builds the rule registered under `name`.

  Args:
    name: a key of `UPDATE_RULES`.
    **kwargs: passed to its constructor.

  Returns:
    The rule.
  """
  rule = utils.lookup(UPDATE_RULES, name, 'update rule')(**kwargs)
  for method in sorted(base.UpdateRule.__abstractmethods__):
    if not callable(getattr(rule, method, None)):
      raise ValueError(
        f'the rule {name} made an object of the type {type(rule).__name__}, '
        f'which has no method {method}: a '
        'disco_rl.update_rules.base.UpdateRule is needed'
      )
  return rule
