"""Checks requests: the names and numbers that a run is made from."""

from collections.abc import Mapping
from typing import Any

from disco_rl import fields
from disco_rl.config import schema
from disco_rl.environments import factories

_NAME = fields.Field(str)
_NAME_OR_NONE = fields.Field(str, optional=True)
_NAMES = fields.Field(tuple, items=_NAME)
_ENTRIES: Mapping[str, fields.Field] = dict(
  rule=_NAME,
  init=_NAME,
  steps=schema.SCHEMA['steps'],
  seed=schema.SCHEMA['seed'],
  num_seeds=schema.SCHEMA['num_seeds'],
  num_agents=schema.SCHEMA['num_agents'],
  devices=schema.SCHEMA['devices'],
  net=_NAME_OR_NONE,
  core=_NAME_OR_NONE,
  preset=_NAME_OR_NONE,
  use=_NAMES,
  eval_every=schema.SCHEMA['eval.every'],
  eval_env=_NAMES,
  checkpoint_replay=schema.SCHEMA['checkpoint_replay'],
)


def prepare(
  request: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
  """Checks a request, completes it with defaults, and imports its modules.

  Args:
    request: some entries of `defaults`, perhaps from a file; also `seeds`.
    defaults: all entries, `resolve.EVALUATION` or `resolve.META_TRAINING`.

  Returns:
    All entries, of the right types. The modules in `use` are imported.

  Raises:
    ValueError: if an entry is unknown or not valid.
    ForeignCodeError: if a module cannot be imported.
  """
  known = {*defaults, 'seeds'}
  completed = {**defaults, **request}
  for name, value in request.items():
    if name not in known:
      raise ValueError(
        f'a request has no entry {fields.shorten(name)}; known: '
        f'{", ".join(sorted(known))}'
      )
    is_texts = isinstance(value, list | tuple) and all(
      isinstance(text, str) for text in value
    )
    if name == 'set' and not is_texts:  # Each is checked with its setting.
      raise ValueError(
        f'set must be a list of texts, got {fields.shorten(value)}'
      )
    if name in _ENTRIES:
      checked = fields.check(_ENTRIES[name], name, value)
      completed[name] = list(checked) if _ENTRIES[name] is _NAMES else checked
  is_list = isinstance(defaults['env'], list)
  fields.check(_NAMES if is_list else _NAME, 'env', completed['env'])
  schema.check_mapping('settings', completed['settings'])
  factories.import_modules(completed['use'])
  return completed


def seeds(request: Mapping[str, Any]) -> tuple[int, ...]:
  """Returns the seeds of an evaluation.

  Args:
    request: contains `seeds`, or else `seed` (the first) and `num_seeds`.
  """
  if 'seeds' in request:
    return schema.check('seeds', request['seeds'])
  first = schema.check('seed', request['seed'])
  number = schema.check('num_seeds', request['num_seeds'])
  if first + number - 1 > schema.MAX_SEED:
    raise ValueError(
      f'seed {first} is too large for {number} seeds in a row: the last may be '
      f'at most {schema.MAX_SEED}'
    )
  return tuple(range(first, first + number))
