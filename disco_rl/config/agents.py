"""Default settings of agents and critics."""

from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import config_dict

from disco_rl import utils
from disco_rl.config import rule_settings
from disco_rl.environments import foreign
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import disco
from disco_rl.update_rules import registry


def get_settings_disco() -> config_dict.ConfigDict:
  """Makes the settings of an agent that learns with the published rule."""
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
        # Part of the published settings, but not used: the rule's γ is
        # update_rule.value_discount. Values other than these two are an error.
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
  """Makes the settings of an agent that learns with the actor-critic."""
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
  """Makes the settings of an agent that learns with policy gradient."""
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


def get_settings_ppo() -> config_dict.ConfigDict:
  """Makes the settings of an agent that learns with PPO."""
  return _locked(
    dict(
      hyper_params=dict(
        discount_factor=0.997,
        gae_lambda=0.95,
        clip_epsilon=0.2,
        # With 0.01, some seeds on Catch 5x4 stop exploring too early.
        entropy_cost=0.1,
        pg_cost=1.0,
        value_cost=0.5,
      ),
      update_rule_name='ppo',
      update_rule=dict(
        categorical_value=True,
        num_bins=601,
        max_abs_value=300.0,
        nonlinear_value_transform=True,
        normalize_adv=True,
        moving_average_decay=0.0,
      ),
      learning_rate=3e-3,
      max_abs_update=1.0,
      net_settings=_mlp_settings(dense=(64, 32, 32), model_size=64),
    )
  )


def get_settings_critic() -> dict[str, Any]:
  """Makes the settings of a critic, see `types.ValueFnConfig`."""
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
  """Makes the settings of an agent for a rule registered without settings.

  Args:
    name: the rule's name in the registry.
    rule_class: its class, whose arguments all have defaults.

  Returns:
    The class's default arguments, no hyper-parameters, a small network with a
    small action model, and a critic if the rule needs one.
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


_DEFAULTS: dict[str, Callable[[], config_dict.ConfigDict]] = {
  'disco': get_settings_disco,
  'actor_critic': get_settings_actor_critic,
  'policy_gradient': get_settings_policy_gradient,
  'ppo': get_settings_ppo,
}


def get_settings(kind: str) -> config_dict.ConfigDict:
  """Makes the default settings of an agent that learns with a rule.

  Args:
    kind: the rule's name in `update_rules.registry`.

  Returns:
    A new copy, locked.
  """
  rule_class = utils.lookup(registry.UPDATE_RULES, kind, 'update rule')
  default = lambda: get_settings_of_class(kind, rule_class)
  make = _DEFAULTS.get(kind) or registry.SETTINGS_FNS.get(kind, default)
  with foreign.boundary(
    f'cannot make the settings of the rule {kind}', ValueError
  ):
    config = make()
  if not isinstance(config, config_dict.ConfigDict):
    raise ValueError(
      f'the settings of the rule {kind} must be a ConfigDict, but its '
      f'get_settings returned {type(config).__name__}'
    )
  return config.lock()


def for_rule(rule: rule_lib.Rule) -> config_dict.ConfigDict:
  """Makes the settings of an agent that learns with a loaded rule.

  Args:
    rule: from `disco_rl.load_rule`.

  Returns:
    The default settings of its kind, updated with those that the rule was
    trained with.
  """
  config = get_settings(rule.kind)
  rule_settings.update(config, rule.settings, f'the rule {rule.name}')
  return config


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
  """Raises a `ValueError` for unknown agent settings.

  Args:
    agent_settings: settings and groups of settings, by name.
  """
  for name in agent_settings:
    utils.lookup(dict.fromkeys(_AGENT_SETTINGS), name, 'agent setting')


def _locked(settings: dict[str, Any]) -> config_dict.ConfigDict:
  """Makes settings that are locked against new names, to detect typos."""
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
