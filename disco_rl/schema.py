"""Defines the types and ranges of all settings.

A setting is looked up by the end of its path, the longest match first: the
entry `learning_rate` applies to `agent.learning_rate` and `meta.learning_rate`,
unless there is an entry `meta.learning_rate`. Environments declare their own
settings. Settings without an entry, such as those of a custom environment or
rule, have the type of their default.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from disco_rl import fields
from disco_rl import optimizers
from disco_rl.networks import action_models
from disco_rl.networks import cores
from disco_rl.networks import meta_nets
from disco_rl.networks import nets
from disco_rl.networks import precision
from disco_rl.networks import torsos
from disco_rl.update_rules import registry

Field = fields.Field
MAX_SEED = fields.MAX_SEED

_NUMBER = Field(float, limit=fields.MAX_FLOAT)
_POSITIVE = Field(float, above=0, limit=fields.MAX_FLOAT)
_NOT_NEGATIVE = Field(float, low=0, limit=fields.MAX_FLOAT)
_FRACTION = Field(float, low=0, high=1)
_DECAY = Field(float, low=0, below=1)
_COUNT = Field(int, low=1, limit=fields.MAX_COUNT)
_COUNT_OR_0 = Field(int, low=0, limit=fields.MAX_COUNT)
_SIZE = Field(int, low=1, limit=fields.MAX_SIZE)
_LANES = Field(int, low=1, limit=fields.MAX_LANES)
_WIDTH = Field(int, low=1, limit=fields.MAX_WIDTH)
_WIDTHS = Field(tuple, items=_WIDTH, max_items=fields.MAX_LAYERS)
_GROUP_OR_NONE = Field(dict, optional=True)
_STDDEV = Field(float, low=0, limit=fields.MAX_FLOAT, optional=True)


def _optional(field: Field) -> Field:
  return dataclasses.replace(field, optional=True)


def _networks() -> list[str]:
  return sorted({*torsos.TORSOS, *nets.NETWORKS})


def _is_precision(name: str) -> bool:
  try:
    precision.get_policy(name)
  except ValueError:
    return False
  return True


SCHEMA: Mapping[str, Field] = {
  # Runs.
  'steps': _COUNT,
  'env_steps': Field(int, low=1, limit=fields.MAX_ENV_STEPS),
  'seed': fields.SEED,
  'num_seeds': _LANES,
  'seeds': Field(tuple, items=fields.SEED, max_items=fields.MAX_LANES),
  'num_agents': _optional(_LANES),
  'total_agents': _optional(_LANES),
  'devices': Field(int, low=0, limit=fields.MAX_LANES),
  'lane_shards': _optional(_LANES),
  'lanes_at_once': _optional(_LANES),
  'overlap_acting': Field(bool),
  'act_on': Field(str, choices=('devices', 'cpu')),
  'chunk_size': _SIZE,
  'checkpoint_every': _COUNT,
  'checkpoint_replay': Field(str, choices=('always', 'never')),
  'max_nonfinite_updates': _COUNT,
  # Batching.
  'batch_size': _SIZE,
  'rollout_length': Field(int, low=2, limit=fields.MAX_SIZE),
  'num_envs': _SIZE,
  'fresh_in_batch': Field(bool),
  'replay_capacity': Field(int, low=1, limit=fields.MAX_SEED),
  'min_replay_size': _optional(_COUNT),
  # Agents and critics.
  'learning_rate': _POSITIVE,
  'max_abs_update': _POSITIVE,
  'schedule': Field(str, choices=optimizers.SCHEDULES),
  'warmup_updates': _COUNT_OR_0,
  'total_updates': _COUNT_OR_0,
  'weight_decay': _NOT_NEGATIVE,
  'discount_factor': _FRACTION,
  'value_discount': _FRACTION,
  'td_lambda': _FRACTION,
  'vtrace_lambda': _FRACTION,
  'gae_lambda': _FRACTION,
  'value_fn_td_lambda': _FRACTION,
  'target_params_coeff': _FRACTION,
  'ema_decay': _DECAY,
  'ema_eps': _NOT_NEGATIVE,
  'moving_average_decay': _DECAY,
  'moving_average_eps': _NOT_NEGATIVE,
  'outer_value_cost': _NUMBER,
  # Rules.
  'aux_policy_cost': _NUMBER,
  'clip_epsilon': Field(float, above=0, high=1),
  'entropy_cost': _NUMBER,
  'pg_cost': _NUMBER,
  'pi_cost': _NUMBER,
  'value_cost': _NUMBER,
  'y_cost': _NUMBER,
  'z_cost': _NUMBER,
  'categorical_value': Field(bool),
  'nonlinear_value_transform': Field(bool),
  'normalize_adv': Field(bool),
  'normalize_td': Field(bool),
  'update_rule_name': Field(str, choices=lambda: list(registry.UPDATE_RULES)),
  'update_rule.net.name': Field(str, choices=lambda: list(meta_nets.META_NETS)),
  'num_bins': Field(int, low=2, limit=fields.MAX_WIDTH),
  'max_abs_value': _POSITIVE,
  'prediction_size': _WIDTH,
  'embedding_size': _WIDTHS,
  'pred_embedding_size': _WIDTHS,
  'policy_channels': _WIDTHS,
  'policy_target_channels': _WIDTHS,
  'policy_target_stddev': _STDDEV,
  'output_stddev': _STDDEV,
  'aux_stddev': _STDDEV,
  'state_stddev': _STDDEV,
  # Networks.
  'net_settings.name': Field(str, choices=_networks),
  'value_fn.net': Field(str, choices=_networks),
  'model_arch_name': Field(
    str, choices=lambda: list(action_models.ACTION_MODELS)
  ),
  'model_kwargs': _GROUP_OR_NONE,
  'core': Field(str, choices=lambda: list(cores.CORES), optional=True),
  'core_kwargs': _GROUP_OR_NONE,
  'core_kwargs.size': _WIDTH,
  'module_name': Field(str, optional=True),
  'head_w_init_std': _STDDEV,
  'precision': Field(
    str,
    accepts=_is_precision,
    words='float32, bfloat16, float16 or a policy such as '
    "'params=float32,compute=bfloat16,output=float32'",
  ),
  'hidden_size': _WIDTH,
  'lstm_size': _WIDTH,
  'head_mlp_hiddens': _WIDTHS,
  'dense': _WIDTHS,
  'channels': Field(tuple, items=_WIDTH, max_items=16),
  'kernel': Field(
    int, low=1, high=99, accepts=lambda x: x % 2 == 1, words='an odd number'
  ),
  'num_blocks': Field(int, low=0, limit=16),
  'num_symbols': Field(int, low=2, limit=10**6),
  'symbol_size': _WIDTH,
  # Meta-training.
  'num_inner_updates': Field(int, low=1, limit=10_000),
  'rematerialize_all_but': Field(int, low=0, limit=10_000, optional=True),
  'meta_gradient_mode': Field(str, choices=('auto', 'mixed', 'reverse')),
  'adam_per_agent': Field(bool),
  'meta.max_abs_update': _optional(_POSITIVE),
  'max_grad_norm': _optional(_POSITIVE),
  'lifetimes': Field(tuple, items=_COUNT),
  'agent_learning_rates': Field(
    tuple,
    items=_POSITIVE,
    accepts=lambda x: not x or (len(x) == 2 and x[0] <= x[1]),
    words='empty, or the lowest and the highest of all, a list',
  ),
  'weights.policy_gradient': _NUMBER,
  'weights.entropy': _NUMBER,
  'weights.y_entropy': _NUMBER,
  'weights.z_entropy': _NUMBER,
  'weights.y_mean': _NUMBER,
  'weights.z_mean': _NUMBER,
  'weights.pi_mean': _NUMBER,
  'weights.target_kl': _NUMBER,
  # Evaluations during meta-training.
  'eval.every': _COUNT_OR_0,
  'eval.baseline': Field(str, choices=registry.known_names, optional=True),
  'eval.env': Field(
    dict,
    accepts=lambda group: False,
    words='given by --eval-env (in Python: eval_envs)',
    optional=True,
  ),
}

# Groups of settings that may belong to a custom network or rule, which may use
# a name of the schema for something else.
CUSTOM = (
  'agent.net_settings.net_args.',
  'agent.update_rule.',
  'agent.hyper_params.',
  'net.',
  'critic_net.',
)


def find(path: str) -> Field | None:
  """Finds the entry of a setting.

  Args:
    path: path of the setting, e.g. `agent.value_fn.learning_rate`.

  Returns:
    The entry; None if there is none, as for settings of environments.
  """
  if path.startswith(('env.', 'eval.env.')):
    return None  # Environments declare their own.
  # Names of environments, as in `net.NAME.net_args`, may have dots in them.
  for group, end in (('net.', '.name'), ('critic_net.', '.net')):
    if path.startswith(group) and path.endswith(end):
      return SCHEMA['net_settings.name']
  parts = path.split('.')
  ends = ('.'.join(parts[i:]) for i in range(len(parts)))
  return next((SCHEMA[end] for end in ends if end in SCHEMA), None)


def field_of(
  path: str,
  default: Any,
  *,
  declared: Mapping[str, Field] | None = None,
  custom: Sequence[str] = CUSTOM,
) -> Field:
  """Returns the field of a setting, from its entry or else its default.

  Args:
    path: the path of the setting.
    default: its default.
    declared: fields of the environments' settings, by path.
    custom: prefixes of the paths of custom settings. An entry is ignored for
      these if their default is not valid for it.

  Returns:
    The field.
  """
  field = (declared or {}).get(path) or find(path)
  if field is not None and path.startswith(tuple(custom)):
    field = field if _describes(field, default) else None
  if field is not None:
    return field
  return fields.like(default)


def check(
  path: str,
  value: Any,
  default: Any = None,
  *,
  declared: Mapping[str, Field] | None = None,
  custom: Sequence[str] = CUSTOM,
) -> Any:
  """Checks the value of a setting, and converts it to its type.

  Args:
    path: the path of the setting.
    value: the value.
    default: its default, whose type it must have if it has no entry.
    declared: see `field_of`.
    custom: see `field_of`.

  Returns:
    The converted value.

  Raises:
    ValueError: if the value is not valid.
  """
  field = field_of(path, default, declared=declared, custom=custom)
  return fields.check(field, path, value)


def check_as(name: str, path: str, value: Any) -> Any:
  """Checks an argument that has another name than its setting.

  Args:
    name: name of the argument, for the message.
    path: path of the setting, which has an entry.
    value: the value.

  Returns:
    The converted value.

  Raises:
    ValueError: if the value is not valid.
  """
  field = find(path)
  assert field is not None
  return fields.check(field, name, value)


def check_mapping(name: str, value: Any) -> None:
  """Raises a `ValueError` unless an argument maps names to settings or is None.

  Args:
    name: name of the argument, for the message.
    value: the argument.
  """
  is_mapping = hasattr(value, 'items') and all(
    isinstance(k, str) for k in value
  )
  if value is not None and not is_mapping:
    raise ValueError(
      f"{name} must be settings by name, like {{'rows': 5}}, got "
      f'{fields.shorten(value)}'
    )


def check_fields(config: Any, group: str = '') -> None:
  """Checks and converts all fields of a dataclass of settings, in place.

  Args:
    config: the dataclass.
    group: the group that its fields belong to, for paths.
  """
  for field in dataclasses.fields(config):
    path = f'{group}.{field.name}' if group else field.name
    if find(path) is not None:
      value = check(path, getattr(config, field.name), default=0)
      object.__setattr__(config, field.name, value)  # 64.0 becomes 64.


def check_tree(
  tree: Mapping[str, Any], above: str, custom: Sequence[str] = CUSTOM
) -> None:
  """Raises a `ValueError` for values in a group of settings that are not valid.

  Args:
    tree: settings, in groups; a ConfigDict or a mapping. Other objects among
      them, such as schedules and records, are not checked.
    above: path of the group.
    custom: see `field_of`.
  """
  for name, value in tree.items():
    path = f'{above}.{name}'
    if hasattr(value, 'items'):
      check_tree(value, path, custom)
    elif isinstance(value, bool | int | float | str | list | tuple):
      check(path, value, value, custom=custom)


def _describes(field: Field, default: Any) -> bool:
  """Returns whether a default is valid for an entry."""
  try:
    fields.check(field, '', default)
  except ValueError:
    return False
  return True
