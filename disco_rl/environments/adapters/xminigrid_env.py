"""Adapts XLand-MiniGrid environments, `xminigrid:<id>`, on the device.

```python
env = registry.get_environment('xminigrid:MiniGrid-DoorKey-5x5', batch_size=8)
```

Observations are the agent's view, with the kind and the colour of every cell as
one-hot vectors. Environments `XLand-MiniGrid-...` have no goal without a set of
rules: they need the setting `benchmark`, and each episode draws its rules from
that set.
"""

from typing import Any

import chex
import jax
from ml_collections import config_dict
import xminigrid
from xminigrid import benchmarks
from xminigrid.core import constants

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments.wrappers import vmapped_env

_SIZES = (constants.NUM_TILES, constants.NUM_COLORS)


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the sizes of the environment among them."""
  _, params = _make(name)
  return config_dict.ConfigDict(
    dict(
      height=params.height,
      width=params.width,
      view_size=params.view_size,  # Odd: the agent is in the middle.
      max_steps=params.max_steps,
      benchmark='',  # A set of rules, see `xminigrid.registered_benchmarks`.
      # How many streams are reset at a time, see `VmappedEnvironment`.
      resets_at_once=1,
    )
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  size = fields.Field(int, low=3, limit=256)
  return dict(
    height=size,
    width=size,
    view_size=fields.Field(
      int,
      low=3,
      limit=255,
      accepts=lambda x: x % 2 == 1,
      words='an odd number',
    ),
    max_steps=fields.Field(int, low=1, limit=fields.MAX_COUNT),
    resets_at_once=vmapped_env.RESETS_AT_ONCE,
  )


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: an id of `xminigrid.registered_environments`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  env, params = _make(name)
  full_name, given = f'xminigrid:{name}', settings.to_dict()
  benchmark, at_once = given.pop('benchmark'), given.pop('resets_at_once')
  rules = _load_rules(full_name, benchmark, hasattr(params, 'ruleset'))
  stream = _XMiniGridStream(env, params.replace(**given), rules, full_name)
  return vmapped_env.VmappedEnvironment(stream, batch_size, at_once)


class _XMiniGridStream:
  """One stream, see `vmapped_env.Stream`."""

  resets_itself = False

  def __init__(self, env: Any, params: Any, rules: Any, name: str):
    self.name = name
    self.num_actions = int(env.num_actions(params))
    self._env = env
    self._params = params
    self._rules = rules

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    params = self._params
    if self._rules is not None:
      rng, rules_rng = jax.random.split(rng)
      params = params.replace(ruleset=self._rules.sample_ruleset(rules_rng))
    timestep = self._env.reset(params, rng)
    return timestep, _encode(timestep)

  def step(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> vmapped_env.Step:
    del rng  # The key is part of the state.
    timestep = self._env.step(self._params, state, action)
    return vmapped_env.Step(
      timestep, _encode(timestep), timestep.reward, timestep.last()
    )


def _encode(timestep: Any) -> jax.Array:
  """Returns the view as one-hot vectors, [view, view, kinds + colours]."""
  return vmapped_env.one_hot_layers(timestep.observation, _SIZES)


def known_names() -> list[str]:
  """Lists the names of all environments."""
  return list(xminigrid.registered_environments())


def _make(name: str) -> tuple[Any, Any]:
  utils.lookup(dict.fromkeys(known_names()), name, 'XLand-MiniGrid environment')
  return xminigrid.make(name)


def _load_rules(name: str, benchmark: str, takes_rules: bool) -> Any:
  """Loads the rules that episodes draw from; None if there are none."""
  known = benchmarks.registered_benchmarks()
  if not takes_rules and benchmark:
    raise ValueError(f'{name} has a fixed goal: leave out the benchmark')
  if not takes_rules:
    return None
  if not benchmark:
    raise ValueError(
      f'{name} has no goal without rules: set its benchmark, one of '
      f'{", ".join(known)}, which the package downloads'
    )
  utils.lookup(dict.fromkeys(known), benchmark, f'benchmark of {name}')
  with foreign.boundary(f'{name}: cannot load the benchmark {benchmark}'):
    return benchmarks.load_benchmark(benchmark)
