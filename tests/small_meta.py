"""Meta-training at the sizes of the golden vectors."""

from typing import Any

import jax

from disco_rl import agent
from disco_rl.environments import registry
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import meta_gradient as meta_agent
from disco_rl.meta_training import trainer
from disco_rl.value_fns import value_fn
from tests import small

SIZES = dict(num_inner_updates=2, rollout_length=7, batch_size=3)


def critic() -> Any:
  return config_lib.default_critic().replace(
    net_args=dict(dense=(6, 6), head_w_init_std=1e-2)
  )


def make_meta_agent(
  axis_name: Any = None,
  num_devices: int = 1,
  settings: Any = None,
  optimizer: Any = None,
  regularizer: Any = None,
  **changes: Any,
) -> meta_agent.MetaAgent:
  config = config_lib.Config(**{**SIZES, **changes}).per_device(num_devices)
  env = small.environment(config.num_envs)
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=small.settings('disco') if settings is None else settings,
    batch_axis_name=axis_name,
    optimizer=optimizer,
  )
  return meta_agent.MetaAgent(
    an_agent,
    value_fn.ValueFunction(critic(), axis_name),
    env,
    config,
    axis_name,
    regularizer,
  )


def make_group(num_agents: int = 2, rows: int = 5, dense: Any = (9, 8)) -> Any:
  settings = small.settings('disco')
  settings.net_settings.net_args.dense = dense
  return trainer.Group(
    registry.environment_fn('catch', rows=rows, columns=4),
    settings,
    num_agents,
    critic(),
  )


def make_trainer(
  *groups: Any,
  num_devices: int = 1,
  num_agent_shards: int = 1,
  **changes: Any,
) -> trainer.Trainer:
  return trainer.Trainer(
    groups or [make_group()],
    config_lib.Config(**{**SIZES, **changes}),
    devices=jax.devices()[:num_devices],
    num_agent_shards=num_agent_shards,
  )
