"""Requests: the names and numbers that a run is made from, with their types."""

from collections.abc import Mapping
from typing import Any

from disco_rl import fields

# Types of the entries; numbers are checked with all other settings.
_NAME = fields.Field(str)
_NAME_OR_NONE = fields.Field(str, optional=True)
_NAMES = fields.Field(tuple, items=_NAME)
_ENTRIES: Mapping[str, fields.Field] = dict(
  rule=_NAME,
  init=_NAME,
  net=_NAME_OR_NONE,
  core=_NAME_OR_NONE,
  preset=_NAME_OR_NONE,
  use=_NAMES,
  eval_env=_NAMES,
  settings=fields.Field(dict),
)


def complete(
  request: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
  """Completes a request, which may come from a file, with defaults.

  Args:
    request: some entries of `EVALUATION` or of `META_TRAINING`.
    defaults: all of them.

  Returns:
    All entries, of the right types.
  """
  known = {*defaults, 'seeds'}
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
      fields.check(_ENTRIES[name], name, value)
  env = request.get('env', defaults['env'])
  is_list = isinstance(defaults['env'], list)
  fields.check(_NAMES if is_list else _NAME, 'env', env)
  return {**defaults, **request}
