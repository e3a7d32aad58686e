"""Settings of agents: which rule, which network, which numbers."""

from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import config_dict

from disco_rl import plain_settings
from disco_rl import utils
from disco_rl.update_rules import disco


def get_settings_disco() -> config_dict.ConfigDict:
  """Settings of an agent that learns with the published discovered rule."""
  net = dict(
    name='lstm',
    prediction_size=600,
    hidden_size=256,
    embedding_size=(16, 1),
    policy_target_channels=(16,),
    policy_channels=(16, 2),
    output_stddev=0.3,
    aux_stddev=0.3,
    policy_target_stddev=0.3,
    state_stddev=1.0,
    meta_rnn_kwargs=dict(
      policy_channels=(16, 2),
      embedding_size=(16,),
      pred_embedding_size=(16, 1),
      hidden_size=128,
    ),
    input_option=disco.get_input_option(),
  )
  return _locked(
    dict(
      hyper_params=dict(
        pi_cost=1.0,
        y_cost=1.0,
        z_cost=1.0,
        aux_policy_cost=1.0,
        value_cost=0.2,
        target_params_coeff=0.9,
        value_fn_td_lambda=0.95,
        # Part of the published settings, read by nothing: the rule's γ is
        # update_rule.value_discount. Another value than that is refused.
        discount_factor=disco.PUBLISHED_DISCOUNT,
      ),
      update_rule_name='disco',
      update_rule=dict(
        net=net,
        value_discount=disco.PUBLISHED_DISCOUNT,
        num_bins=601,
        max_abs_value=300.0,
      ),
      learning_rate=3e-4,
      max_abs_update=1.0,
      net_settings=_mlp_settings(dense=(512, 512), model_size=128),
    )
  )


def get_settings_actor_critic() -> config_dict.ConfigDict:
  """Settings of an agent that learns with the hand-designed actor-critic."""
  return _locked(
    dict(
      hyper_params=dict(
        discount_factor=0.997,
        vtrace_lambda=0.95,
        entropy_cost=0.2,
        pg_cost=1.0,
        value_cost=0.5,
      ),
      update_rule_name='actor_critic',
      update_rule=dict(
        categorical_value=True,
        num_bins=601,
        max_abs_value=300.0,
        nonlinear_value_transform=True,
        normalize_adv=False,
        normalize_td=False,
      ),
      learning_rate=5e-4,
      max_abs_update=1.0,
      net_settings=_mlp_settings(dense=(64, 32, 32), model_size=64),
    )
  )


def get_settings_policy_gradient() -> config_dict.ConfigDict:
  """Settings of an agent that learns with policy gradient and a critic."""
  return _locked(
    dict(
      hyper_params=dict(),
      update_rule_name='policy_gradient',
      update_rule=dict(entropy_cost=0.01, normalize_adv=True, pg_cost=1.0),
      learning_rate=5e-4,
      max_abs_update=1.0,
      net_settings=dict(
        name='mlp', net_args=dict(dense=(64, 32, 32), head_w_init_std=1e-2)
      ),
      value_fn=get_settings_critic(),
    )
  )


def get_settings_critic() -> dict[str, Any]:
  """Settings of a critic, see `types.ValueFnConfig`."""
  return dict(
    net='mlp',
    net_args=dict(dense=(256, 256), head_w_init_std=1e-2),
    learning_rate=1e-3,
    max_abs_update=1.0,
    discount_factor=0.99,
    td_lambda=0.96,
    outer_value_cost=1.0,
  )


def get_settings_of_class(name: str, rule_class: Any) -> config_dict.ConfigDict:
  """Settings of an agent that learns with a rule nothing is known about.

  Args:
    name: under which the rule is registered.
    rule_class: its class, all arguments of which have defaults.

  Returns:
    The class's default arguments, no hyper-parameters, and a small network
    (with a small action model, which is used if the rule asks for one).
  """
  more = {}
  if getattr(rule_class, 'needs_value_out', False):
    more['value_fn'] = get_settings_critic()
  return _locked(
    dict(
      hyper_params=dict(),
      update_rule_name=name,
      update_rule=utils.default_arguments(rule_class),
      learning_rate=3e-3,
      max_abs_update=1.0,
      net_settings=_mlp_settings(dense=(64, 32, 32), model_size=64),
      **more,
    )
  )


# Registered rules are added to it, see `update_rules/registry.py`.
SETTINGS: dict[str, Callable[[], config_dict.ConfigDict]] = {
  'disco': get_settings_disco,
  'actor_critic': get_settings_actor_critic,
  'policy_gradient': get_settings_policy_gradient,
}


def get_settings(name: str) -> config_dict.ConfigDict:
  """Settings of an agent that learns with the rule of this name.

  Args:
    name: a key of `SETTINGS`.

  Returns:
    A new copy, yours to change.
  """
  return utils.lookup(SETTINGS, name, 'update rule')().lock()


_AGENT_SETTINGS = (
  'hyper_params',
  'learning_rate',
  'max_abs_update',
  'net_settings',
  'optimizer',
  'update_rule',
  'update_rule_name',
  'value_fn',
)


def check_agent_settings(agent_settings: Mapping[str, Any]) -> None:
  """Raises a `ValueError` for settings that an agent does not have.

  Args:
    agent_settings: its groups of settings and single ones, by name.
  """
  for name in agent_settings:
    utils.lookup(dict.fromkeys(_AGENT_SETTINGS), name, 'agent setting')


# The groups of an agent's settings that belong to its rule.
RULE_GROUPS = ('update_rule', 'hyper_params')


def update_from_plain(
  config: config_dict.ConfigDict, plain: Mapping[str, Any]
) -> None:
  """Takes over the settings a rule was trained with, in place.

  Args:
    config: an agent's settings.
    plain: `update_rule` and `hyper_params` as `plain_settings.to_plain` makes
      them, either may be missing. What they name replaces what `config` has,
      the meta-network's settings as a whole.
  """
  with config.unlocked():
    for group in RULE_GROUPS:
      recorded = plain_settings.from_plain(plain.get(group, {}))
      for name, value in recorded.items():
        if isinstance(value, Mapping):
          value = config_dict.ConfigDict(value)
        config[group][name] = value


def _locked(settings: dict[str, Any]) -> config_dict.ConfigDict:
  """Settings that refuse names they do not have, so that typos are found."""
  return config_dict.ConfigDict(settings).lock()


def _mlp_settings(dense: tuple[int, ...], model_size: int) -> dict[str, Any]:
  return dict(
    name='mlp',
    net_args=dict(
      dense=dense,
      model_arch_name='lstm',
      head_w_init_std=1e-2,
      model_kwargs=dict(head_mlp_hiddens=(model_size,), lstm_size=model_size),
    ),
  )
