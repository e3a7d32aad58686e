"""Checks requests: the names and numbers that a run is made from."""

from collections.abc import Iterable, Mapping
import re
from typing import Any

import jax

from disco_rl import fields
from disco_rl import schema
from disco_rl.config import arguments
from disco_rl.environments import factories
from disco_rl.environments import names
from disco_rl.environments import registry
from disco_rl.rule_zoo import store

_LONGEST = 100  # Characters of a user's words in a message.

_NAME = fields.Field(str)
_NAME_OR_NONE = fields.Field(str, optional=True, accepts=bool)  # Not empty.
_NAMES = fields.Field(tuple, items=_NAME)
_ENTRIES: Mapping[str, fields.Field] = dict(
  rule=_NAME,
  init=_NAME,
  steps=schema.SCHEMA['steps'],
  env_steps=schema.SCHEMA['env_steps'],
  seed=schema.SCHEMA['seed'],
  num_seeds=schema.SCHEMA['num_seeds'],
  num_agents=schema.SCHEMA['num_agents'],  # Also None.
  devices=schema.SCHEMA['devices'],
  net=_NAME_OR_NONE,
  core=_NAME_OR_NONE,
  preset=_NAME_OR_NONE,
  use=_NAMES,
  eval_every=schema.SCHEMA['eval.every'],
  eval_env=_NAMES,
  checkpoint_replay=schema.SCHEMA['checkpoint_replay'],
)
# Entries of a request to a pattern of the settings that they decide.
_SETTINGS_OF: Mapping[str, str] = dict(
  steps='steps',
  env_steps='steps',
  seed='seeds?',
  num_seeds='seeds',
  seeds='seeds',
  num_agents='(num|total)_agents',
  devices='devices',
  checkpoint_replay='checkpoint_replay',
  eval_every=r'eval\.every',
  net=r'(agent\.net_settings|net\..+)\.name',
  core=r'(agent\.net_settings|net\..+)\.net_args\.core',
)


def check_said_once(
  entries: Mapping[str, str], settings: Iterable[tuple[str, str]]
) -> None:
  """Raises a `ValueError` for a setting that a user gives in two ways.

  Args:
    entries: the given entries of a request, to what the user wrote for them.
    settings: the given settings, by path, with what the user wrote for them.
  """
  budgets = [entries[x] for x in ('steps', 'env_steps') if x in entries]
  if len(budgets) == 2:
    raise ValueError(
      f'{_cut(budgets[0])} and {_cut(budgets[1])} are two budgets: leave one '
      'out'
    )
  said: dict[str, str] = {}
  for path, words in settings:
    deciding = (
      given
      for name, given in entries.items()
      if name in _SETTINGS_OF and re.fullmatch(_SETTINGS_OF[name], path)
    )
    other = said.get(path) or next(deciding, None)
    if other is not None:
      raise ValueError(
        f'{_cut(other)} and {_cut(words)} both give {path}: leave one out'
      )
    said[path] = words


def check_arguments(
  entries: Mapping[str, Any],
  settings: Mapping[str, Iterable[str]],
  **names: str,
) -> None:
  """Raises a `ValueError` if arguments of Python give a setting in two ways.

  Args:
    entries: entries of a request to the arguments that they are made from, see
      `arguments.is_given`.
    settings: name of an argument to the paths of the settings that it gives.
    **names: the arguments of entries that have another name.
  """
  given = {
    name: names.get(name, name)
    for name, value in entries.items()
    if arguments.is_given(value)
  }
  check_said_once(
    given, [(path, name) for name, paths in settings.items() for path in paths]
  )


def _cut(words: str) -> str:
  return words if len(words) <= _LONGEST else f'{words[:_LONGEST]}...'


def prepare(
  request: Mapping[str, Any],
  defaults: Mapping[str, Any],
  *,
  steps: int | None = None,
  env_steps: int | None = None,
) -> dict[str, Any]:
  """Checks a request, completes it with defaults, and imports its modules.

  Args:
    request: some entries of `defaults`, perhaps from a file; also `seeds`.
    defaults: all entries, `resolve.EVALUATION` or `resolve.META_TRAINING`.
    steps: replaces the budget, wherever the request has it; None for no change.
    env_steps: the same, in environment steps of one agent.

  Returns:
    All entries, of the right types. The modules in `use` are imported.

  Raises:
    ValueError: if an entry is unknown or not valid.
    ForeignCodeError: if a module cannot be imported.
    RuleFileError: if an environment variable names an unusable folder.
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
    is_default = value is None and name in defaults and defaults[name] is None
    if name in _ENTRIES and not is_default:
      checked = fields.check(_ENTRIES[name], name, value)
      completed[name] = list(checked) if _ENTRIES[name] is _NAMES else checked
  if completed['env'] is not None:
    is_list = 'eval_env' in defaults  # In meta-training.
    fields.check(_NAMES if is_list else _NAME, 'env', completed['env'])
  schema.check_mapping('settings', completed['settings'])
  _make_canonical(completed)
  check_said_once({}, [(path_of(x), f'--set {x}') for x in completed['set']])
  factories.import_modules(completed['use'])
  store.check_variables()  # Also if the run needs no rule file.
  _check_jax()  # The modules may have changed its settings, too.
  completed['settings'] = completed['settings'] or {}
  budget = dict(steps=steps, env_steps=env_steps)
  if steps is not None or env_steps is not None:
    for name, value in budget.items():
      completed[name] = defaults[name]
      if value is not None:
        completed[name] = fields.check(_ENTRIES[name], name, value)
    completed['set'] = [
      text for text in completed['set'] if path_of(text) != 'steps'
    ]
    settings = dict(completed['settings'])
    settings.pop('steps', None)
    completed['settings'] = settings
  return completed


def _make_canonical(request: dict[str, Any]) -> None:
  """Converts `family/name` to `family:name` in a checked request, in place."""
  for entry in ('env', 'eval_env'):
    value = request.get(entry)
    if isinstance(value, list | tuple):
      request[entry] = [registry.canonical(name) for name in value]
    elif value is not None:
      request[entry] = registry.canonical(value)
  convert = lambda path: names.canonical_path(path, registry.FAMILIES)
  request['set'] = [
    convert(path.strip()) + separator + value
    for path, separator, value in (x.partition('=') for x in request['set'])
  ]
  request['settings'] = {
    convert(path): value for path, value in (request['settings'] or {}).items()
  }


def _check_jax() -> None:
  """Raises a `ValueError` for settings of JAX in which runs cannot work."""
  for name, reason in (
    ('jax_enable_x64', 'runs are in 32 bits'),
    ('jax_debug_nans', 'metrics are NaN while no episode has ended'),
  ):
    if getattr(jax.config, name, False):
      raise ValueError(
        f'the setting {name} of JAX (the variable {name.upper()}) is on, but '
        f'{reason}: turn it off'
      )


def path_of(assignment: str) -> str:
  """Returns the setting that a text `path=value` changes."""
  return assignment.partition('=')[0].strip()


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
