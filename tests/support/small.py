"""The small sizes of the golden vectors, and experience of those sizes."""

from collections.abc import Sequence
from typing import Any

import jax
from ml_collections import config_dict

from disco_rl import agent
from disco_rl import compat
from disco_rl import types
from disco_rl import utils
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.environments import jittable_envs
from disco_rl.environments import registry
from disco_rl.evaluation import population

NUM_ACTIONS = 3


def environment(
  batch_size: int = 3, rows: int = 5, columns: int = 4
) -> jittable_envs.CatchJittableEnvironment:
  return jittable_envs.CatchJittableEnvironment(
    batch_size, config_dict.ConfigDict(dict(rows=rows, columns=columns))
  )


def settings(rule: str) -> config_dict.ConfigDict:
  config = agents.get_settings(rule)
  net_args = config.net_settings.net_args
  net_args.dense = (9, 8)
  if 'model_kwargs' in net_args:
    net_args.model_kwargs = dict(head_mlp_hiddens=(6,), lstm_size=5)
  if rule == 'disco':
    config.learning_rate = 1e-2
    config.update_rule.net.update(
      prediction_size=7,
      hidden_size=10,
      embedding_size=(5, 1),
      policy_target_channels=(4,),
      policy_channels=(4, 2),
    )
    config.update_rule.net.meta_rnn_kwargs.update(
      policy_channels=(4, 2),
      embedding_size=(5,),
      pred_embedding_size=(5, 1),
      hidden_size=6,
    )
    config.update_rule.update(
      num_bins=11, max_abs_value=5.0, value_discount=0.97
    )
  elif rule in ('actor_critic', 'ppo'):
    config.update_rule.update(num_bins=11, max_abs_value=5.0)
  elif rule == 'policy_gradient':
    config.value_fn.net_args.dense = (6, 6)
  return config


def make_agent(
  rule: str,
  config: config_dict.ConfigDict | None = None,
  axis_name: Any = None,
) -> agent.Agent:
  env = environment()
  return agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=settings(rule) if config is None else config,
    batch_axis_name=axis_name,
  )


def act(
  an_agent: agent.Agent,
  params: types.AgentParams,
  rng: jax.Array,
  num_steps: int,
  batch_size: int = 3,
) -> types.ActorRollout:
  """Makes a rollout of `num_steps` steps on Catch, from the first step."""
  env = environment(batch_size)
  env_state, timestep = jax.jit(env.reset)(rng)
  state = an_agent.initial_actor_state(rng, batch_size)
  steps = []
  actor_step, env_step = jax.jit(an_agent.actor_step), jax.jit(env.step)
  for key in jax.random.split(rng, num_steps):
    step, state = actor_step(params, key, timestep, state)
    env_state, timestep = env_step(env_state, step.actions)
    steps.append(step)
  return types.ActorRollout.from_timestep(utils.tree_stack(steps))


def rule_inputs(
  an_agent: agent.Agent, num_steps: int = 5, batch_size: int = 3, seed: int = 0
) -> types.UpdateRuleInputs:
  """Makes random but valid inputs of the agent's rule."""
  rng = jax.random.PRNGKey(seed)
  env = environment()
  spec = an_agent.update_rule.agent_output_spec(env.single_action_spec())

  def outs(rng: jax.Array) -> dict[str, jax.Array]:
    keys = jax.random.split(rng, len(spec))
    return {
      name: jax.random.normal(key, (num_steps + 1, batch_size) + s.shape)
      for key, (name, s) in zip(keys, sorted(spec.items()), strict=True)
    }

  keys = jax.random.split(rng, 8)
  steps, longer = (num_steps, batch_size), (num_steps + 1, batch_size)
  value_out = None
  if an_agent.update_rule.needs_value_out:
    value_out = types.ValueOuts(
      adv=jax.random.normal(keys[6], steps),
      normalized_adv=jax.random.normal(keys[7], steps),
    )
  return types.UpdateRuleInputs(
    observations=jax.random.uniform(keys[0], longer + (5, 4, 1)),
    actions=jax.random.randint(keys[1], longer, 0, NUM_ACTIONS),
    rewards=jax.random.normal(keys[2], steps),
    is_terminal=jax.random.bernoulli(keys[3], 0.2, steps),
    agent_out=outs(keys[4]),
    behaviour_agent_out=outs(keys[5]),
    value_out=value_out,
  )


SIZES = dict(batch_size=8, rollout_length=6, num_envs=2, replay_capacity=16)


def make_population(
  rule: str = 'actor_critic',
  env_name: str = 'catch',
  seeds: Sequence[int] = (0,),
  num_devices: int = 1,
  lanes_at_once: int | None = None,
  overlap_acting: bool = False,
  **sizes: int,
) -> tuple[population.Population, Any]:
  """Makes a small population and random η."""
  small_population = population.Population(
    registry.environment_fn(env_name, rows=5, columns=4),
    settings(rule),
    batching_lib.Batching(**{**SIZES, **sizes}),
    seeds=seeds,
    devices=jax.devices()[:num_devices],
    lanes_at_once=lanes_at_once,
    overlap_acting=overlap_acting,
  )
  init_params = small_population.agent.update_rule.init_params
  eta, _ = init_params(jax.random.PRNGKey(9))
  return small_population, eta


enable_x64 = compat.enable_x64
