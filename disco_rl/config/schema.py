"""The schema of all settings: their types and ranges.

A setting is looked up by the end of its path: the entry `learning_rate` is that
of `agent.learning_rate` and of `meta.learning_rate`, unless there is an entry
`meta.learning_rate`. Settings without an entry, such as those of a custom
environment, have the type of their default.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import math
from typing import Any

import numpy as np

from disco_rl import optimizers

MAX_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Field:
  """The type and range of a setting.

  Attributes:
    kind: its type; None for that of the default.
    low: smallest value.
    high: largest value.
    above: exclusive lower bound.
    below: exclusive upper bound.
    choices: all valid values, or a function that lists them.
    optional: whether it may be None.
    items: type and range of the items of a sequence; None for any.
    finite: whether a number must be finite.
  """

  kind: type | None = None
  low: float | None = None
  high: float | None = None
  above: float | None = None
  below: float | None = None
  choices: Sequence[str] | Callable[[], Sequence[str]] | None = None
  optional: bool = False
  items: 'Field | None' = None
  finite: bool = True


_POSITIVE = Field(float, above=0)
_NOT_NEGATIVE = Field(float, low=0)
_FRACTION = Field(float, low=0, high=1)
_DECAY = Field(float, low=0, below=1)
_AT_LEAST_0 = Field(int, low=0)
_AT_LEAST_1 = Field(int, low=1)
_SIZES = Field(tuple, items=_AT_LEAST_1)

SCHEMA: Mapping[str, Field] = {
  # Runs.
  'steps': _AT_LEAST_1,
  'seed': Field(int, low=0, high=MAX_SEED),
  'num_seeds': _AT_LEAST_1,
  'seeds': Field(tuple, items=Field(int, low=0, high=MAX_SEED)),
  'num_agents': _AT_LEAST_1,
  'devices': _AT_LEAST_0,
  'lane_shards': _AT_LEAST_1,
  'lanes_at_once': Field(int, low=1, optional=True),
  'chunk_size': _AT_LEAST_1,
  'checkpoint_every': _AT_LEAST_1,
  'checkpoint_replay': Field(str, choices=('always', 'never')),
  'max_nonfinite_updates': _AT_LEAST_1,
  # Batching.
  'batch_size': _AT_LEAST_1,
  'rollout_length': Field(int, low=2),
  'num_envs': _AT_LEAST_1,
  'fresh_in_batch': Field(bool),
  'replay_capacity': _AT_LEAST_1,
  'min_replay_size': Field(int, low=1, optional=True),
  # Agents and critics.
  'learning_rate': _POSITIVE,
  'max_abs_update': _POSITIVE,
  'schedule': Field(str, choices=optimizers.SCHEDULES),
  'warmup_updates': _AT_LEAST_0,
  'total_updates': _AT_LEAST_0,
  'weight_decay': _NOT_NEGATIVE,
  'discount_factor': _FRACTION,
  'value_discount': _FRACTION,
  'td_lambda': _FRACTION,
  'vtrace_lambda': _FRACTION,
  'value_fn_td_lambda': _FRACTION,
  'target_params_coeff': _FRACTION,
  'ema_decay': _DECAY,
  'ema_eps': _NOT_NEGATIVE,
  'moving_average_decay': _DECAY,
  'moving_average_eps': _NOT_NEGATIVE,
  'num_bins': Field(int, low=2),
  'max_abs_value': _POSITIVE,
  'prediction_size': _AT_LEAST_1,
  'hidden_size': _AT_LEAST_1,
  'lstm_size': _AT_LEAST_1,
  'head_mlp_hiddens': _SIZES,
  'dense': _SIZES,
  'channels': _SIZES,
  # Meta-training.
  'num_inner_updates': _AT_LEAST_1,
  'rematerialize_all_but': Field(int, low=0, optional=True),
  'meta_gradient_mode': Field(str, choices=('auto', 'mixed', 'reverse')),
  'adam_per_agent': Field(bool),
  'meta.max_abs_update': Field(float, above=0, optional=True),
  'max_grad_norm': Field(float, above=0, optional=True),
  'lifetimes': Field(tuple, items=_AT_LEAST_1),
  # Evaluations during meta-training.
  'eval.every': _AT_LEAST_0,
  'eval.baseline': Field(str, optional=True),
  'eval.env': Field(dict, optional=True),
}

_KINDS = {
  bool: 'true or false',
  int: 'a whole number',
  float: 'a number',
  str: 'a text',
  tuple: 'a list',
  dict: 'a group of settings',
}


def find(path: str) -> Field | None:
  """Returns the entry of a setting, or None.

  Args:
    path: e.g. `agent.value_fn.learning_rate`.
  """
  if path.startswith(('env.', 'eval.env.')):
    return None  # Settings of environments have no entries.
  parts = path.split('.')
  ends = ('.'.join(parts[i:]) for i in range(len(parts)))
  return next((SCHEMA[end] for end in ends if end in SCHEMA), None)


def field_of(path: str, default: Any) -> Field:
  """Returns the field of a setting, from its entry or else its default.

  Args:
    path: the path of the setting.
    default: its default.
  """
  field = find(path)
  if field is None or not _applies(field, path, default):
    field = Field(finite=False)
  if field.kind is not None or default is None:
    return field
  if not isinstance(default, list | tuple):
    return dataclasses.replace(field, kind=type(default))
  kinds = {type(item) for item in default}
  items = None
  if len(kinds) == 1 and kinds <= {bool, int, float, str}:
    items = Field(kinds.pop(), finite=False)
  return dataclasses.replace(field, kind=tuple, items=items)


# Groups in which a custom network or rule may use a name of the schema for
# something else.
_CUSTOM = (
  'agent.net_settings.',
  'agent.update_rule.',
  'agent.hyper_params.',
  'net.',
  'critic_net.',
)


def _applies(field: Field, path: str, default: Any) -> bool:
  """Returns whether an entry describes a setting with this default."""
  if not path.startswith(_CUSTOM) or default is None:
    return True
  try:
    _check(path, default, field, may_be_none=False)
  except ValueError:
    return False
  return True


def check(path: str, value: Any, default: Any = None) -> Any:
  """Checks the value of a setting, and converts it to its type.

  Args:
    path: the path of the setting.
    value: the value.
    default: its default, whose type it must have if it has no entry.

  Returns:
    The converted value.

  Raises:
    ValueError: if the value is not valid.
  """
  field = field_of(path, default)
  return _check(path, value, field, may_be_none=default is None)


def check_fields(config: Any, group: str = '') -> None:
  """Checks all fields of a dataclass of settings.

  Args:
    config: the dataclass.
    group: the group that its fields belong to, for paths.
  """
  for field in dataclasses.fields(config):
    path = f'{group}.{field.name}' if group else field.name
    if find(path) is not None:
      value = check(path, getattr(config, field.name), default=0)
      object.__setattr__(config, field.name, value)  # 64.0 becomes 64.


def describe(field: Field) -> str:
  """Describes the valid values, e.g. as `a whole number of at least 1`."""
  text = _KINDS.get(field.kind or object, 'a value')
  if field.choices is not None:
    text = f'one of {", ".join(_choices(field))}'
  bounds = {
    'of at least': field.low,
    'above': field.above,
    'of at most': field.high,
    'below': field.below,
  }
  limits = [f'{word} {x}' for word, x in bounds.items() if x is not None]
  if field.low is not None and field.high is not None:
    limits = [f'between {field.low} and {field.high}']
  text = ' '.join([text, ' and '.join(limits)]).strip()
  if field.items is not None:
    text += f' of items, each {describe(field.items)}'
  return f'{text}, or none' if field.optional else text


def _check(path: str, value: Any, field: Field, may_be_none: bool) -> Any:
  refusal = ValueError(
    f'{path} must be {describe(field)}, got {_shorten(repr(value))}'
  )
  if value is None:
    if field.optional or (may_be_none and field.kind is None):
      return None
    raise refusal
  value = _convert(value, field.kind)
  kind = field.kind
  if kind is not None and kind in _KINDS:
    is_bool = isinstance(value, bool)
    if not isinstance(value, kind) or (is_bool and kind is not bool):
      raise refusal
  if field.finite and isinstance(value, float) and not math.isfinite(value):
    raise refusal
  if field.choices is not None and value not in _choices(field):
    raise refusal
  outside = (
    (field.low is not None and value < field.low)
    or (field.high is not None and value > field.high)
    or (field.above is not None and value <= field.above)
    or (field.below is not None and value >= field.below)
  )
  if outside:
    raise refusal
  if field.items is not None:
    try:
      return tuple(_check(path, item, field.items, False) for item in value)
    except ValueError:
      raise refusal from None
  return value


def _convert(value: Any, kind: type | None) -> Any:
  """Converts between numbers, and lists to tuples, where nothing is lost."""
  if isinstance(value, np.generic):
    value = value.item()
  if kind is int and isinstance(value, float) and value.is_integer():
    return int(value)  # 1e6
  if kind is float and isinstance(value, int) and not isinstance(value, bool):
    return float(value)
  if kind is tuple and isinstance(value, list):
    return tuple(value)
  return value


def _choices(field: Field) -> Sequence[str]:
  assert field.choices is not None
  return field.choices() if callable(field.choices) else field.choices


def _shorten(text: str) -> str:
  return text if len(text) <= 80 else f'{text[:77]}...'
