"""Adapts Craftax, `craftax:<id>`, which runs on the device.

```python
env = registry.get_environment('craftax:Craftax-Classic-Symbolic-v1', 8)
```

Craftax is a game of its own, not Crafter, and neither is its smaller form
Craftax-Classic: returns of the one say nothing about the other. Generating a
world takes far longer than a step, so that it is done only where episodes end,
see `wrappers.vmapped_env`.
"""

from typing import Any

import chex
from craftax import craftax_env as craftax
from ml_collections import config_dict

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments.adapters import parameters
from disco_rl.environments.wrappers import vmapped_env

NAMES = (
  'Craftax-Symbolic-v1',
  'Craftax-Pixels-v1',
  'Craftax-Classic-Symbolic-v1',
  'Craftax-Classic-Pixels-v1',
)


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings: the scalar parameters of an environment."""
  params = parameters.scalars(_make(name).default_params)
  # How many worlds are generated at a time, see `VmappedEnvironment`.
  return config_dict.ConfigDict(dict(params=params, resets_at_once=1))


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  return {
    **parameters.make_fields(get_config(name).params),
    'resets_at_once': vmapped_env.RESETS_AT_ONCE,
  }


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: one of `NAMES`.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  env, full_name = _make(name), f'craftax:{name}'
  params = parameters.change(env.default_params, settings.params, full_name)
  return vmapped_env.VmappedEnvironment(
    _CraftaxStream(env, params, full_name), batch_size, settings.resets_at_once
  )


class _CraftaxStream:
  """One stream, see `vmapped_env.Stream`."""

  resets_itself = False

  def __init__(self, env: Any, params: Any, name: str):
    self.name = name
    self.num_actions = int(env.action_space(params).n)
    self._env = env
    self._params = params

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    observation, state = self._env.reset(rng, self._params)
    return state, observation

  def step(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> vmapped_env.Step:
    observation, state, reward, is_last, _ = self._env.step(
      rng, state, action, self._params
    )
    return vmapped_env.Step(state, observation, reward, is_last)


def known_names() -> list[str]:
  """Lists the names of all environments."""
  return list(NAMES)


def _make(name: str) -> Any:
  utils.lookup(dict.fromkeys(NAMES), name, 'Craftax environment')
  return craftax.make_craftax_env_from_name(name, auto_reset=False)
