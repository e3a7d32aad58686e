"""Meta-training at the sizes of the golden vectors."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import agent
from disco_rl import parallel
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry
from disco_rl.learning import actors
from disco_rl.meta_training import meta_gradient
from disco_rl.meta_training import trainer
from tests.support import small

SIZES = dict(batch_size=3, rollout_length=7, num_envs=3, fresh_in_batch=True)


def config(**changes: Any) -> config_lib.Config:
  """Makes the golden sizes, with changes to the config or its batching."""
  sizes = {k: changes.pop(k) for k in list(changes) if k in _BATCHING}
  batching = batching_lib.Batching(**{**SIZES, **sizes})
  return config_lib.Config(
    batching=batching, **{'num_inner_updates': 2, **changes}
  )


_BATCHING = tuple(
  field.name for field in dataclasses.fields(batching_lib.Batching)
)


def critic() -> dict[str, Any]:
  return {
    **agents.get_settings_critic(),
    'net_args': dict(dense=(6, 6), head_w_init_std=1e-2),
  }


def with_critic(settings: Any) -> Any:
  """Copies an agent's settings, and adds a small critic."""
  settings = settings.copy_and_resolve_references()
  with settings.unlocked():
    settings.value_fn = critic()
  return settings


def make_meta_agent(
  axis_name: Any = None,
  num_devices: int = 1,
  settings: Any = None,
  optimizer: Any = None,
  regularizer: Any = None,
  **changes: Any,
) -> meta_gradient.MetaAgent:
  own_config = config(**changes).per_shard(num_devices)
  env = small.environment(own_config.batching.num_envs)
  an_agent = agent.Agent.for_environment(
    env,
    with_critic(small.settings('disco') if settings is None else settings),
    axis_name,
    optimizer,
  )
  return meta_gradient.MetaAgent(
    an_agent, actors.make(an_agent, env), own_config, axis_name, regularizer
  )


def make_group(num_agents: int = 2, rows: int = 5, dense: Any = (9, 8)) -> Any:
  settings = small.settings('disco')
  settings.net_settings.net_args.dense = dense
  return trainer.Group(
    registry.environment_fn('catch', rows=rows, columns=4),
    with_critic(settings),
    num_agents,
  )


def make_trainer(
  *groups: Any,
  num_devices: int = 1,
  num_lane_shards: int = 1,
  lanes_at_once: int | None = None,
  **changes: Any,
) -> trainer.Trainer:
  return trainer.Trainer(
    groups or [make_group()],
    config(**changes),
    placement=parallel.Placement(
      jax.devices()[:num_devices],
      num_lane_shards=num_lane_shards,
      lanes_at_once=lanes_at_once,
    ),
  )


def in_float64(tree: Any) -> Any:
  """Casts floating-point leaves to float64, inside `small.enable_x64`."""
  return jax.tree.map(
    lambda x: jnp.asarray(
      x, jnp.float64 if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    ),
    tree,
  )
