"""Adapts dm_env environments, `dm:<module>:<factory>`.

```python
env = registry.get_environment('dm:my_package.games:make_maze', batch_size=8)
```

The factory is called once per stream. If it takes a `seed`, every stream gets a
different one.
"""

from collections.abc import Callable, Sequence
import functools
import inspect
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl.environments import base
from disco_rl.environments import factories
from disco_rl.environments.wrappers import batched_env
from disco_rl.environments.wrappers import single_stream_env
from disco_rl.environments.wrappers import worker_env


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all dm_env environments."""
  del name
  return worker_env.get_config(kwargs=dict())  # Arguments of the factory.


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return worker_env.FIELDS


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: `module:factory`, a function (or class) that makes a dm_env.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  make = functools.partial(make_streams, name, settings.kwargs.to_dict())
  return worker_env.make(make, batch_size, settings, f'dm:{name}')


def make_streams(
  name: str, kwargs: dict[str, Any], seeds: Sequence[int]
) -> batched_env.StreamBatch:
  """Makes one stream per seed, in this process; see `build`."""
  factory = factories.find(name)
  if factory is None:
    module, _, function = name.partition(':')
    if function.isidentifier():
      factories.import_modules([module])  # Raises if there is none.
      raise ValueError(
        f'cannot make dm:{name}: the module {module} has no function {function}'
        f'{factories.nearest(module, function)}'
      )
    raise ValueError(
      f'dm:{name} is not found: write dm:module:function, a function that '
      'returns a dm_env environment, in a module that can be imported'
    )
  streams = []
  for seed in seeds:
    own = {'seed': int(seed), **kwargs} if _takes_seed(factory) else kwargs
    env = factories.make(
      functools.partial(factory, **own),
      f'dm:{name}',
      'dm_env environment (dm_env.Environment)',
      ('reset', 'step', 'observation_spec', 'action_spec'),
    )
    streams.append(single_stream_env.SingleStreamEnv(env))
  return batched_env.StreamBatch(streams)


def _takes_seed(factory: Callable[..., Any]) -> bool:
  try:
    return 'seed' in inspect.signature(factory).parameters
  except (TypeError, ValueError):  # Some built-in functions have none.
    return False
