"""Names of environments: their canonical form, and suggestions for wrong ones.

```python
canonical('gymnax/CartPole-v1', ('gym', 'gymnax'))  # 'gymnax:CartPole-v1'
```
"""

from collections.abc import Collection
import re
from typing import Any

from disco_rl import fields
from disco_rl import utils

# Patterns of names as other packages write them, to their family.
_LOOKS = {
  r'[^:/]+-(MinAtar|bsuite|misc)': 'gymnax',
  r'ALE/(?P<game>\w+)-v\d+': 'atari',
  r'(?P<game>\w+)NoFrameskip-v\d+': 'atari',
  r'Craftax-.+-v\d+': 'craftax',
  r'(XLand-)?MiniGrid-.+(?<!-v\d)': 'xminigrid',
  r'Navix-.+-v\d+': 'navix',
  r'([\w.]+/)?[\w.-]+-v\d+': 'gym',
}


def canonical(name: Any, families: Collection[str]) -> Any:
  """Converts `family/name` to `family:name`.

  Args:
    name: a name. Anything else, and other names with a slash (`ALE/Pong-v5`,
      `gym:ALE/Pong-v5`), are returned as they are.
    families: the known families.

  Returns:
    The name in the form in which it is recorded.
  """
  if not isinstance(name, str):
    return name
  family, separator, inner_name = name.partition('/')
  is_synonym = separator and family in families
  return f'{family}:{inner_name}' if is_synonym else name


def canonical_path(path: str, families: Collection[str]) -> str:
  """Converts `family/name` in the path of a setting to `family:name`.

  Args:
    path: e.g. `env.gymnax/CartPole-v1.params.max_steps_in_episode`.
    families: the known families.

  Returns:
    The path, unchanged if no group of settings by environment is in it.
  """
  match = re.match(r'(eval\.env|env|net|critic_net)\.', path)
  if not match:
    return path
  return match.group() + canonical(path[match.end() :], families)


def unknown(
  name: str, families: Collection[str], known: Collection[str]
) -> str:
  """Makes the error message for an unknown name.

  Args:
    name: the name.
    families: the known families.
    known: all known names, and the forms of those in families.

  Returns:
    One sentence, with a suggestion if there is one.
  """
  prefix, separator, inner_name = name.partition(':')
  if separator:
    nearest = utils.did_you_mean(prefix, families)
    suggestion = nearest.replace('?', f':{inner_name}?')
  else:
    suggestion = utils.did_you_mean(name, known)
  for pattern, family in _LOOKS.items():
    match = re.fullmatch(pattern, name)
    if match:
      inner_name = match.groupdict().get('game') or name
      suggestion = f' (did you mean {family}:{inner_name}?)'
      break
  return (
    f'unknown environment {fields.shorten(name)}{suggestion}; known: '
    f'{", ".join(sorted(known))}'
  )
