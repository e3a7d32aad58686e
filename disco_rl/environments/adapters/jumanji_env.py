"""Adapts Jumanji environments, `jumanji:<id>`, which run on the device.

```python
env = registry.get_environment('jumanji:Game2048-v1', batch_size=8)
```

Observations are the package's as a dict. An action with several parts (row and
column) is a single number, in row-major order. The observation's mask of legal
actions, `action_mask`, is also that of the timestep (see
`networks.action_masks`), if it has an entry for every action; where no action
is legal, and any ends the episode, all count as legal.
"""

from collections.abc import Iterator
import contextlib
import logging
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import jumanji
from jumanji import specs
from ml_collections import config_dict
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import base
from disco_rl.environments import factories
from disco_rl.environments import foreign
from disco_rl.environments.wrappers import vmapped_env

# Environments that download data when they are made without a generator.
_DOWNLOADS = ('Sokoban-v0',)
_MAX_ACTIONS = 2**20
_MASK = 'action_mask'


def get_config(name: str) -> config_dict.ConfigDict:
  """Makes the default settings, the same for all environments."""
  _check_name(name)
  return config_dict.ConfigDict(
    dict(
      kwargs=dict(),  # Keyword arguments of `jumanji.make`.
      # `module:function` that returns a generator of instances (levels,
      # mazes), instead of the environment's own.
      generator='',
      # How many streams are reset at a time, see `VmappedEnvironment`.
      resets_at_once=1,
    )
  )


def get_fields(name: str) -> dict[str, fields.Field]:
  """Returns the types and ranges of settings, see `get_config`."""
  del name
  return dict(resets_at_once=vmapped_env.RESETS_AT_ONCE)


def build(
  name: str, batch_size: int, settings: config_dict.ConfigDict
) -> base.Environment:
  """Builds B streams of an environment.

  Args:
    name: an id of `jumanji.registered_environments`, with discrete actions and
      one reward.
    batch_size: B.
    settings: see `get_config`.

  Returns:
    The environment.
  """
  _check_name(name)
  env = _make(name, settings.kwargs.to_dict(), settings.generator)
  kind = _MaskedStream if _has_mask(env) else _JumanjiStream
  stream = kind(env, f'jumanji:{name}')
  return vmapped_env.VmappedEnvironment(
    stream, batch_size, settings.resets_at_once
  )


class _JumanjiStream:
  """One stream, see `vmapped_env.Stream`."""

  resets_itself = False

  def __init__(self, env: Any, name: str):
    self.name = name
    spec = env.action_spec
    is_discrete = isinstance(spec, specs.DiscreteArray)
    is_joint = isinstance(spec, specs.MultiDiscreteArray)
    vmapped_env.check_discrete(name, is_discrete or is_joint, spec)
    # Of the parts of an action; empty if it has none.
    self._sizes = tuple(int(n) for n in spec.num_values) if is_joint else ()
    self.num_actions = math.prod(self._sizes or (int(spec.num_values),))
    if is_joint and self.num_actions > _MAX_ACTIONS:
      raise foreign.InvalidEnvironmentError(
        f'{name} has {" x ".join(map(str, self._sizes))} joint actions; at '
        f'most {_MAX_ACTIONS} are supported'
      )
    if env.reward_spec.shape:
      raise foreign.InvalidEnvironmentError(
        f'{name} has a reward for each of its {env.reward_spec.shape[0]} '
        'agents: only environments with one reward are supported'
      )
    self._env = env

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    state, timestep = self._env.reset(rng)
    return state, _as_dict(timestep.observation)

  def step(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> vmapped_env.Step:
    del rng  # The key is part of the state.
    if self._sizes:
      action = jnp.stack(jnp.unravel_index(action, self._sizes))
    state, timestep = self._env.step(state, action)
    observation = _as_dict(timestep.observation)
    return vmapped_env.Step(
      state, observation, timestep.reward, timestep.last()
    )


class _MaskedStream(_JumanjiStream):
  """One stream of an environment with a mask of legal actions."""

  def legal_actions(self, observation: Any) -> jax.Array:
    mask = observation[_MASK].reshape(-1)
    return mask | ~jnp.any(mask)


def _has_mask(env: Any) -> bool:
  """Returns whether observations have a mask with an entry per action."""
  sizes = getattr(env.action_spec, 'num_values', ())
  _, timestep = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
  observation = _as_dict(timestep.observation)
  mask = observation.get(_MASK) if isinstance(observation, dict) else None
  if mask is None or mask.dtype != np.bool_:
    return False
  return mask.shape == tuple(int(n) for n in np.atleast_1d(sizes))


def _as_dict(observation: Any) -> Any:
  """Converts records in an observation to dicts, by the names of fields."""
  if isinstance(observation, jax.Array):
    return observation
  if hasattr(observation, '_asdict'):
    observation = observation._asdict()
  elif hasattr(observation, '__dataclass_fields__'):
    names = observation.__dataclass_fields__
    observation = {name: getattr(observation, name) for name in names}
  if isinstance(observation, dict):
    return {name: _as_dict(part) for name, part in observation.items()}
  return observation


def known_names() -> list[str]:
  """Lists the names of all environments, also of those that are refused."""
  return sorted(jumanji.registered_environments())


def _check_name(name: str) -> None:
  utils.lookup(dict.fromkeys(known_names()), name, 'Jumanji environment')


def _make(name: str, kwargs: dict[str, Any], generator: str) -> Any:
  if generator:
    factory = factories.find(generator)
    if factory is None:
      raise ValueError(
        f'jumanji:{name}: no function {generator} was found: write '
        'generator=module:function'
      )
    with foreign.boundary(f'cannot make the generator {generator}'):
      kwargs = {**kwargs, 'generator': factory()}
  elif name in _DOWNLOADS and 'generator' not in kwargs:
    try:
      with _quietly('huggingface_hub'):
        return jumanji.make(name, **kwargs)
    except Exception as error:
      raise foreign.ForeignCodeError(
        f'jumanji:{name} needs levels that the package downloads, which failed '
        f'({foreign.describe(error)}): give another generator (--set '
        'env.generator=jumanji.environments.routing.sokoban.generator:'
        "SimpleSolveGenerator), or use this library's own sokoban"
      ) from error
  return jumanji.make(name, **kwargs)


@contextlib.contextmanager
def _quietly(logger: str) -> Iterator[None]:
  """Suppresses the messages of a package, e.g. about repeated attempts."""
  its_logger = logging.getLogger(logger)
  level = its_logger.level
  its_logger.setLevel(logging.CRITICAL)
  try:
    yield
  finally:
    its_logger.setLevel(level)
